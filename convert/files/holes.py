"""Detects sparse files: ranges that were never written read as zeros, so an empty file can be as long as a disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from convert import limits
from convert.errors import BadInput


def written_ranges(descriptor: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a file that were written; the whole file if the file system does not report holes."""
    size, at = os.fstat(descriptor).st_size, 0
    while at < size:
        try:
            start = os.lseek(descriptor, at, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
        except (OSError, AttributeError) as error:
            if getattr(error, "errno", None) != errno.ENXIO:  # ENXIO means that there is no more data
                yield at, size
            return
        yield start, end
        at = end


def check_holes(path: Path) -> None:
    """Raise `BadInput` for a large file that consists mostly of holes; the limit is that for archives that expand."""
    size = path.stat().st_size
    if size <= limits.ARCHIVE_FREE_BYTES:
        return
    enough, written = size // limits.ARCHIVE_EXPANSION, 0
    with path.open("rb") as file:
        for start, end in written_ranges(file.fileno()):
            written += end - start
            if written >= enough:
                return
    raise BadInput(
        f"{path} says that it has {size / 1e9:,.1f} GB, and {written:,} bytes of it were ever written",
        hint="get the file again; the download or the copy was cut off",
    )
