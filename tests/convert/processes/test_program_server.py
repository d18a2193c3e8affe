"""A program that verifies imports its runtimes in one more process, and leaves no process behind."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from convert.processes import program_server
from convert.processes.fork_client import ADDRESS
from convert.processes.program_server import start_server  # the original: tests of this folder do not replace it

FIXTURE = Path(__file__).parents[3] / "fixtures" / "mnist_cnn.onnx"

PROGRAM = """
import json, os, sys, time
from pathlib import Path
import convert
from convert.processes import process
from convert.processes import program_server

program_server.IDLE = 1.0
started, fork = [], process.fork
process.fork = lambda *words, **more: started.append(fork(*words, **more)) or started[-1]
found = []
for turn in range(4):
    if turn == 3:
        servers = list(program_server._servers.values())
        while any(server.serves() for server in servers):  # nobody asks for a second
            time.sleep(0.1)
        os.environ["TOLD"] = "something else"
    verdict = convert.verify(sys.argv[1], sys.argv[1]).verdict.status
    found.append([verdict, sorted({child is not None for child in started})])
    started.clear()
pids = [server.process.pid for server in program_server._servers.values()]
print(json.dumps([found, pids]))
"""


@pytest.mark.not_core
@pytest.mark.skipif(sys.platform != "linux", reason="forks are served on Linux")
def test_runs_are_forked() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(FIXTURE)], capture_output=True, text=True, check=True)
    found, pids = json.loads(done.stdout)
    assert found == [["PASS", [True]], ["PASS", [True]], ["PASS", [True]], ["PASS", [True]]]
    until = time.monotonic() + 10
    while (left := [pid for pid in pids if _runs(pid)]) and time.monotonic() < until:
        time.sleep(0.01)
    assert pids
    assert not left


CONVERSIONS = """
import json, sys
from pathlib import Path
import convert
from convert.processes import process
from convert.processes import program_server

started, fork = [], process.fork
process.fork = lambda *words, **more: started.append(fork(*words, **more)) or started[-1]
found, servers = [], []
for turn in range(2):
    verdict = convert.convert(sys.argv[1], "tf", Path(sys.argv[2]), force=True).verdict.status
    found.append([verdict, {child is not None for child in started} == {True}, len(started) > 2])
    servers.append(sorted(server.process.pid for server in program_server._servers.values()))
    started.clear()
print(json.dumps([found, len(servers[0]), servers[0] == servers[1]]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks are served on Linux")
def test_variables_that_libraries_set_start_no_other_process(tmp_path: Path) -> None:
    """PyTorch and TensorFlow set some during import, which is after the processes were started."""
    source = FIXTURE.with_suffix(".pt")
    environment = os.environ.copy()
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TF2_BEHAVIOR", "KERAS_BACKEND", ADDRESS):
        environment.pop(name, None)
    command = [sys.executable, "-c", CONVERSIONS, str(source), str(tmp_path / "out.savedmodel")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    assert json.loads(done.stdout) == [[["PASS", True, True], ["PASS", True, True]], 2, True]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.skipif(sys.platform != "linux", reason="forks are served on Linux")
def test_a_server_outlives_the_thread_that_started_it_and_its_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its forks for other threads would die with it, and those threads would report a lack of memory."""
    servers: dict[str, program_server.ProgramServer] = {}
    monkeypatch.setattr(program_server, "_servers", servers)
    thread = threading.Thread(target=start_server, args=("a runner", "onnx", ()))
    thread.start()
    thread.join()
    first = servers["a runner"].process
    assert servers["a runner"].use()
    monkeypatch.setenv("A_VARIABLE", "something else")
    start_server("a runner", "onnx", ())
    second = servers["a runner"].process
    assert second is not first
    assert servers["a runner"].use()
    gc.collect()
    assert first.poll() is None
    for process in (first, second):
        process.kill()
        process.wait()


def test_a_child_of_the_program_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork of the program inherits its parent's server, and cannot wait for it."""
    server = object.__new__(program_server.ProgramServer)
    server.environment, server.ready = {"other": os.devnull}, True
    server.process = subprocess.Popen([sys.executable, "-c", ""])
    assert not server.serves()
    server.process.wait()
    monkeypatch.setitem(program_server._servers, "a runner", server)
    assert program_server.server_address("a runner") == ""
