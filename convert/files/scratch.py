"""Folders for what is written in passing: gone with their process, or after a kill with the next process that has one.

All that this tool writes in the system's temporary folder lies in one of these. Its process holds a lock on it, which
the kernel takes back when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "convert-tmp-"
_NAME = re.compile(_PREFIX + r"[a-z0-9_]{8}")
_MARK = ".made-by-convert"
"""A file in each of them: no other folder is ever removed, whatever it is called."""

_swept: set[str] = set()
"""The temporary folders that this process has looked through for what others left."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for temporary files, which this process holds a lock on and removes afterwards."""
    folder, descriptor = locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def locked_folder() -> tuple[Path, int]:
    """A new folder, and the descriptor that holds the lock on it: who closes it has removed the folder before.

    The first one that a process makes sweeps what processes that were killed have left.
    """
    _sweep_once()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(FileNotFoundError):  # another process took it for a left one before the lock was there
            return folder, _hold(folder)


def held_folder() -> tempfile.TemporaryDirectory[str]:
    """The same for an object to keep: the folder goes with the object."""
    _sweep_once()
    while True:
        folder = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
        with suppress(FileNotFoundError):
            weakref.finalize(folder, os.close, _hold(Path(folder.name)))
            return folder


def _sweep_once() -> None:
    if tempfile.gettempdir() not in _swept:
        _swept.add(tempfile.gettempdir())
        sweep_scratch()


def _hold(folder: Path) -> int:
    """Lock and mark a folder. Raises `FileNotFoundError` if it has gone meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        (folder / _MARK).touch()
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def sweep_scratch() -> None:
    """Remove the folders of processes of this user that were killed, which nobody has a lock on."""
    root = Path(tempfile.gettempdir())
    for name in filter(_NAME.fullmatch, os.listdir(root)):
        try:
            descriptor = os.open(root / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(root / name)
        except OSError:  # somebody has it
            pass
        finally:
            os.close(descriptor)


def _remove(folder: Path) -> None:
    """Remove a folder that nobody has: with the mark, or empty because its process was killed before it made one."""
    if (folder / _MARK).exists():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.rmdir()
