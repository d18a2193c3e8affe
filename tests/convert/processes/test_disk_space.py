"""How much disk space a process that runs a model may use, by what its file system reports."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from convert.processes.disk_space import DiskReserve, largest_file

MEGABYTE = 256
"""Blocks of 4,096 bytes."""


def disk(blocks: int, free: int, files: int, free_files: int) -> SimpleNamespace:
    return SimpleNamespace(f_frsize=4096, f_blocks=blocks, f_bavail=free, f_files=files, f_favail=free_files)


@pytest.mark.parametrize(
    ("before", "after", "largest", "too_little"),
    [
        (disk(10**6, 1000 * MEGABYTE, 10**6, 10**6), disk(10**6, 51 * MEGABYTE, 10**6, 10**6), 950 << 20, False),
        (disk(10**6, 1000 * MEGABYTE, 10**6, 10**6), disk(10**6, 49 * MEGABYTE, 10**6, 10**6), 950 << 20, True),
        (disk(10**6, 1000 * MEGABYTE, 10**6, 10**6), disk(10**6, 900 * MEGABYTE, 10**6, 10**4), 950 << 20, True),
        (disk(10**6, 0, 10**6, 10**6), disk(10**6, 0, 10**6, 10**6), 1 << 20, False),
        (disk(10**6, 1000 * MEGABYTE, 0, 0), disk(10**6, 900 * MEGABYTE, 0, 0), 950 << 20, False),
    ],
    ids=["room", "no room", "no room for files", "full before", "files are not counted"],
)
def test_a_part_of_what_was_free_stays_so(
    before: SimpleNamespace, after: SimpleNamespace, largest: int, too_little: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda folder: before)
    reserve = DiskReserve(Path("/tmp"))
    assert largest_file(Path("/tmp")) == largest
    monkeypatch.setattr(os, "statvfs", lambda folder: after)
    assert reserve.is_touched() == too_little


def test_a_disk_without_a_size_bounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tmpfs of any size, and file systems that report no size."""
    monkeypatch.setattr(os, "statvfs", lambda folder: disk(0, 0, 0, 0))
    assert largest_file(Path("/tmp")) > 1 << 60
    assert not DiskReserve(Path("/tmp")).is_touched()

    def refuse(folder: Path) -> None:
        raise OSError("unknown")

    monkeypatch.setattr(os, "statvfs", refuse)
    assert largest_file(Path("/tmp")) > 1 << 60
    assert not DiskReserve(Path("/tmp")).is_touched()
