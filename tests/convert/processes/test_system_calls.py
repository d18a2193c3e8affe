"""System calls that a confined process may not make: locks, attributes, terminals, rights, shared resources.

Every row is also tried by an unconfined process: if the kernel here cannot do it, the row proves nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from convert.processes.sandbox import CALLS, FILES, available_measures
from convert.processes.system_calls import all_but

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's"),
    pytest.mark.not_core,  # every test starts programs
]

ACTIONS = {
    # readable files of the user
    "lock": "fcntl.flock(file(), fcntl.LOCK_EX)",
    "lock of a folder": "fcntl.flock(folder(), fcntl.LOCK_EX)",
    "shared lock": "fcntl.flock(file(), fcntl.LOCK_SH)",
    "lock of bytes": "fcntl.lockf(file(), fcntl.LOCK_SH)",
    "lock that is waited for": "fcntl.fcntl(file(), fcntl.F_SETLKW, READ_LOCK)",
    "lock of an open file": "fcntl.fcntl(file(), 37, READ_LOCK)",
    "lease": "fcntl.fcntl(file(), 1024, 0)",
    "how long it is kept": "fcntl.fcntl(file(), 1036, struct.pack('Q', 2))",
    "flags": "fcntl.ioctl(file(), 0x40086602, struct.pack('q', flags()))",
    "flags by a number beyond a word": "call('ioctl', file(), 0x40086602 | 1 << 32, struct.pack('q', flags()))",
    "label of its file system": "fcntl.ioctl(folder(), 0x41009432, label())",
    "extended attribute": "os.setxattr(other / 'kept', 'user.odd', b'x')",
    "extended attribute at a folder": "call(463, folder(), b'kept', 0, b'user.odd', value(), 16)",
    "attributes at a folder": "call(469, folder(), b'kept', bytes(24), 24, 0)",
    "mode at a folder": "call(452, folder(), b'kept', 0o600, 0)",
    "notice": "check(lib.inotify_init1(0))",
    "pipe in its folder": "os.mkfifo(own / 'pipe')",
    "socket in its folder": "os.mknod(own / 'socket', stat.S_IFSOCK | 0o600)",
    # files that can be read once
    "terminals": "opened('/dev/ptmx')",
    "a device": "opened('/dev/tty0')",
    "messages of the kernel": "opened('/dev/kmsg')",
    "what the kernel tells a daemon": "opened('/proc/kmsg')",
    # an open terminal, as a descriptor of the process
    "terminal without echo": "termios.tcsetattr(terminal(), termios.TCSANOW, termios.tcgetattr(terminal()))",
    "terminal at a halt": "fcntl.ioctl(terminal(), 0x540A, 1)",
    "terminal for nobody else": "fcntl.ioctl(terminal(), 0x540C, 0)",
    "size of a terminal": "fcntl.ioctl(terminal(), 0x5414, bytes(8))",
    # other processes
    "outliving its parent": "call('prctl', 1, 0)",
    "outliving its parent, by a number beyond a word": "call('prctl', 1 | 1 << 32, 0)",
    "environment of its parent": "open(f'/proc/{os.getppid()}/environ').read()",
    "files of its parent": "os.readlink(f'/proc/{os.getppid()}/fd/0')",
    "memory of its parent": "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "a group of its own": "os.setpgid(0, 0)",
    "signal": "os.kill(os.getppid(), 0)",
    "signal to a group": "os.killpg(os.getpgid(os.getppid()), 0)",
    "signal to all": "os.kill(0, 0)",
    "namespace": "namespace()",
    # the machine, and what all processes share
    "pipe of a megabyte": "fcntl.fcntl(os.pipe()[0], 1031, 1 << 20)",
    "memory outside of it": "os.memfd_create('odd')",
    "asynchronous files": "call('io_setup', 100, bytes(8))",
    "first of all turns": "[os.sched_setscheduler(0, policy, os.sched_param(policy)) for policy in (1, 0)]",
    "time": "check(lib.adjtimex(ctypes.create_string_buffer(512)))",
    "table of segments": "call('modify_ldt', 0, bytes(64), 64)",
    "mount attributes": "call(442, folder(), b'', 0x1000, bytes(32), 32)",
    "file system to mount": "call(433, folder(), b'', 4)",
    "a later kernel's": "call(461, bytes(512), struct.pack('I', 512), 0)",
    "score of memory": "open('/proc/self/oom_score_adj', 'w').write('0')",
    "open files": "resource.setrlimit(resource.RLIMIT_NOFILE, (70000, 70000))",
}
"""The tested actions, as Python code that uses the helpers of `_PROGRAM`."""

_PROGRAM = """
import ctypes, fcntl, json, os, pty, resource, signal, stat, struct, sys, termios
from pathlib import Path
from convert.processes import sandbox
own, other, how = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
lib = ctypes.CDLL(None, use_errno=True)
NUMBERS = {"ioctl": 16, "prctl": 157, "io_setup": 206, "modify_ldt": 154}
READ_LOCK = struct.pack("hhqqi4x", 0, 0, 0, 0, 0)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def call(name, *words):
    words = [ctypes.c_ulong(w) if isinstance(w, int) else ctypes.create_string_buffer(w) for w in words]
    return check(lib.syscall(ctypes.c_long(NUMBERS.get(name, name)), *words))
