"""Watch a hostile command: its system calls by strace, its memory, time and processes by /proc."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_CALLS = (
    "open,openat,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,symlink,symlinkat,link,linkat,"
    "truncate,mknod,mknodat,chmod,fchmodat,chown,connect,sendto,sendmsg,execve,execveat"
)
_LINE = re.compile(r"(?P<pid>\d+) +(?P<time>\d+\.\d+) (?P<call>\w+)\((?P<rest>.*)")
_RESUMED = re.compile(r"(?P<pid>\d+) +(?P<time>\d+\.\d+) <\.\.\. (?P<call>\w+) resumed>(?P<rest>.*)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_FOLDER = re.compile(r"(?:AT_FDCWD|\d+)<([^>]*)>")
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
_OWN_DEVICES = ("/dev/null", "/dev/tty", "/dev/ptmx", "/proc/self/", "/dev/shm/sem.")
_NEXT = ".next-one"
"""The suffix of the files that `start_swapping` makes."""
_PROBE = re.compile(re.escape(tempfile.gettempdir()) + "/[a-z0-9_]{8}")
"""The file with which Python's tempfile tests a folder; it is removed at once."""
_OWN_PROGRAMS = tuple(
    os.path.realpath(f"/{folder}/{name}")
    for folder in ("sbin", "bin", "usr/sbin", "usr/bin")
    for name in ("ldconfig", "ldconfig.real", "uname")
)
"""Programs that Python itself starts: ctypes looks libraries up, Keras's import calls `platform.processor`."""


def strace(log: Path) -> list[str]:
    """Return the strace command that follows a process."""
    return ["strace", "-f", "--seccomp-bpf", "-qq", "-ttt", "-y", "-s", "300", "-e", "signal=none", "-e",
            f"trace={_CALLS}", "-o", str(log)]  # fmt: skip


class Log:
    """The output of strace so far; empty without strace."""

    def __init__(self, path: Path) -> None:
        self.path, self.at, self.rest, self.marks = path, 0, "", 0
        self.begun: dict[tuple[str, str], str] = {}

    def calls(self) -> list[tuple[float, str, str]]:
        """Yield time, name and arguments of each new call that succeeded or has not returned yet."""
        if not self.path.exists():
            return []
        self.marks += 1
        mark = f"{self.path}-mark-{self.marks}"
        with contextlib.suppress(OSError):
            os.close(os.open(mark, os.O_RDONLY))  # the log contains it after all earlier calls
        text, until = "", time.monotonic() + 20
        while f'"{mark}"' not in text and time.monotonic() < until:
            with self.path.open(errors="surrogateescape") as file:
                file.seek(self.at)
                text += file.read()
                self.at = file.tell()
            time.sleep(0.02)
        *lines, self.rest = (self.rest + text).split("\n")
        return sorted(call for line in lines if (call := self._call(line)) is not None)

    def _call(self, line: str) -> tuple[float, str, str] | None:
        if m := _RESUMED.match(line):
            return float(m["time"]), m["call"], self.begun.pop((m["pid"], m["call"]), "") + m["rest"]
        if m := _LINE.match(line):
            if not m["rest"].endswith("<unfinished ...>"):
                return float(m["time"]), m["call"], m["rest"]
            self.begun[m["pid"], m["call"]] = m["rest"].removesuffix("<unfinished ...>")
        return None


def score(run: Any, log: Log, place: Path) -> None:
    """Add to the last run what was executed, written and connected during it, according to the log."""
    for when, call, rest in log.calls():
        if run.began <= when <= run.ended and (found := _fault(call, rest, place)):
            run.scores.setdefault(*found)


