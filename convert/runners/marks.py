"""Marks in the environments of processes (Linux), by which it is known what they belong to."""

from __future__ import annotations

import ctypes
import os
import uuid
from collections.abc import Mapping
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
