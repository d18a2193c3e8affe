"""Hidden folders for what is not complete yet: held by a lock while their process lives, swept once it is dead."""

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
"""Seconds in which a process that only sweeps has let go of a lock."""

_NAME = re.compile(r"\.convert-[0-9a-f]{16}")


def folder_for(destination: Path) -> Path:
    """The folder beside `destination` in which it is written: one for each, so that two runs meet in it."""
    return destination.parent / f".convert-{hashlib.sha256(os.fsencode(destination.name)).hexdigest()[:16]}"


def is_own_name(name: str) -> bool:
    """Whether a folder of this name would be taken for one of these, and swept."""
    return _NAME.fullmatch(name) is not None


def take_folder(destination: Path) -> tuple[Path, int]:
    """The folder for what is to be written at `destination`, and a descriptor that holds the lock on it.

    It holds `NEW` and `OLD`, empty; what a killed process left in it goes. Raises `UsageError` while another process
    writes there, and for a folder that another user or an archive has put in its place.
    """
    folder = folder_for(destination)
    while True:
        is_new = _make(folder)
        try:
            descriptor = _open(folder)
        except FileNotFoundError:
            continue  # the process that had it was just done
        except OSError as error:  # a link, a file, or a folder that others may not read
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
    """Remove a folder that is held, put back what has no successor, and give up the lock."""
    with contextlib.suppress(OSError):
        _clear(folder)
        folder.rmdir()
    os.close(descriptor)


def sweep_folders(parent: Path) -> None:
    """Remove what killed processes of this user have left in `parent`, and put back what stepped aside there."""
    try:
        found = [Path(entry.path) for entry in os.scandir(parent) if _NAME.fullmatch(entry.name)]
    except OSError:
        return
    for folder in found:
        discard_folder(folder)


def discard_folder(folder: Path, *, just_killed: bool = False) -> None:
    """Remove one such folder, if its process is dead and was this user's; none that is called otherwise.

    just_killed: the process may hold the lock for a moment yet, as the kernel lets go of files after memory.
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
    """Whether it was not there before."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
        return True
    return False


def _is_own(descriptor: int) -> bool:
    """Whether it is this user's: whoever has made it may put links in the place of what is written there."""
    return os.fstat(descriptor).st_uid == os.getuid()


def _foreign(folder: Path) -> UsageError:
    return UsageError(f"{folder} is not a folder of this user's", hint="remove it, or name another place with -o")


def _lock(descriptor: int) -> bool:
    """Whether the lock is ours now; file systems that have none are taken at their word that nobody holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _lock_soon(descriptor: int) -> bool:
    """The same with some patience: a process that sweeps holds each lock for a moment, a writer for its whole work."""
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
    """Empty a folder that nobody else has, once what was not completed in it is undone.

    Raises `UsageError` where something has stepped aside in it that none of our runs tells of.
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
