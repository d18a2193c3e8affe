"""Warm workers: forks of a process that has imported the frameworks, each with its own outcome."""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest

from convert import plugin
from convert.batch import local_engine
from convert.batch.fork_server_pool import fork_server_socket, import_stages, kinds_and_formats
from convert.batch.plan import Task
from convert.batch.worker import TaskResult, run
from convert.processes.fork_client import ADDRESS, ForkedProcess, fork
from convert.processes.marks import mark_of
from convert.processes.process import execute
from convert.processes.sandbox import CALLS, FILES, available_measures
from convert.request.source import Source
from tests.support.batch_tools import rules, tiny
from tests.support.marks import slow


@pytest.mark.slow
@pytest.mark.not_core
def test_forks_end_each_in_its_own_way(tmp_path: Path) -> None:
    bad, path = rules(tmp_path / "rules"), tiny(tmp_path / "a.onnx")
    found = {}
    with fork_server_socket(("onnx",), ("onnx",)) as address:
        assert address
        for name in ("good", "crash", "hang", "hog", "error", "after"):
            options = {"verify": name == "after", **({"rules": [bad[name]]} if name in bad else {})}
            seconds, memory = (2.0 if name == "hang" else 120.0), (600 << 20 if name == "hog" else None)
            ending = run(Task(name, path, "onnx", tmp_path / f"{name}.onnx", options, seconds, memory), None, address)
            found[name] = ending.outcome
        mine = f"{os.getpid():010d}-"
        left = [p for p in os.listdir("/proc") if p.isdigit() and mark_of(int(p)).startswith(mine)]
        assert len(left) == 2  # the warm process, and the second one for runtimes with other variables
    assert found == {"good": "converted", "crash": "crash", "hang": "timeout", "hog": "memory", "error": "bad input",
                     "after": "verified"}  # fmt: skip
    onnx.checker.check_model(tmp_path / "after.onnx")


@pytest.mark.not_core
def test_a_client_that_ends_before_it_has_its_answer_ends_nobody_else(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != ADDRESS}
    request = {"entry": "run", "arguments": [str(tmp_path)], "environment": environment, "folder": str(tmp_path),
               "limit": [-1, -1], "variables": {}, "kind": "onnx"}  # fmt: skip
    with fork_server_socket(("onnx",), ("onnx",)) as address, open(tmp_path / "log", "w") as log:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(address)
            socket.send_fds(client, [json.dumps(request).encode()], [log.fileno(), log.fileno()])
            assert select.select([client], [], [], 60)[0]  # the answer was sent, and nobody reads it
        task = Task("a", tiny(tmp_path / "a.onnx"), "onnx", tmp_path / "out.onnx", {"verify": False})
        assert run(task, None, address).outcome == "converted"
        for words in (
            b"{",
            b"[" * 100_000,
            b"[]",
            b'{"confine": 3}',
            b"{}",
            json.dumps({**request, "limit": 0}).encode(),
        ):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.connect(address)
                socket.send_fds(client, [words], [log.fileno()])
                client.settimeout(60)
                assert client.recv(100) == b""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(address)  # the process still exists


CONFINED = """
import json, os, socket, sys
from pathlib import Path
from convert.processes import fork_client
from convert.processes.sandbox import confine_command
from convert.processes.warm import keep_warm_processes

address, own, elsewhere = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
os.environ[fork_client.ADDRESS] = address
bounds = (own, [own / "m.onnx"])
keep_warm_processes(*bounds)
confine_command(*bounds)
# What code of a file's own might try.
fork_client._connections[address].send(json.dumps({"confine": [str(elsewhere)]}).encode())
log = os.open(own / "log", os.O_RDWR | os.O_CREAT)
def touch(path, address=address, variables=None):
    made = fork_client.fork("subprocess:call", ["touch", str(path)], dict(os.environ), log, log, address, variables)
    if made is not None:
        made.wait(60)
    return path.exists()
second = fork_client.second_address(address)
print(touch(own / "a"), touch(elsewhere / "a"), touch(own / "b", second, {"HOME": "x"}), touch(elsewhere / "b", second))
fork_client._connections.clear()
print(touch(own / "c"), touch(elsewhere / "c"))
"""


