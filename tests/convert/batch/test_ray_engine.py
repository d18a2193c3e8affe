"""The Ray engine on a cluster of several raylets of this machine, one of which is killed while it works."""

from __future__ import annotations

import json
import os
import sys
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
from convert.errors import UsageError
from convert.runners.marks import mark_of
from tests.support.batch_tools import rules, tiny


@pytest.mark.parametrize(("chosen", "wanted"), [(None, "0"), ("1", "1")])
def test_a_cluster_that_is_started_here_reports_to_nobody(
    chosen: str | None, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module in Ray's place keeps what is set when it is connected; who wants the reports has them."""
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


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A head without CPUs, and two machines of one CPU."""
    ray = pytest.importorskip("ray", reason="Ray is an extra")
    from ray.cluster_utils import Cluster as Raylets

    monkeypatch.setenv("RAY_worker_niceness", "0")  # on a busy machine 15, the default, may be never
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
    """Of what needs 500 MB beside itself twice 400 MiB is enough; what takes all there is never ends otherwise."""
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