def _fault(call: str, rest: str, place: Path) -> tuple[str, str] | None:
    result = rest.rpartition(" = ")[2]
    if call in ("connect", "sendto", "sendmsg"):
        network = "AF_INET" in rest and not result.startswith("-1 EPERM")
        return ("connected", rest[:200]) if network else None
    if result.startswith(("-1", "?")):
        return None
    names = _QUOTED.findall(rest)
    if call.startswith("execve"):
        program = os.path.realpath(names[0]) if names else ""
        pythons = [os.path.realpath(p) for p in (sys.executable, os.environ.get("CONVERT_CAFFE2_PYTHON")) if p]
        own = program in pythons or program in _OWN_PROGRAMS
        return None if own else ("executed", rest[:200])
    if call.startswith("open") and not _WRITES.search(rest):
        library = names and "/libtfkernel" in names[0]
        return ("executed", f"loads {names[0]}"[:300]) if library else None
    folders = _FOLDER.findall(rest)
    base = folders[0] if folders else ""
    path = os.path.normpath(
        os.path.join(base, names[-1] if call.startswith(("rename", "link", "symlink")) else names[0])
    )
    inside = path.startswith(str(place / "runs")) or path.startswith(_OWN_DEVICES)
    # Relative names belong to the folder of the command, because no command changes its directory.
    inside |= not base and not os.path.isabs(path) and not path.startswith("..")
    inside |= _PROBE.fullmatch(path) is not None
    helper = path.startswith(str(place / "helper"))
    helper |= call in ("symlink", "rename") and any(name.endswith(_NEXT) for name in names)
    return None if inside or helper else ("wrote", f"{call} {path}"[:300])


# -- /proc ------------------------------------------------------------------------------------------------------------


def _status(pid: int) -> tuple[int, int, float, int, str] | None:
    """Return parent, session, CPU seconds, private bytes, and name of a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        name, fields = text[text.find("(") + 1 : text.rfind(")")], text[text.rfind(")") + 2 :].split()
        held = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except (OSError, ValueError):
        return None
    if fields[0] == "Z":
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    used = (int(fields[11]) + int(fields[12])) / ticks
    return int(fields[1]), int(fields[3]), used, int(held[1]) << 10 if held else 0, name


def _descendants(*roots: int) -> dict[int, tuple[int, int, float, int, str]]:
    """Return the states of processes and their descendants by id, from their own files in /proc only."""
    found: dict[int, tuple[int, int, float, int, str]] = {}
    wanted = list(roots)
    while wanted:
        pid = wanted.pop()
        if pid not in found and (status := _status(pid)) is not None:
            found[pid] = status
            with contextlib.suppress(OSError):  # the process, or one of its threads, has ended
                for task in Path(f"/proc/{pid}/task").iterdir():
                    wanted += map(int, Path(task, "children").read_text().split())
    return found


class Helper:
    """The process from which processes that run models are forked; these are not descendants of their command."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.servers = set(_descendants(process.pid))

    def forks(self, patience: float = 0.0) -> dict[int, tuple[int, int, float, int, str]]:
        """Return the processes that run for commands now, or still run after some seconds."""
        end = time.monotonic() + patience
        while found := {p: s for p, s in _descendants(*self.servers).items() if p not in self.servers}:
            if time.monotonic() >= end:
                break
            time.sleep(0.05)
        return found

    def kill(self) -> None:
        """Kill the process and all of its descendants."""
        for pid in [self.process.pid, *self.forks()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


class Memory:
    """The largest private memory of a command's process, the CPU seconds of all processes, and those of the longest
    one.
    """

    def __init__(self, pid: int, helper: Helper | None) -> None:
        self.pid, self.helper, self.most, self.seconds, self.longest = pid, helper, 0, 0.0, 0.0
        self.used: dict[int, float] = {}
        self.looked = 0.0

    def look(self) -> None:
        """Sample now, unless the last sample is recent."""
        if time.monotonic() - self.looked < 0.1:
            return
        self.looked = time.monotonic()
        servers = self.helper.servers if self.helper is not None else set[int]()
        for pid, (_, _, used, held, _) in _descendants(self.pid, *servers).items():
            if pid in servers:
                continue
            self.used[pid] = used
            self.most = max(self.most, held)
        self.seconds, self.longest = sum(self.used.values()), max(self.used.values(), default=0.0)


def group(pid: int) -> list[str]:
    """Return the names of processes left in the session of a command that has ended."""
    found = [s for p in os.listdir("/proc") if p.isdigit() and (s := _status(int(p))) is not None and int(p) != pid]
    return [status[-1] for status in found if status[1] == pid]


def end(pid: int) -> None:
    """Kill the processes left by a command."""
    for process in [*_descendants(pid), *(int(p) for p in os.listdir("/proc") if p.isdigit())]:
        status = _status(process)
        if status is not None and (process == pid or status[1] == pid):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue


HUGGING = """
from tests.support.timm_helper import declare_torchvision_operators
declare_torchvision_operators()
import transformers.models.bert.modeling_bert
"""
"""Imports of processes that run Hugging Face folders, before the helper begins."""


def start_helper(place: Path, first: str = "") -> Helper:
    """Start the process from which processes that run models are forked, as in `convert batch`; `first` runs in it."""
    from convert.processes.fork_client import ADDRESS
    from convert.processes.marks import MARK, new_mark

    folder = place / "helper"
    folder.mkdir()
    preloads = json.dumps([[["onnx", "torchscript", "savedmodel"], ["onnx", "tf"]]])
    code = f"{first}\nimport runpy; runpy.run_module('convert.processes.fork_server', {{}}, '__main__')"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder / "warm"), str(os.getpid()), preloads],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, MARK: new_mark(), "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,
    )
    os.environ[ADDRESS] = f"{folder / 'warm'}.0"
    while not Path(os.environ[ADDRESS]).exists():  # the helper's own earlier forks are not leftovers
        if process.poll() is not None:
            raise RuntimeError("the process that children are forked from has ended")
        time.sleep(0.2)
    return Helper(process)


