"""Digests of files, and stamps that show whether a file has changed."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from convert.files.holes import written_ranges

Stamp = tuple[str, int, int, int, int, int]
"""Path, device, inode, size, and the modification and change times (ns) of a file.

A program can reset the modification time, as `cp -p` does, but not the change time.
"""

_CHUNK = 1 << 20

_SETTLED = 2_000_000_000
"""Nanoseconds after which a later change gets another time on any file system: FAT has a resolution of two seconds."""


def stamps_of(paths: Iterable[Path]) -> tuple[Stamp, ...]:
    """Return the stamps of files. Raises OSError for one that cannot be read.

    Each file is opened, because NFS then asks its server; a plain stat may be answered from a cache.
    """
    found = []
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            facts = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        times = (facts.st_mtime_ns, facts.st_ctime_ns)
        found.append((str(path), facts.st_dev, facts.st_ino, facts.st_size, *times))
    return tuple(found)


def are_settled(stamps: Iterable[Stamp]) -> bool:
    """Return whether all files are so old that any change from now on changes their stamps."""
    latest = time.time_ns() - _SETTLED
    return all(max(stamp[-2:]) < latest for stamp in stamps)


def content_digest(path: Path) -> bytes:
    """Return the SHA-256 of a file; of a sparse file, which may be longer than any disk, only its written ranges."""
    with open(path, "rb") as stream:
        ranges = written_ranges(stream.fileno())
        if next(ranges, (0, 0)) == (0, os.fstat(stream.fileno()).st_size):
            stream.seek(0)
            return hashlib.file_digest(stream, "sha256").digest()
        digest = hashlib.sha256()
        for start, end in written_ranges(stream.fileno()):
            digest.update(f"{start} {end}\0".encode())
            stream.seek(start)
            for at in range(start, end, _CHUNK):
                digest.update(stream.read(min(_CHUNK, end - at)))
        return digest.digest()
