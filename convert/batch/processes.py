"""The processes of a task (Linux): which they are, what they hold, and how all of them are ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

MARK = "CONVERT_BATCH_TASK"
"""The variable in the environment of a task's processes that tells which task, of which batch, they belong to."""

_ENVIRONMENT = slice(47, 49)
"""Fields 50 and 51 of /proc/self/stat, counted from the third: where the environment begins and ends."""


def new_mark() -> str:
    """A mark for a task of the batch that this process runs; all are of one length."""
    return f"{os.getpid():010d}-{uuid.uuid4().hex}"


def driver_of(environment: Mapping[str, str]) -> int:
    """The process that runs the batch which a process with this environment belongs to."""
    return int(environment[MARK].partition("-")[0])


def mark_of(pid: int) -> str:
    """The mark of a process, or an empty string."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    start = f"{MARK}=".encode()
    return next((e.removeprefix(start).decode() for e in entries if e.startswith(start)), "")


def write_mark(mark: str) -> None:
    """Give this process, a fork, another mark than the one that it was forked with.

    What others see of a process's environment is what it was started with, until that is overwritten in its place.
    """
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[_ENVIRONMENT])
    name = f"\0{MARK}=".encode()
    at = ctypes.string_at(start - 1, end - start + 1).find(name)
    assert at >= 0, "this process was started without a mark"
    ctypes.memmove(start - 1 + at + len(name), mark.encode(), len(mark))


def process_tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for member in found:
        found += _children(member)
    return found


def task_memory(pid: int, mark: str) -> int:
    """Bytes of private memory of a task: of its process and all that descend from it.

    Forks of a warm process for this task are its siblings, and have its mark.
    """
    siblings = [p for p in _children(_parent(pid)) if p != pid and mark_of(p) == mark]
    return sum(_private_memory(p) for leader in (pid, *siblings) for p in process_tree(leader))


def _children(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += list(map(int, file.read().split()))
    return found


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as file:
            # The name in parentheses may hold anything; the parent is the second field after it.
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _private_memory(pid: int) -> int:
    """Bytes of resident memory that are not of a file, which others may share."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = file.read().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * resource.getpagesize()


def kill_marked(wanted: Callable[[str], bool]) -> None:
    """Kill every process that was started for a task with a mark that is wanted, also one whose parent has died."""
    while left := [pid for pid in _processes() if (mark := mark_of(pid)) and wanted(mark)]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def kill_orphans() -> None:
    """Kill what a batch that was killed itself has left running."""
    kill_marked(lambda mark: not Path(f"/proc/{int(mark.partition('-')[0])}").exists())


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())
