"""The processes of a task (Linux): finds them, measures their memory, and kills them."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from convert.processes.marks import mark_of


def process_tree(pid: int) -> list[int]:
    """Return the pids of a process and all its descendants."""
    found = [pid]
    for member in found:
        found += _children(member)
    return found


def task_memory(pid: int, mark: str) -> int:
    """Return the bytes of private memory of a task: of its process and all descendants.

    Processes that a warm process forked for this task are its siblings, with its mark.
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
            # The process name in parentheses may contain any characters; the parent is the second field after it.
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _private_memory(pid: int) -> int:
    """Return the bytes of resident memory without file mappings, which processes may share."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = file.read().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * resource.getpagesize()


def kill_marked(wanted: Callable[[str], bool]) -> None:
    """Kill every process that was started for a task with a wanted mark, even if its parent is dead."""
    while left := [pid for pid in _processes() if (mark := mark_of(pid)) and wanted(mark)]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def kill_orphans() -> None:
    """Kill the processes that a killed batch left running."""
    kill_marked(lambda mark: not Path(f"/proc/{int(mark.partition('-')[0])}").exists())


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())