# -- files that change under a command --------------------------------------------------------------------------------


def start_swapping(path: Path, other: Path) -> subprocess.Popen[bytes]:
    """Start a process that points the link `path` to `other` and back, some hundred times a second.

    If `path` is a file, the process truncates it in place, and writes the content of `other` into it again. It has
    opened the file when this returns, so that a call that opens it later is the command's.
    """
    if not path.is_symlink():
        cutter = subprocess.Popen([sys.executable, "-c", _CUT, str(path), str(other)], stdout=subprocess.PIPE)
        assert cutter.stdout is not None
        cutter.stdout.readline()
        return cutter
    return subprocess.Popen([sys.executable, "-c", _SWAP, str(path), str(other), os.readlink(path)])


def stop_swapping(process: subprocess.Popen[bytes], path: Path) -> None:
    """End the process, and point the link to the good file again, or make the file whole."""
    process.terminate()
    process.wait()
    good = process.args[-1]  # type: ignore[index]
    if not path.is_symlink():
        path.write_bytes(Path(good).read_bytes())
        return
    Path(f"{path}{_NEXT}").unlink(missing_ok=True)
    path.unlink()
    os.symlink(good, path)


_CUT = """
import os, random, sys, time
path, good = sys.argv[1:]
content = open(good, "rb").read()
file = os.open(path, os.O_WRONLY)
print(flush=True)
while True:
    os.ftruncate(file, random.randrange(len(content)))
    time.sleep(random.choice((0.001, 0.01, 0.1)))
    os.pwrite(file, content, 0)
    time.sleep(random.choice((0.001, 0.01, 0.1)))
"""
_SWAP = f"""
import os, random, sys, time
NEXT = {_NEXT!r}
path, *targets = sys.argv[1:]
while True:
    for target in targets:
        os.symlink(target, path + NEXT)
        os.replace(path + NEXT, path)
        time.sleep(random.choice((0.002, 0.02, 0.2)))
"""
