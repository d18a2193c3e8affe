"""Folders for what tasks write in passing, which are gone with the task, or before the next batch after a kill."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "convert-batch-"


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
    """A new folder, and the descriptor that holds the lock on it: who closes it has removed the folder before."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if folder.exists():
            return folder, descriptor
        os.close(descriptor)  # another batch took it for a left one before the lock was there


def sweep_scratch() -> None:
    """Remove the folders of processes of this user that were killed, which nobody has a lock on."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)
