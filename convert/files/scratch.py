"""Folders for what is written in passing: gone with their process, or after a kill with the next process that has one.

All that this tool writes in the system's temporary folder lies in one of these. Its process holds a lock on it, which
the kernel takes back when the process ends, however it ends.
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
"""A file in each of them: no other folder is ever removed, whatever it is called."""

_SWEEP_SECONDS = 2.0
"""For removing what others left; it took minutes of 200,000 files."""

_swept: set[str] = set()
"""The temporary folders that this process has looked through for what others left."""

_own: dict[Path, int] = {}
"""The folders that are to be removed yet, each with the process that made it: a fork of it has them as well."""

_place: ContextVar[Path | None] = ContextVar("place", default=None)
"""Where temporary files go in what is done here; None for the system's folder of them."""


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Inside, and in no other thread of the program, temporary files go into `folder`."""
    token = _place.set(folder)
    try:
        yield
    finally:
        _place.reset(token)


def place_of_temporary_files() -> Path | None:
    """Where they go in what is done here, if that is another place than the system's."""
    return _place.get()


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for temporary files, which this process holds a lock on and removes afterwards."""
    folder, descriptor = locked_folder()
    try:
        yield folder
    finally:
        let_go(folder, descriptor)


def locked_folder() -> tuple[Path, int]:
    """A new folder, and the descriptor that holds the lock on it: who closes it has removed the folder before.

    The first one that a process makes sweeps what processes that were killed have left.
    """
    place = _place.get()
    if place is None:
        _sweep_once()
    root = Path(tempfile.gettempdir()) if place is None else place
    while True:
        folder = root / f"{_PREFIX}{secrets.token_hex(4)}"
        _own[folder] = os.getpid()  # before it is there: a signal may end this between any two steps
        try:
            folder.mkdir(0o700)
        except FileExistsError:
            del _own[folder]
            continue
        with suppress(FileNotFoundError):  # another process took it for a left one before the lock was there
            return folder, _hold(folder)


@atexit.register
def remove_own() -> None:
    """Remove the folders of this process whose users a signal kept from that, as between two steps of a `with`."""
    for folder, process in list(_own.items()):
        if process == os.getpid():
            remove_tree(folder)
            _own.pop(folder, None)


class HeldFolder:
    """A folder for temporary files that goes with this object."""

    def __init__(self) -> None:
        self.path, descriptor = locked_folder()
        weakref.finalize(self, let_go, self.path, descriptor)


def let_go(folder: Path, descriptor: int) -> None:
    """Remove a folder and give up the lock on it."""
    remove_tree(folder)
    _own.pop(folder, None)
    os.close(descriptor)


def remove_tree(folder: Path) -> None:
    """Remove a folder and what is in it, as far as this user may; however deep it is, and whatever modes folders have.

    What a model leaves in the folder of its child is removed so: Python's own way takes a level of its stack for each
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
                if nearer != Path(entry):  # however deep it was
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
    """Raises `OSError` where no temporary folder can be written in: why, which Python's search for one leaves out."""
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
    """Remove the folders of processes of this user that were killed, which nobody has a lock on.

    It takes some seconds at most, because signals wait meanwhile; what is left then goes the next time.
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
        except OSError:  # somebody has it
            pass
        finally:
            os.close(descriptor)


def _remove(folder: Path, until: float) -> None:
    """Remove a folder that nobody has: with the mark, or empty because its process was killed before it made one.

    The mark goes last, so that a folder of which a part is left is known again.
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
    """Remove the files in a folder but for its mark, until it is so late; whether that was enough time."""
    with suppress(RecursionError):  # of folders that are too deep, `remove_tree` takes care
        for place, _, names in os.walk(folder):
            for name in names:
                if time.monotonic() > until:
                    return False
                with suppress(OSError):
                    if name != _MARK or Path(place) != folder:
                        os.unlink(os.path.join(place, name))
    return True
