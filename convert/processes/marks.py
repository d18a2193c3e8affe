"""Marks in the environments of processes (Linux), which show what the processes belong to."""

from __future__ import annotations

import ctypes
import os
import uuid
from collections.abc import Mapping
from pathlib import Path

MARK = "CONVERT_BATCH_TASK"
"""Environment variable that says which task of which batch a process belongs to."""

_ENVIRONMENT = slice(47, 49)
"""Fields 50 and 51 of /proc/self/stat, counted from the third: where the environment begins and ends."""


def new_mark() -> str:
    """Return a mark for a task of the batch that this process runs; all marks have the same length."""
    return f"{os.getpid():010d}-{uuid.uuid4().hex}"


def driver_of(environment: Mapping[str, str]) -> int:
    """Return the pid of the process that runs the batch, from the environment of one of the batch's processes."""
    return int(environment[MARK].partition("-")[0])


def mark_of(pid: int) -> str:
    """Return the mark of a process, or ""."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    start = f"{MARK}=".encode()
    return next((e.removeprefix(start).decode() for e in entries if e.startswith(start)), "")


def write_mark(mark: str) -> None:
    """Replace the mark of this process, a fork.

    Other processes see the environment with which a process was started, until it is overwritten in place.
    """
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[_ENVIRONMENT])
    name = f"\0{MARK}=".encode()
    at = ctypes.string_at(start - 1, end - start + 1).find(name)
    assert at >= 0, "this process was started without a mark"
    ctypes.memmove(start - 1 + at + len(name), mark.encode(), len(mark))
