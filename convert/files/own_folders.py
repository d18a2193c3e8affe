"""Hidden folders for incomplete outputs: locked while their process lives, removed once it is dead."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import time
from pathlib import Path

from convert.errors import UsageError
from convert.files.replacement import NEW, OLD, is_known, undo

_PATIENCE = 1.0
"""Seconds within which a process that only sweeps releases a lock."""

_NAME = re.compile(r"\.convert-[0-9a-f]{16}")


def folder_for(destination: Path) -> Path:
    """Return the folder beside `destination` in which it is written.

    There is one per destination, so that two runs collide in it.
    """
    return destination.parent / f".convert-{hashlib.sha256(os.fsencode(destination.name)).hexdigest()[:16]}"


def is_own_name(name: str) -> bool:
    """Return whether a folder with this name counts as one of these hidden folders, and would be swept."""
    return _NAME.fullmatch(name) is not None


def take_folder(destination: Path) -> tuple[Path, int]:
    """Return the locked folder in which `destination` is written, and the descriptor that holds the lock.

    The folder contains the empty folders `NEW` and `OLD`; what a killed process left is removed. Raises `UsageError`
    while another process writes there, and for a folder that another user or an archive put in its place.
    """
    folder = folder_for(destination)
    while True:
        is_new = _make(folder)
        try:
            descriptor = _open(folder)
        except FileNotFoundError:
            continue  # its process just finished
        except OSError as error:  # a link, a file, or an unreadable folder
            raise _foreign(folder) from error
        if not is_new and not _is_own(descriptor):
            os.close(descriptor)
            raise _foreign(folder)
        if not _lock_soon(descriptor):
            os.close(descriptor)
            raise UsageError(
                f"another process is writing {destination}", hint="wait for it, or name another place with -o"
            )
        if _is_still_there(folder, descriptor):
            try:
                _clear(folder)
            except BaseException:
                os.close(descriptor)
                raise
            (folder / NEW).mkdir()
            (folder / OLD).mkdir()
            return folder, descriptor
        os.close(descriptor)


def release_folder(folder: Path, descriptor: int) -> None:
    """Remove a locked folder, put back files without a successor, and release the lock."""
    with contextlib.suppress(OSError):
        _clear(folder)
        folder.rmdir()
    os.close(descriptor)


def sweep_folders(parent: Path) -> None:
    """Remove what this user's killed processes left in `parent`, and put back the files that they moved aside."""
    try:
        found = [Path(entry.path) for entry in os.scandir(parent) if _NAME.fullmatch(entry.name)]
    except OSError:
        return
    for folder in found:
        discard_folder(folder)


def discard_folder(folder: Path, *, just_killed: bool = False) -> None:
    """Remove one hidden folder if its process is dead and belonged to this user; folders with other names are ignored.

    `just_killed`: the process may still hold the lock for a moment, because the kernel closes files after freeing
    memory.
    """
    if not _NAME.fullmatch(folder.name):
        return
    try:
        descriptor = _open(folder)
    except OSError:
        return
    try:
        if _is_own(descriptor) and (_lock_soon(descriptor) if just_killed else _lock(descriptor)):
            _clear(folder)
            folder.rmdir()
    except (OSError, UsageError):
        pass
    finally:
        os.close(descriptor)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _make(folder: Path) -> bool:
    """Make the folder; return whether it did not exist."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
        return True
    return False


def _is_own(descriptor: int) -> bool:
    """Return whether the folder is this user's; another owner could put links in place of the written files."""
    return os.fstat(descriptor).st_uid == os.getuid()


def _foreign(folder: Path) -> UsageError:
    return UsageError(f"{folder} is not a folder of this user's", hint="remove it, or name another place with -o")


def _lock(descriptor: int) -> bool:
    """Take the lock; return whether it is ours. On file systems without locks, assume that nobody holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _lock_soon(descriptor: int) -> bool:
    """Take the lock with some patience: a sweeping process holds each lock for a moment, a writer until it is done."""
    end = time.monotonic() + _PATIENCE
    while not (locked := _lock(descriptor)) and time.monotonic() < end:
        time.sleep(0.01)
    return locked


def _is_still_there(folder: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(folder, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _clear(folder: Path) -> None:
    """Undo the incomplete replacement in a locked folder, and empty the folder.

    Raises `UsageError` if the folder holds moved files that no record of ours describes.
    """
    if not is_known(folder):
        raise UsageError(
            f"{folder} holds what no run of convert has put there", hint="look into it and remove it yourself"
        )
    undo(folder)
    for name in (NEW, OLD):
        shutil.rmtree(folder / name, ignore_errors=True)
    for part in list(folder.iterdir()):
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink()
