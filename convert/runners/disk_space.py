"""How much a process that runs a model may write: its folder lies on a disk that others need as well."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

from convert import limits

_LEAST = 1 << 20
"""Bytes that a file may have on a full disk too: what is to be told of it goes into one."""


def largest_file(folder: Path) -> int:
    """Bytes that one file of a child may have: all that it may take of the disk."""
    free, _ = _free(folder)
    return max(_LEAST, free * limits.CHILD_DISK_PERCENT // 100)


class DiskReserve:
    """A part of what is free on the disk of `folder` now, which has to stay free; of the numbers of its files too.

    What files there are is not looked at: a process that was taken over may have removed them and write to them still.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept = [now * (100 - limits.CHILD_DISK_PERCENT) // 100 for now in _free(folder)]

    def is_touched(self) -> bool:
        """Whether less than that is free now. Raises nothing."""
        return any(now < kept for now, kept in zip(_free(self.folder), self.kept, strict=True))


def _free(folder: Path) -> tuple[int, int]:
    """Bytes, and files that there may be still; so many that it does not matter where the system does not tell.

    File systems without a size of their own (tmpfs, ramfs, some of networks) say that they have nothing at all.
    """
    endless = resource.RLIM_INFINITY if resource.RLIM_INFINITY > 0 else 1 << 62
    with suppress(OSError):
        found = os.statvfs(folder)
        free = found.f_bavail * found.f_frsize if found.f_blocks else endless
        return free, found.f_favail if found.f_files else endless
    return endless, endless
