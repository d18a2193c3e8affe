"""Temporary folders, removed with their process or, after a kill, by the next process that creates one.

Everything that this tool writes into the system's temporary folder is in one of these. The process holds a lock on it,
which the kernel releases when the process ends, in whatever way.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import secrets
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

_PREFIX = "convert-tmp-"
_NAME = re.compile(_PREFIX + r"[a-z0-9_]{8}")
_MARK = ".made-by-convert"
"""A marker file: folders without it are never removed, whatever their name."""

_SWEEP_SECONDS = 2.0
"""Time limit for removing what other processes left; 200,000 files took minutes."""

_swept: set[str] = set()
"""The temporary folders that this process has already swept."""

_own: dict[Path, int] = {}
"""The folders still to be removed, each with the process that created it: a forked process inherits the table."""

_place: ContextVar[Path | None] = ContextVar("place", default=None)
"""The folder for temporary files in this context; None for the system's."""


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Context manager: put temporary files into `folder`, in this context only, not in other threads of the program."""
    token = _place.set(folder)
    try:
        yield
    finally:
        _place.reset(token)


def place_of_temporary_files() -> Path | None:
    """Return the folder for temporary files in this context, if it is not the system's."""
    return _place.get()


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Context manager: yield a locked folder for temporary files, and remove it afterwards."""
    folder, descriptor = locked_folder()
    try:
        yield folder
    finally:
        unlock_and_remove(folder, descriptor)


def locked_folder() -> tuple[Path, int]:
    """Return a new folder and the descriptor that holds its lock. Remove the folder before closing the descriptor.

    The first call in a process sweeps what killed processes left.
    """
    place = _place.get()
    if place is None:
        _sweep_once()
    root = Path(tempfile.gettempdir()) if place is None else place
    while True:
        folder = root / f"{_PREFIX}{secrets.token_hex(4)}"
        _own[folder] = os.getpid()  # recorded before it exists: a signal may interrupt between any two steps
        try:
            folder.mkdir(0o700)
        except FileExistsError:
            del _own[folder]
            continue
        with suppress(FileNotFoundError):  # another process removed the folder before it was locked
            return folder, _hold(folder)


@atexit.register
def remove_own() -> None:
    """Remove this process's folders that a signal left behind, for example between two steps of a `with`."""
    for folder, process in list(_own.items()):
        if process == os.getpid():
            remove_tree(folder)
            _own.pop(folder, None)


class LockedFolder:
    """A folder for temporary files with the lifetime of this object."""

    def __init__(self) -> None:
        self.path, descriptor = locked_folder()
        weakref.finalize(self, unlock_and_remove, self.path, descriptor)


def unlock_and_remove(folder: Path, descriptor: int) -> None:
    """Remove a held folder and release its lock."""
    remove_tree(folder)
    _own.pop(folder, None)
    os.close(descriptor)


def remove_tree(folder: Path) -> None:
    """Remove a folder and its content as far as permitted, whatever its depth and whatever the modes of its folders.

    This also removes what a model left in the folder of its child process. Python's own function recurses for each
    level of folders.
    """
    with suppress(OSError, RecursionError):
        shutil.rmtree(folder)
        return
    count, pending = 0, [folder]
    while pending:
        place = pending.pop()
        for entry in _entries(place):
            with suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry)
                    continue
                os.chmod(entry, 0o700)
                nearer = Path(entry) if place == folder else folder / f"{_PREFIX}{(count := count + 1)}"
                if nearer != Path(entry):  # keeps paths short at any depth
                    os.rename(entry, nearer)
                pending.append(nearer)
        if place != folder:
            with suppress(OSError):
                place.rmdir()
    with suppress(OSError):
        folder.rmdir()


def _entries(place: Path) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(place) as entries:
        return list(entries)
    return []


def _find_place() -> None:
    """Raise `OSError` with the reason if no temporary folder is writable; Python's own search omits the reason."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        with tempfile.NamedTemporaryFile(dir=os.environ.get("TMPDIR") or "/tmp") as file:
            file.write(b"x")
        raise


def _sweep_once() -> None:
    _find_place()
    if tempfile.gettempdir() not in _swept:
        _swept.add(tempfile.gettempdir())
        sweep_scratch()


def _hold(folder: Path) -> int:
    """Lock and mark a folder. Raises `FileNotFoundError` if it is gone."""
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
    """Remove the folders of this user's killed processes, which nobody holds a lock on.

    It takes at most a few seconds, because signals wait meanwhile; the rest is removed the next time.
    """
    root, until = Path(tempfile.gettempdir()), time.monotonic() + _SWEEP_SECONDS
    for name in filter(_NAME.fullmatch, os.listdir(root)):
        try:
            descriptor = os.open(root / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(root / name, until)
        except OSError:  # another process holds the lock
            pass
        finally:
            os.close(descriptor)


def _remove(folder: Path, until: float) -> None:
    """Remove a folder that nobody holds if it is marked, or if it is empty: its process was killed before marking it.

    The marker is removed last, so that a partly removed folder is recognized again.
    """
    mark = folder / _MARK
    if mark.exists() and _remove_files(folder, until):
        for entry in _entries(folder):
            if entry.name != _MARK:
                remove_tree(Path(entry))
        mark.unlink()
    if not mark.exists():
        folder.rmdir()


def _remove_files(folder: Path, until: float) -> bool:
    """Remove the files in a folder, except its marker, before the time `until`; return whether all were removed."""
    with suppress(RecursionError):  # `remove_tree` handles folders that are too deep
        for place, _, names in os.walk(folder):
            for name in names:
                if time.monotonic() > until:
                    return False
                with suppress(OSError):
                    if name != _MARK or Path(place) != folder:
                        os.unlink(os.path.join(place, name))
    return True
