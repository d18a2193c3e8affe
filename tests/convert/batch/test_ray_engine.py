"""The Ray engine on a cluster of several raylets of this machine, one of which is killed while it works."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import pytest

from convert.batch import ray_engine
from convert.batch.plan import Task
from convert.batch.ray_engine import Cluster
from convert.batch.run import run
from convert.batch.show import LineView
from convert.errors import ConvertError, UsageError
from convert.processes.marks import mark_of
from tests.support.batch_tools import rules, tiny


@pytest.mark.parametrize(("chosen", "wanted"), [(None, "0"), ("1", "1")])
def test_a_cluster_that_is_started_here_reports_to_nobody(
    chosen: str | None, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for Ray records its settings when it is connected; a user who asks for usage reports has them."""
    seen = []
    stand_in = ModuleType("ray")
    stand_in.__spec__ = ModuleSpec("ray", None)
    stand_in.is_initialized = lambda: False  # type: ignore[attr-defined]
    stand_in.init = lambda **given: seen.append(os.environ.get("RAY_USAGE_STATS_ENABLED"))  # type: ignore[attr-defined]
    stand_in.shutdown = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", chosen or "")
    if chosen is None:
        monkeypatch.delenv("RAY_USAGE_STATS_ENABLED")
    with ray_engine._ray_connection(Cluster()) as found:
        assert found is stand_in
    assert seen == [wanted]


@pytest.mark.parametrize(
    ("address", "error", "text"),
    [("", ConvertError, "no Ray cluster starts here: too slow"), ("h:1", UsageError, "no Ray cluster answers at h:1")],
)
def test_a_cluster_that_does_not_start(
    address: str, error: type[ConvertError], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray raises a plain Exception if its processes start too slowly."""

    def init(**given: Any) -> None:
        raise Exception("too\nslow")

    stand_in = ModuleType("ray")
    stand_in.__spec__ = ModuleSpec("ray", None)
    stand_in.is_initialized = lambda: False  # type: ignore[attr-defined]
    stand_in.init = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    with pytest.raises(ConvertError, match=text) as raised, ray_engine._ray_connection(Cluster(address)):
        pass
    assert type(raised.value) is error


def _listening(mark: str) -> set[str]:
    """Return the addresses, as the kernel writes them, on which processes listen whose marks begin like this."""
    sockets = set()
    for pid in (name for name in os.listdir("/proc") if name.isdigit() and mark_of(int(name)).startswith(mark)):
        with contextlib.suppress(OSError):
            sockets |= {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {row[1].rpartition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


_OTHERS = ("INT", "HUP", "QUIT", "USR1", "USR2", "XCPU", "ALRM", "ABRT")


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize("end", ["", "KILL", "TERM", *(pytest.param(name, marks=pytest.mark.long) for name in _OTHERS)])
def test_a_cluster_that_is_started_here_leaves_nothing(end: str, tmp_path: Path) -> None:
    """Nothing is left in the home or temporary folder or as a process, and the cluster listens on loopback only."""
    pytest.importorskip("ray", reason="Ray is an extra")
    for name in ("zoo", "t", "home"):
        (tmp_path / name).mkdir()
    bad, source = rules(tmp_path / "rules"), tiny(tmp_path / "zoo" / "a.onnx")
    words = [str(source), "--to", "onnx", "-o", "out", "--engine", "ray", "--no-verify"]
    manifest = tmp_path / "m.toml"
    manifest.write_text(f'[[models]]\nsource = "{source}"\nto = "onnx"\nverify = false\nrules = ["{bad["hang"]}"]\n')
    words = [str(manifest) if end else str(source), *words[1:]]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "t"), "HOME": str(tmp_path / "home")}
    process = subprocess.Popen([sys.executable, "-m", "convert", "batch", *words], cwd=tmp_path, env=environment)
    mark = f"{process.pid:010d}-"
    if end:
        journal = tmp_path / "out" / "journal.jsonl"
        until = time.monotonic() + 120
        while time.monotonic() < until and not (journal.exists() and "started" in journal.read_text()):
            time.sleep(0.1)
        loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
        assert _listening(mark)
        assert _listening(mark) <= loopback
        process.send_signal(getattr(signal, f"SIG{end}"))
    number = getattr(signal, f"SIG{end}", 0)
    assert process.wait(120) == {"": 0, "KILL": -9}.get(end, 128 + number)
    until = time.monotonic() + 30
    while time.monotonic() < until and (any((tmp_path / "t").iterdir()) or _marked(mark)):
        time.sleep(0.1)
    assert not _marked(mark)
    assert not list((tmp_path / "t").iterdir())
    assert not list((tmp_path / "home").rglob("*"))


def _marked(mark: str) -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit() and mark_of(int(name)).startswith(mark)]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Start a head without CPUs, and two machines of one CPU."""
    ray = pytest.importorskip("ray", reason="Ray is an extra")
    from ray.cluster_utils import Cluster as Raylets

    monkeypatch.setenv("RAY_worker_niceness", "0")  # on a busy machine, the default of 15 may never be reached
    raylets = Raylets(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 80 << 20})
    for _ in range(2):
        raylets.add_node(num_cpus=1, object_store_memory=80 << 20)
    ray.init(address=raylets.address, log_to_driver=False)
    yield raylets
    ray.shutdown()
    raylets.shutdown()


