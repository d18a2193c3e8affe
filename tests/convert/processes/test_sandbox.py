"""A process that runs a model is confined, even if the checks of its file have missed something."""

from __future__ import annotations

import os
import signal as signals
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from convert.processes.fork_client import ADDRESS
from convert.processes.sandbox import CALLS, FILES, LIMITS, available_measures, in_confined_thread

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's"),
    pytest.mark.not_core,  # every test starts programs
]

MEASURES = available_measures()

_PROGRAM = """
import ctypes, fcntl, os, resource, socket, subprocess, sys, tempfile, threading
from pathlib import Path
from convert.processes.sandbox import close_programs, confine, keep_from_forking
own, other = Path(sys.argv[1]), Path(sys.argv[2])
confine(own, 60, None, programs=len(sys.argv) > 4)
def shell():
    assert subprocess.run(["touch", other / "touched"]).returncode == 0
lib = ctypes.CDLL(None, use_errno=True)
def failed():
    raise OSError(ctypes.get_errno(), "refused")
{code}
"""

ACTIONS = {
    "write": "(other / 'new').write_text('x')",
    "append": "(other / 'kept').open('a').write('x')",
    "truncate": "os.truncate(other / 'kept', 0)",
    "remove": "os.unlink(other / 'kept')",
    "rename": "os.rename(other / 'kept', own / 'kept')",
    "folder": "(other / 'folder').mkdir()",
    "link": "os.symlink('kept', other / 'link')",
    "mode": "os.chmod(other / 'kept', 0o777)",
    "time": "os.utime(other / 'kept', (0, 0))",
    "out by a link": "os.symlink(other, own / 'out'); (own / 'out' / 'new').write_text('x')",
    "program": "shell()",
    "fork": "os.fork() or os._exit(0)",
    "connect": "socket.create_connection(('127.0.0.1', 9))",
    "socket": "socket.socket(socket.AF_UNIX)",
    "socket of packets": "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)",
    "datagram to anywhere": "socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'x', b'\\0nobody')",
    "raw datagram to anywhere": "socket.socketpair(type=socket.SOCK_RAW)[0].sendto(b'x', b'\\0nobody')",
    "datagram": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "kill": "os.kill(os.getppid(), 0)",
    "keystrokes": "fcntl.ioctl(0, 0x5412, b'x')",
    "attributes": "fcntl.ioctl(os.open(other / 'kept', os.O_RDONLY), 0x40086602, bytes(8))",
    "limits of another": "resource.prlimit(os.getppid(), resource.RLIMIT_CORE)",
    "priority": "os.setpriority(os.PRIO_PROCESS, 0, 19)",
    "a signal by a pipe": "fcntl.fcntl(os.pipe()[0], 10, 9)",
    "a pipe's owner": "fcntl.fcntl(os.pipe()[0], 8, os.getppid())",
    "a pipe's owner in full": "fcntl.fcntl(os.pipe()[0], 15, bytes(8))",
    "a device": "os.mknod(own / 'device', 0o020600, os.makedev(1, 3))",
    "a disk": "os.mknod(own / 'device', 0o060600, os.makedev(8, 0))",
    "a lease": "fcntl.fcntl(os.open(other / 'kept', os.O_RDONLY), 1024, 0)",
    "a socket's owner": "fcntl.ioctl(socket.socketpair()[0], 0x8901, bytes(8))",
    "outliving its parent": "lib.prctl(1, 0) == 0 or failed()",
    "another user": "os.setuid(os.getuid())",
    "turns of another": "os.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))",
    "shared memory": "lib.shmget(0, 4096, 0o1600) >= 0 or failed()",
    "a semaphore": "lib.semget(0, 1, 0o1600) >= 0 or failed()",
    "a queue": "lib.mq_open(b'/odd', 0o102, 0o600, None) >= 0 or failed()",
}