@pytest.mark.not_core
@pytest.mark.skipif(not {FILES, CALLS} <= set(available_measures()), reason="no Landlock or no seccomp here")
def test_what_a_confined_task_asks_for_is_confined_as_it_is(tmp_path: Path) -> None:
    """The warm process itself is unconfined, and would start anything for a task whose file runs code."""
    own, elsewhere = tmp_path / "own", tmp_path / "elsewhere"
    own.mkdir()
    elsewhere.mkdir()
    with fork_server_socket(("onnx",), ("onnx",)) as address:
        command = [sys.executable, "-c", CONFINED, address, str(own), str(elsewhere)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    # The task gets what it needs, but nothing elsewhere, no variables that no runtime reads, and no new connection.
    assert done.stdout.split() == ["True", "False", "False", "False", "False", "False"], done.stderr
    assert not list(elsewhere.iterdir())


HOSTILE = """
import json, os, socket, sys, time
from pathlib import Path
from convert.processes import fork_client

address, own, how = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
fork_client.keep_confined_connection(address, own, [])
holder = fork_client._connections[address]
holder.settimeout(2)
kept = []
request = {"entry": "subprocess:call", "arguments": ["sleep", "5"], "environment": {}, "folder": str(own),
           "limit": [-1, -1], "variables": {}, "kind": "onnx"}
try:
    for number in range(5000):
        if how == "a file":
            with open(own / "file", "w+") as file:
                socket.send_fds(holder, [fork_client.OPEN], [file.fileno()])
            break
        if how == "connections":
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            socket.send_fds(holder, [fork_client.OPEN], [theirs.fileno()])
            theirs.close()
            if number < 900:
                kept.append(ours)
        if how == "answers that nobody reads":
            holder.send(json.dumps({**request, "variables": {"A": "x"}}).encode())
        if how == "a socket that is not connected":
            odd = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            socket.send_fds(holder, [fork_client.OPEN], [odd[0].fileno()])
            kept.append(odd) if number < 20 else None
            break
        if how == "forks" and number < 200:
            holder.send(json.dumps(request).encode())
except OSError:
    pass
print("sent", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.skipif(sys.platform != "linux", reason="forks are served on Linux")
@pytest.mark.parametrize("how", ["a file", "connections", "answers that nobody reads", "a socket that is not connected",
                                 "forks"])  # fmt: skip
def test_a_confined_task_takes_nothing_from_the_others(how: str, tmp_path: Path) -> None:
    """A confined task can neither use the warm process's descriptors, nor keep it waiting, nor end it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))  # limits the warm process
    with fork_server_socket(("onnx",), ("onnx",)) as address:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        command = [sys.executable, "-c", HOSTILE, address, str(tmp_path), how]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as hostile:
            assert hostile.stdout is not None
            assert hostile.stdout.readline() == b"sent\n"
            task = Task("a", tiny(tmp_path / "a.onnx"), "onnx", tmp_path / "out.onnx", {"verify": False}, 60.0, None)
            with open(tmp_path / "log", "w") as log:
                made = fork("subprocess:call", ["true"], dict(os.environ), log.fileno(), log.fileno(), address)
                assert made is not None  # a fork, not a new interpreter
                assert made.wait(20) == 0
            assert run(task, None, address).outcome == "converted"
            hostile.kill()


@pytest.mark.not_core
def test_without_a_warm_process_it_is_an_interpreter(tmp_path: Path) -> None:
    task = Task("a", tiny(tmp_path / "a.onnx"), "onnx", tmp_path / "out.onnx", {"verify": False})
    assert run(task, None, str(tmp_path / "nowhere")).outcome == "converted"


def test_what_a_plan_needs(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"")
    sources = [tiny(tmp_path / "a.onnx"), tmp_path / "broken.onnx", tmp_path / "missing.pt"]
    tasks = [Task(p.stem, p, f, tmp_path / f) for p in sources for f in ("tf", "onnx")]
    assert kinds_and_formats(tasks) == (("onnx",), ("onnx", "tf"))
    found, stage_of = import_stages(tasks)
    assert found == [(("onnx",), ("tf",)), ((), ("onnx",))]
    assert stage_of == {str(tmp_path / "tf"): 0, str(tmp_path / "onnx"): 1}


@pytest.mark.slow
@pytest.mark.not_core
def test_each_task_begins_with_the_stage_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {}

    def noting(task: Task, stop: threading.Event | None, address: str) -> TaskResult:
        taken[task.name] = Path(address).name
        return run(task, stop, address)

    monkeypatch.setattr(local_engine, "run", noting)
    source = tiny(tmp_path / "a.onnx")
    tasks = [
        Task(str(i), source, form, tmp_path / f"{i}.{form}", {"verify": False})
        for i, form in enumerate(("onnx", "caffe2", "onnx", "caffe2"))
    ]
    endings: dict[str, str] = {}
    local_engine.run_all(
        tasks, 2, lambda task: None, lambda task, end: endings.update({task.name: end.outcome}), warm=True
    )
    assert endings == dict.fromkeys("0123", "converted")
    assert taken == {"0": "forks.0", "1": "forks.1", "2": "forks.0", "3": "forks.1"}
    assert not [p for p in os.listdir("/proc") if p.isdigit() and mark_of(int(p)).startswith(f"{os.getpid():010d}-")]


@pytest.mark.long
def test_no_room_starts_a_thread_when_it_is_imported() -> None:
    kinds = [kind for frontend in plugin.frontends().values() for kind in frontend.KINDS]
    program = (
        "from convert.processes.fork_server import preload, thread_count\n"
        f"preload({kinds}, {list(plugin.formats())})\n"
        "print(thread_count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.stdout.split()[-1] == "1"


@pytest.mark.not_core
@pytest.mark.parametrize("kind", slow(["torch-module", "onnx"], "torch-module"))
def test_what_libraries_write_when_they_are_imported_goes_with_the_warm_process(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing torch._dynamo creates a cache folder for its compiler in the temporary folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    with fork_server_socket((kind,), ()) as address:
        assert address
        assert all(path.name.startswith("convert-tmp-") for path in tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.not_core
def test_runtimes_that_are_told_something_else_have_a_warm_process_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second process takes the variables of its first client; a client with other variables gets an interpreter."""
    source = Source("onnx", tiny(tmp_path / "a.onnx"))
    feed = {str(i.name): np.ones([d.dim_value or 1 for d in i.type.tensor_type.shape.dim], np.float32)
            for i in onnx.load(source.file).graph.input}  # fmt: skip
    forked = []
    with fork_server_socket(("onnx",), ("onnx",)) as address:
        assert address
        monkeypatch.setenv(ADDRESS, address)
        for value in ("", "1", "1", "2"):
            own = {"TOLD": value} if value else {}
            monkeypatch.setattr(plugin.runners()["onnx"], "environment", lambda source, own=own: own, raising=False)
            child = execute(source, [feed])
            forked.append(isinstance(child.process, ForkedProcess))
            assert len(child.results()["float32"]) == 1
    assert forked == [True, True, True, False]