def opened(path):
    OPEN.append(os.open(path, os.O_RDONLY | os.O_NOCTTY))
    return OPEN[-1]
def file():
    return opened(other / "kept")
def folder():
    return opened(other)
OPEN = []
def flags():
    return struct.unpack("q", fcntl.ioctl(file(), 0x80086601, bytes(8)))[0] & 0x10
def label():
    return LABEL
def value():
    return struct.pack("QII", ctypes.addressof(VALUE), 1, 0)
def terminal():
    return TERMINAL
def namespace():
    pid = call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
VALUE = ctypes.create_string_buffer(b"x")
TERMINAL = pty.openpty()[1]
try:
    LABEL = fcntl.ioctl(folder(), 0x81009431, bytes(256))
except OSError:
    LABEL = bytes(256)
actions = json.load(sys.stdin)
def work():
    found = {}
    for name, code in actions.items():
        try:
            exec(code)
            found[name] = 0
        except OSError as error:
            found[name] = error.errno
        except (ValueError, termios.error) as error:  # of limits, and of terminals
            found[name] = 1
        while OPEN:
            os.close(OPEN.pop())
    return found
if how == "confined":
    sandbox.confine(own, 60, None)
if how == "programs":
    sandbox.confine(own, 60, None, programs=True)
print(json.dumps(sandbox.in_confined_thread(work, own) if how == "thread" else work()))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """Return the error number of each action in each of these processes, 0 if it succeeds."""
    results = {}
    for how in ("free", "confined", "thread", "programs"):
        own, other = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("other")
        (other / "kept").write_text("kept")
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(own), str(other), how],
            input=json.dumps(ACTIONS),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        results[how] = json.loads(done.stdout)
    return results


_PROCESS_WIDE = {"open files", "score of memory"}
"""Actions that only limits of the process prevent, so a confined thread may do what its process may."""
_PROGRAMS = {"signal to a group", "signal to all"}
"""Actions that a process which starts programs may take: it may end the programs of its own group."""


@pytest.mark.skipif(not {FILES, CALLS} <= set(available_measures()), reason="no Landlock or no seccomp here")
@pytest.mark.parametrize("how", ["confined", "thread", "programs"])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_confined_process_asks_in_vain(found: dict[str, dict[str, int]], action: str, how: str) -> None:
    if found["free"][action]:
        pytest.skip(f"a process that is not confined cannot either: {os.strerror(found['free'][action])}")
    if (how == "thread" and action in _PROCESS_WIDE) or (how == "programs" and action in _PROGRAMS):
        pytest.skip("not bound by it")
    assert found[how][action] in (1, 13, 38), os.strerror(found[how][action])


def test_masks_match_every_other_number() -> None:
    allowed = [0, 5, 0x5401, 0x80086601, (1 << 32) - 1]
    masks = list(all_but(allowed))
    tried = {n ^ 1 << bit for n in allowed for bit in range(32)} | {*range(3000), *range(0x5300, 0x5500)}
    for number in tried:
        assert any(number & mask == value for mask, value in masks) == (number not in allowed), hex(number)
    assert not any(n & mask == value for n in allowed for mask, value in masks)


def test_a_program_signals_nobody(tmp_path: Path) -> None:
    """The confinement also applies to a program started in a confined process, such as Caffe2's Python, before it
    begins.
    """
    kill = f"import os; os.kill({os.getpid()}, 0)"
    code = (
        "import subprocess, sys; from pathlib import Path\n"
        "from convert.processes.sandbox import confine, keep_from_forking\n"
        f"confine(Path({str(tmp_path)!r}), 60, None, programs=True)\n"
        f"subprocess.run([sys.executable, '-c', {kill!r}], preexec_fn=keep_from_forking)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "PermissionError" in done.stderr


def test_limits_of_the_user_stay_where_they_are_lower(tmp_path: Path) -> None:
    """A lower limit of the user's own must not keep the other limits from being set."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (20, 30))\n"
        "from pathlib import Path; from convert.processes.sandbox import LIMITS, confine\n"
        f"assert LIMITS in confine(Path({str(tmp_path)!r}), 60, None)\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA), resource.getrlimit(resource.RLIMIT_CPU))\n"
        "assert resource.getrlimit(resource.RLIMIT_NPROC)[1] != resource.RLIM_INFINITY"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{(1 << 30, 1 << 30)} (20, 30)\n", done.stderr