def run(tmp_path: Path, code: str, *more: str, program: str = _PROGRAM) -> subprocess.CompletedProcess[str]:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    (other / "kept").write_text("kept")
    command = [sys.executable, "-c", program.format(code=code), str(own), str(other), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def needs(measure: str) -> None:
    if measure not in MEASURES:
        pytest.skip(f"not to be had here: {measure}")


@pytest.mark.parametrize("action", ACTIONS)
def test_a_model_changes_nothing_outside_and_reaches_nobody(tmp_path: Path, action: str) -> None:
    needs(FILES)
    needs(CALLS)
    done = run(tmp_path, ACTIONS[action])
    assert done.returncode == 1
    assert "PermissionError" in done.stderr or "Invalid cross-device link" in done.stderr, done.stderr
    other = tmp_path / "other"
    assert [p.name for p in other.iterdir()] == ["kept"]
    assert (other / "kept").read_text() == "kept"
    assert (other / "kept").stat().st_mtime > 0


@pytest.mark.parametrize("action", ["write", "remove", "program", "connect", "socket"])
def test_nor_does_a_program_that_it_may_start(tmp_path: Path, action: str) -> None:
    needs(FILES)
    needs(CALLS)
    code = (
        f"import subprocess; sys.exit(subprocess.run([sys.executable, '-c', {_nested(tmp_path, action)!r}]).returncode)"
    )
    done = run(tmp_path, code, "x", "programs")
    assert done.returncode == 1
    assert [p.name for p in (tmp_path / "other").iterdir()] == ["kept"]


def _nested(tmp_path: Path, action: str) -> str:
    head = f"import os, socket, subprocess; from pathlib import Path; other = Path({str(tmp_path / 'other')!r})"
    shell = "def shell():\n    assert subprocess.run(['touch', other / 'touched']).returncode == 0"
    return f"{head}\n{shell}\n{ACTIONS[action]}"


def test_programs_can_be_ended_and_can_abort(tmp_path: Path) -> None:
    """The rules on signals name the process that installs them, and a program that inherits them is another process."""
    code = """
sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
try: subprocess.run(sleeping, timeout=0.5)
except subprocess.TimeoutExpired: print("ended")
print(subprocess.run([sys.executable, "-c", "import os; os.abort()"], stderr=subprocess.DEVNULL).returncode)
"""
    done = run(tmp_path, code, "x", "programs")
    assert done.stdout.split() == ["ended", str(-signals.SIGABRT)], done.stderr


@pytest.mark.parametrize("action", ["program", "fork", "kill"])
def test_programs_are_over_when_they_are_closed(tmp_path: Path, action: str) -> None:
    needs(CALLS)
    assert "PermissionError" in run(tmp_path, f"close_programs(); {ACTIONS[action]}", "x", "programs").stderr


def test_a_program_does_not_fork(tmp_path: Path) -> None:
    needs(CALLS)
    forking = (
        "import os, threading\nt = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\nos.fork()"
    )
    code = f"subprocess.run([sys.executable, '-c', {forking!r}], preexec_fn=keep_from_forking)"
    done = run(tmp_path, code, "x", "programs")
    assert "PermissionError" in done.stderr
    assert done.stdout == "thread\n"


def test_a_file_that_is_trusted_has_limits(tmp_path: Path) -> None:
    needs(LIMITS)
    code = """
confine(own, 60, 2 << 30, trust=True); (other / "new").write_text("x"); socket.socket(socket.AF_UNIX)
bytes(4 << 30)
"""
    program = _PROGRAM.replace("confine(own, 60, None, programs=len(sys.argv) > 4)\n", "")
    done = run(tmp_path, code, program=program)
    assert "MemoryError" in done.stderr
    assert (tmp_path / "other" / "new").exists()


def test_its_own_folder_threads_and_pipes_stay_open(tmp_path: Path) -> None:
    code = """
(own / "a").write_text("x"); (own / "b").mkdir(); os.rename(own / "a", own / "b" / "a"); os.unlink(own / "b" / "a")
with tempfile.TemporaryDirectory() as folder: assert Path(folder).parent == own
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
open("/dev/null", "w").write("x"); socket.socketpair(); os.kill(os.getpid(), 0); print((other / "kept").read_text())
"""
    done = run(tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["kept", "thread"]


def test_no_file_of_it_takes_all_of_the_disk(tmp_path: Path) -> None:
    """The free space may grow in the meantime, by less than the reserved part."""
    code = """
bound, free = resource.getrlimit(resource.RLIMIT_FSIZE), os.statvfs(own)
assert bound[0] == bound[1] <= 0.97 * free.f_bavail * free.f_frsize
file = (own / "large").open("wb")
file.truncate(bound[0] - 1)
file.truncate(bound[0] + 1)
"""
    done = run(tmp_path, code)
    assert "line 5, in <module>" not in done.stderr
    assert "File too large" in done.stderr


def test_memory_and_time_end() -> None:
    if LIMITS not in MEASURES:
        pytest.skip("no resource limits here")
    limits = "-60.0 / (__import__('os').cpu_count() or 1) + 0.5, 1 << 31"
    code = f"from convert.processes.sandbox import _limit; _limit({limits})"
    memory = subprocess.run([sys.executable, "-c", f"{code}\nbytes(4 << 30)"], capture_output=True, text=True)
    assert "MemoryError" in memory.stderr
    spinning = subprocess.run([sys.executable, "-c", f"{code}\nwhile True: pass"], capture_output=True, timeout=30)
    assert spinning.returncode < 0


def endless_model(path: Path) -> Path:
    """Return a Loop that never ends."""
    trips = helper.make_node("Constant", [], ["n"], value=numpy_helper.from_array(np.array(2**62, np.int64)))
    go = helper.make_node("Constant", [], ["go"], value=numpy_helper.from_array(np.array(True)))
    ends = [helper.make_tensor_value_info(n, *k) for n, *k in (("i", 7, []), ("c", 9, []), ("s", 1, [2]))]
    out = [helper.make_tensor_value_info(n, *k) for n, *k in (("c2", 9, []), ("s2", 1, [2]))]
    steps = [helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Sin", ["s"], ["s2"])]
    loop = helper.make_node("Loop", ["n", "go", "x"], ["y"], body=helper.make_graph(steps, "body", ends, out))
    whole = [helper.make_tensor_value_info(n, 1, [2]) for n in ("x", "y")]
    graph = helper.make_graph([trips, go, loop], "g", whole[:1], whole[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def runs_below(pid: int) -> list[int]:
    """Return the processes that run a model for this one, at any depth; each has a session of its own."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        own = [int(n) for n in found if os.getsid(int(n)) == int(n)]
    except OSError:  # it has ended in the meantime
        return []
    return own + [run for n in found for run in runs_below(int(n))]


def heed_signals() -> None:
    """Handle signals that the tests' parent ignores (`nohup`, background jobs); child processes inherit that."""
    for number in (signals.SIGHUP, signals.SIGINT, signals.SIGQUIT):
        signals.signal(number, signals.SIG_DFL)


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize("signal", ["TERM", "KILL", "HUP", "INT"])
def test_children_die_with_their_parent(tmp_path: Path, signal: str) -> None:
    path = str(endless_model(tmp_path / "m.onnx"))
    environment = {k: v for k, v in os.environ.items() if k != ADDRESS}
    command = [sys.executable, "-m", "convert", "verify", path, path]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        preexec_fn=heed_signals,
    )
    end, found = time.monotonic() + 60, []
    try:
        while len(found) < 2 and time.monotonic() < end:
            time.sleep(0.05)
            found = runs_below(process.pid)
        assert len(found) == 2
        process.send_signal(getattr(signals, f"SIG{signal}"))
        process.wait(20)
    finally:
        process.kill()
    while any(os.path.exists(f"/proc/{n}") for n in found) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [n for n in found if os.path.exists(f"/proc/{n}")]


_IN_THREAD = """
import os, socket, subprocess, sys
from pathlib import Path
from convert.processes.sandbox import in_confined_thread
own, other = Path(sys.argv[1]), Path(sys.argv[2])
def shell():
    assert subprocess.run(["touch", other / "touched"]).returncode == 0
def work():
    {code}
    return 1
try:
    in_confined_thread(work)
except OSError as error:
    assert error.errno in (1, 13, 38), error
else:
    sys.exit("it was allowed")
(other / "after").write_text("x")
shell()
"""


@pytest.mark.skipif(not {FILES, CALLS} <= set(MEASURES), reason="no Landlock or no seccomp here")
@pytest.mark.parametrize("action", ["write", "remove", "program", "fork", "connect"])
def test_one_thread_is_confined_and_the_others_are_not(tmp_path: Path, action: str) -> None:
    done = run(tmp_path, ACTIONS[action], program=_IN_THREAD)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "other" / "kept").exists()
    assert not (tmp_path / "other" / "new").exists()


def test_a_confined_thread_gives_what_its_work_gives() -> None:
    assert in_confined_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        in_confined_thread(lambda: 1 // 0)


def test_what_is_mapped_already_counts_for_nothing() -> None:
    """A process that has imported its frameworks has gigabytes of address space before it sees any model."""
    code = (
        "import mmap, tempfile; held = mmap.mmap(-1, 2 << 30)\n"
        "from convert.processes.sandbox import confine\nfrom pathlib import Path\n"
        "confine(Path(tempfile.mkdtemp()), 60, 1 << 30)\nbytes(1 << 29); print('small')\nbytes(2 << 30)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "small\n"
    assert "MemoryError" in done.stderr


_COMMAND = """
import os, socket, subprocess, sys, threading
from pathlib import Path
from convert.processes.sandbox import confine_command
own, other, out, aim = map(Path, sys.argv[1:])
confine_command(own, [out / "new" / "m.onnx", out / "link"])
def elsewhere(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
def shell(place):
    assert subprocess.run([sys.executable, "-c", f"open({str(place)!r}, 'w')"]).returncode == 0
"""
COMMAND_ACTIONS = (
    "write",
    "append",
    "truncate",
    "remove",
    "rename",
    "folder",
    "link",
    "out by a link",
    "connect",
    "socket",
    "socket of packets",
    "datagram to anywhere",
    "raw datagram to anywhere",
)


@pytest.mark.slow
@pytest.mark.parametrize("action", [*COMMAND_ACTIONS, "datagram", "a program"])
def test_a_command_writes_its_output_and_nothing_else(tmp_path: Path, action: str) -> None:
    """Code from an untrusted file would act in all threads of this process and in its child processes."""
    needs(FILES)
    needs(CALLS)
    own, other, out, aim = (tmp_path / name for name in ("own", "other", "out", "aim"))
    for folder in (own, other, out, aim):
        folder.mkdir()
    (other / "kept").write_text("kept")
    (out / "link").symlink_to(aim / "m.onnx")
    code = {**ACTIONS, "a program": "shell(other / 'new')"}[action]

    def done(code: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", _COMMAND + code, *map(str, (own, other, out, aim))]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    failed = done(code)
    assert failed.returncode
    assert "Error" in failed.stderr
    assert sorted(p.name for p in other.iterdir()) == ["kept"]
    assert (other / "kept").read_text() == "kept"
    right = done(
        "(out / 'new').mkdir(); os.rename(out / 'new', out / 'newer'); shell(own / 'a'); shell(aim / 'b')\n"
        "elsewhere(lambda: (own / 'c').write_text('x')); socket.socketpair(); (other / 'kept').read_text()"
    )
    assert not right.returncode, right.stderr
    assert (aim / "b").exists()


def test_trying_the_measures_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    available_measures()
    assert not list(tmp_path.iterdir())
