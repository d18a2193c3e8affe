"""What files hold, so that it is recognized again: digests, and stamps that tell whether a file has changed since."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from convert.files.holes import written_ranges

Stamp = tuple[str, int, int, int, int, int]
"""Of a file: path, device, inode, size, and the times in ns of the last change of its content and of its inode.

A program can set the former time back, as `cp -p` does, and not the latter."""

_CHUNK = 1 << 20

_SETTLED = 2_000_000_000
"""Nanoseconds after which a later change has another time on any file system: FAT counts in two seconds."""


def stamps_of(paths: Iterable[Path]) -> tuple[Stamp, ...]:
    """Return the stamps of files. Raises OSError for one that cannot be read.

    Files are opened for it: NFS asks its server then, and answers a plain stat from what it remembers.
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
    """Return whether all files are so old that each change from now on changes their stamps."""
    latest = time.time_ns() - _SETTLED
    return all(max(stamp[-2:]) < latest for stamp in stamps)


def content_digest(path: Path) -> bytes:
    """SHA-256 of a file; of one with holes, which may be as long as no disk, of what was written of it and where."""
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
