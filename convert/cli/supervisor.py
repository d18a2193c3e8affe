"""Runs a verb in a worker process, watched by a supervisor that enforces limits and always cleans up.

`enter_worker` forks before anything heavy is imported, which takes a millisecond, and returns in the worker only. The
supervisor waits. The worker reports activities and temporary folders over a pipe. The supervisor ends the worker and
all its descendants on a signal or when the time is over, and prints the reason. So hangs, crashes and lack of memory
inside libraries end in one paragraph, although the crashing process cannot print anything.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from convert import activity
from convert.cli import signals
from convert.errors import ConvertError, ResourceLimit, file_became_shorter
from convert.files.own_folders import discard_folder
from convert.files.scratch import locked_folder, unlock_and_remove
from convert.processes import machine
from convert.processes.interpreter import claim_process
from convert.processes.sandbox import allow_bounded_memory, confine_command, die_with_parent

_SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): whose parent has died becomes a child of this process."""

_TICK = 1.0
"""Seconds between looks at the clock."""

_MOST = 0.8
"""Share of the memory limit above which an aborted worker is assumed to have run out of memory."""


@dataclass
class _Watched:
    """The supervisor's knowledge of its worker."""

    pid: int
    doing: str = ""
    folders: set[str] = field(default_factory=set)
    rest: bytes = b""

    def read(self, pipe: int) -> bool:
        """Read what the worker has reported; return whether it may report more."""
        content = os.read(pipe, 1 << 16)
        *lines, self.rest = (self.rest + content).split(b"\n")
        for line in lines:
            kind, text = json.loads(line)
            if kind == activity.DOING:
                self.doing = text
            elif kind == activity.MADE:
                self.folders.add(text)
            else:
                self.folders.discard(text)
        return bool(content)

    def read_rest(self, pipe: int) -> None:
        """Read the worker's last reports, after it has ended."""
        os.set_blocking(pipe, False)  # a process that the worker has started may hold the other end
        with contextlib.suppress(BlockingIOError):
            while self.read(pipe):
                pass


def enter_worker(seconds: float, memory: int | None, in_use: int = 0, places: Sequence[Path] | None = None) -> None:
    """Continue in a new process; the calling process watches it, and does not return.

    seconds: wall time for the worker. memory: bytes of private memory; None for all of the machine. in_use: bytes of
    files that the worker may map in addition. places: paths beside which the worker may write; None for anywhere. In
    the supervisor, raises SystemExit with the worker's exit code, `ResourceLimit` if a limit was exceeded, and
    `ConvertError` if a signal killed the worker.
    """
    if not hasattr(os, "fork") or not hasattr(signal, "set_wakeup_fd"):
        return
    bound = (machine.memory() if memory is None else memory) + in_use
    # Block signals until a process exists that cleans up after them.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals.ENDS)
    try:
        (pipe, end), (waking, wake) = os.pipe(), os.pipe()
        folder, lock = locked_folder()
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        for descriptor in (pipe, waking, wake, lock):  # the supervisor still holds them
            os.close(descriptor)
        die_with_parent(parent)
        if memory is None:
            allow_bounded_memory()
        _become_worker(end, folder, bound, mask, places)
        return
    os.close(end)
    try:
        _supervise(_Watched(pid), pipe, (waking, wake), seconds, memory, bound, mask)
    finally:
        unlock_and_remove(folder, lock)


def _become_worker(pipe: int, folder: Path, bound: int, mask: set[int], places: Sequence[Path] | None) -> None:
    signals.handle(signal.SIG_DFL)  # the supervisor prints the reason
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    import tempfile

    from convert.processes.warm import allow_warm_processes

    claim_process()
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    if places is not None:
        confine_command(folder, places)
    allow_warm_processes()
    atexit.register(gc.freeze)  # otherwise the garbage collector visits all frameworks' objects before the exit
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))

    def tell(kind: str, text: str) -> None:
        if kind == activity.DONE:  # errors in the libraries would not mention it
            return
        with contextlib.suppress(OSError):
            os.write(pipe, json.dumps([kind, text]).encode() + b"\n")

    activity.listen(tell)