class Killing(LineView):
    """A view that kills a machine once three tasks have ended, while others run."""

    def __init__(self, total: int, kill: Any) -> None:
        super().__init__(total, True, True)
        self.kill = kill

    def ended(self, record: dict[str, Any]) -> None:
        self.done += 1
        if self.done == 3:
            self.kill()


@pytest.mark.long
def test_a_machine_that_dies_loses_nothing_and_doubles_nothing(cluster: Any, tmp_path: Path) -> None:
    bad, out = rules(tmp_path / "rules"), tmp_path / "out"
    tasks = [
        Task(f"{i}", tiny(tmp_path / f"{i}.onnx", seed=i), "onnx", out / f"{i}.onnx", {"verify": False}, 600.0)
        for i in range(8)
    ]
    for name, outcome in {"crash": 600.0, "hang": 5.0}.items():
        path = tiny(tmp_path / f"{name}.onnx")
        tasks.append(Task(name, path, "onnx", out / f"{name}.onnx", {"verify": False, "rules": [bad[name]]}, outcome))
    victims = list(cluster.worker_nodes)

    def kill() -> None:
        cluster.remove_node(victims[0], allow_graceful=False)
        cluster.add_node(num_cpus=1, object_store_memory=80 << 20)

    records = run(tasks, out, Killing(len(tasks), kill), jobs=None, force=False, warm=True, on=Cluster())
    assert len(victims) == 2
    outcomes = {r["name"]: r["outcome"] for r in records}
    assert outcomes == {**{f"{i}": "converted" for i in range(8)}, "crash": "crash", "hang": "timeout"}
    assert next(r for r in records if r["name"] == "crash")["attempts"] == 2
    lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    assert Counter(r["name"] for r in lines if r["event"] == "ended") == Counter(t.name for t in tasks)
    for i in range(8):
        onnx.checker.check_model(out / f"{i}.onnx")
    assert not list(out.glob("*.part*"))
    left = [
        p
        for p in os.listdir("/proc")
        if p.isdigit() and mark_of(int(p)) and "hang" in Path(f"/proc/{p}/cmdline").read_text()
    ]
    assert left == []


@pytest.mark.long
def test_lack_of_memory_is_sent_again_with_more(cluster: Any, tmp_path: Path) -> None:
    """A task that needs 500 MB succeeds with twice 400 MiB; one that takes all memory fails with any limit."""
    bad, out = rules(tmp_path / "rules"), tmp_path / "out"
    tasks = [
        Task(name, tiny(tmp_path / f"{name}.onnx"), "onnx", out / f"{name}.onnx",
             {"verify": False, **({"rules": [bad[name]]} if name in bad else {})}, 600.0, 400 << 20)
        for name in ("small", "large", "hog")
    ]  # fmt: skip
    records = run(tasks, out, LineView(3, True, True), jobs=None, force=False, warm=True, on=Cluster())
    assert {r["name"]: (r["outcome"], r["attempts"]) for r in records} == {
        "small": ("converted", 1),
        "large": ("converted", 2),
        "hog": ("memory", 2),
    }
    assert records[2]["reason"] == "took more than 800 MiB"
    lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    assert Counter(r["name"] for r in lines if r["event"] == "ended") == Counter(t.name for t in tasks)


@pytest.mark.long
def test_a_batch_that_no_machine_can_take_is_refused(cluster: Any, tmp_path: Path) -> None:
    task = Task("a", tiny(tmp_path / "a.onnx"), "onnx", tmp_path / "out/a.onnx", {"verify": False})
    with pytest.raises(UsageError, match="no machine of the cluster has 64 CPUs"):
        run([task], tmp_path / "out", LineView(1, True, True), jobs=None, force=False, on=Cluster(cpus=64))
