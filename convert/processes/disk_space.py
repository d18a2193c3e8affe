"""Limits how much a process that runs a model may write, because others need the disk, too."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

from convert import limits

_LEAST = 1 << 20
"""Minimum file size allowed even on a full disk: error messages go into a file."""


def largest_file(folder: Path) -> int:
    """Return the largest file size that a child may have: its whole share of the disk."""
    free, _ = _free(folder)
    return max(_LEAST, free * limits.CHILD_DISK_PERCENT // 100)


class DiskReserve:
    """A share of the currently free space (and file count) on the disk of `folder` that must stay free.

    It does not look at the existing files: a compromised process may have unlinked them and still write to them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept = [now * (100 - limits.CHILD_DISK_PERCENT) // 100 for now in _free(folder)]

    def is_touched(self) -> bool:
        """Return whether less than the reserve is free now. Raises nothing."""
        return any(now < kept for now, kept in zip(_free(self.folder), self.kept, strict=True))


def _free(folder: Path) -> tuple[int, int]:
    """Return the free bytes and the free number of files; practically infinite if the system does not report them.

    File systems without a size of their own (tmpfs, ramfs, some network ones) report zero.
    """
    endless = resource.RLIM_INFINITY if resource.RLIM_INFINITY > 0 else 1 << 62
    with suppress(OSError):
        found = os.statvfs(folder)
        free = found.f_bavail * found.f_frsize if found.f_blocks else endless
        return free, found.f_favail if found.f_files else endless
    return endless, endless