def _supervise(
    worker: _Watched,
    pipe: int,
    woken: tuple[int, int],
    seconds: float,
    memory: int | None,
    bound: int,
    mask: set[int],
) -> NoReturn:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    caught: list[int] = []
    waking, wake = woken
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signals.handle(lambda number, frame: caught.append(number))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    in_time = _wait(worker, pipe, waking, seconds, caught)
    status, used, turns = _end(worker.pid, kill=bool(caught) or not in_time)
    worker.read_rest(pipe)
    _restore_terminal()
    for folder in sorted(worker.folders):
        discard_folder(Path(folder), just_killed=True)
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if caught or number in signals.ASKED:
        raise signals.Ended((caught or [number])[0])
    what = worker.doing or "starting"
    if not in_time:
        raise ResourceLimit(f"{what} was not finished after {seconds:g} s", hint="give a larger --timeout")
    if number:
        ran_out = turns >= resource.getrlimit(resource.RLIMIT_CPU)[0] - _TICK / 2 > 0
        raise _death(signal.SIGXCPU if ran_out else number, what, memory, used, bound)
    raise SystemExit(os.WEXITSTATUS(status))


def _wait(worker: _Watched, pipe: int, waking: int, seconds: float, caught: list[int]) -> bool:
    """Wait until the worker has ended, or a signal came (True), or the time is over (False).

    The time during which this process was itself stopped (Ctrl-Z) is not counted.
    """
    left, before = seconds, time.monotonic()
    listening = [pipe, waking]
    while not caught and left > 0:
        ready, _, _ = select.select(listening, [], [], min(_TICK, left))
        if pipe in ready and not worker.read(pipe):
            return True
        if os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return True  # a process that the worker has started holds the pipe open
        now = time.monotonic()
        left -= min(now - before, 2 * _TICK)
        before = now
    return left > 0 or bool(caught)


def _end(worker: int, *, kill: bool) -> tuple[int, int, float]:
    """End the worker if asked to, and all its descendants; return its status, its peak bytes, and its seconds of CPU
    time.
    """
    if kill:
        os.kill(worker, signal.SIGKILL)
    _, status, usage = os.wait4(worker, 0)
    with contextlib.suppress(ChildProcessError):
        while True:
            for pid in _children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)
    return status, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024), usage.ru_utime + usage.ru_stime


def _children() -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []


def _death(number: int, what: str, memory: int | None, used: int, bound: int) -> ConvertError:
    """Return the meaning of a worker's death by a signal that this project did not send."""
    name = signal.Signals(number).name
    if number == signal.SIGKILL or (number == signal.SIGABRT and used > _MOST * bound):
        limit = "" if memory is None else f" of {memory / 1e9:.2f} GB"
        hint = "give a larger --memory, or convert on a machine with more"
        return ResourceLimit(f"{what} was ended by {name}: probably out of memory{limit}", hint=hint)
    if number == getattr(signal, "SIGXCPU", None):
        return ResourceLimit(f"{what} was ended by {name}: the CPU time limit was reached", hint="raise it (ulimit -t)")
    if number == getattr(signal, "SIGBUS", None):  # a part of a memory-mapped file no longer exists
        return file_became_shorter(f"{what} was ended by {name}")
    hint = "the file may be damaged; if it is not, this is a defect of that library or of convert: report it"
    return ConvertError(f"a library died with {name} while {what}", hint=hint)


def _restore_terminal() -> None:
    """Remove a spinner's line and show the cursor again, in case the worker was killed before it did so."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        sys.stderr.write("\r\x1b[2K\x1b[?25h")
        sys.stderr.flush()


def disk_usage(path: Any) -> int:
    """Return the bytes that a file, or the files in a folder, occupy on disk; 0 if the path does not exist."""
    try:
        if os.path.isdir(path):
            files = [entry for entry in os.scandir(path) if entry.is_file()]
            return sum(entry.stat().st_blocks * 512 for entry in files)
        return os.stat(path).st_blocks * 512
    except OSError:
        return 0
