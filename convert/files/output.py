"""Atomic outputs: written beside their destination, flushed to disk, and renamed over it only when complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from convert.activity import temporary_folder_at
from convert.errors import FULL_DISK, ConvertError, ResourceLimit, UsageError
from convert.files.exchange import rename_new, rename_over
from convert.files.output_place import check_apart, check_belongs
from convert.files.own_folders import discard_folder, folder_for, release_folder, sweep_folders, take_folder
from convert.files.replacement import NEW, OLD, identity_of, undo, write_down

_WRONG_PLACE = (
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP,
    errno.ENAMETOOLONG,
)  # fmt: skip


@contextmanager
def atomic_replacement(destination: Path, *, force: bool, read: Sequence[Path] = ()) -> Iterator[Path]:
    """Context manager: yield a temporary path beside `destination`; on success it replaces `destination`.

    The path is inside a hidden folder. A format may write a file or a folder there, and companions beside it (ONNX
    external data), which are moved, too. On any error the disk stays as it was. A killed process leaves the hidden
    folder, which `discard_unfinished` removes.

    Raises `UsageError` if:

    - `destination` exists without `force`, already before the write or created meanwhile
    - `destination` changed meanwhile, with `force`
    - another process writes there
    - a companion is one of the files `read`, or would replace a file that is no part of the old artefact

    Raises `ResourceLimit` on a full disk.
    """
    if destination.exists() and not force:
        raise _exists(destination)
    made: list[Path] = []
    # this lock is held before the folder is made and until it is removed
    with temporary_folder_at(folder_for(destination)):
        try:
            _make_parents(destination.parent, made)
            folder, descriptor = take_folder(destination)
        except OSError as error:
            _remove_empty(made)
            raise (_disk_error(error, destination) or error) from error
        complete, before = False, identity_of(destination)
        try:
            yield folder / NEW / destination.name
            if identity_of(destination) != before:
                raise _exists(destination) if not force else _changed(destination)
            _put_in_place(folder, destination, force, read)
            complete = True
        except Exception as error:
            if problem := _disk_error(error, destination):
                raise problem from error
            raise
        finally:
            release_folder(folder, descriptor)
            if not complete:
                _remove_empty(made)


def discard_unfinished(destination: Path, *, just_killed: bool = False) -> None:
    """Remove what killed processes left while they wrote beside `destination`.

    Files that they moved aside and did not replace are put back. `just_killed` says that the writer may still be dying.
    """
    if just_killed:
        discard_folder(folder_for(destination), just_killed=True)
    sweep_folders(destination.parent)


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    if path.is_dir():
        return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    return path.stat().st_size


def _fsync(path: Path) -> None:
    for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
        _fsync_one(file)


def _put_in_place(folder: Path, destination: Path, force: bool, read: Sequence[Path]) -> None:
    """Rename the complete files to their places, companions before the artefact.

    Companions without their artefact do no harm, while an artefact without its companions is broken. New companions
    must never lie beside the old artefact, so all old files are moved aside first. After an error or a kill everything
    is undone, here or by a later sweep.
    """
    parent, old = destination.parent, folder / OLD
    written = sorted((folder / NEW).iterdir(), key=lambda p: p.name == destination.name)
    for path in written:
        check_apart(parent / path.name, read)
        _fsync(path)
    present = [parent / p.name for p in written if os.path.lexists(parent / p.name)]
    if present and not force:
        raise _exists(present[0])
    companions = [p for p in present if p != destination]
    if folders := [p for p in companions if p.is_dir() and not (folder / NEW / p.name).is_dir()]:
        raise UsageError(f"{folders[0]} is a folder, where weights have to go", hint="give another -o")
    if others := [p for p in present if p.exists() and not (p.is_file() or p.is_dir())]:
        raise UsageError(f"{others[0]} is a device, a pipe or a socket", hint="give another -o")
    check_belongs(companions, [p for p in present if p.suffix == destination.suffix])
    write_down(folder, written)
    try:
        if companions:
            for path in reversed(present):
                os.rename(path, old / path.name)
        for path in written:
            if force:
                rename_over(path, parent / path.name, old / path.name)
            else:
                rename_new(path, parent / path.name)
    except BaseException:
        undo(folder)
        raise
    _fsync_folder(parent)


def _exists(path: Path) -> UsageError:
    return UsageError(f"{path} exists already", hint="give another -o, or --force to replace it")


def _changed(path: Path) -> UsageError:
    return UsageError(f"{path} has changed meanwhile, and was not replaced", hint="give another -o, or run it again")


def _make_parents(folder: Path, made: list[Path]) -> None:
    """Make a folder and its missing parents, and append those to `made`, outermost first."""
    missing = [p for p in (folder, *folder.parents) if not p.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        made.append(path)


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()


def _fsync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every file system supports it
        _fsync_one(folder)


def _fsync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_beside(name: str | bytes | int | None, destination: Path) -> bool:
    """Return whether a file that an error names is the output, a folder of it, or in its folder, or is not named.

    A conversion reads and runs models while its output is open, so an error may be about any other file.
    """
    if name is None or isinstance(name, int):
        return True
    path, output = Path(os.path.abspath(os.fsdecode(name))), Path(os.path.abspath(destination))
    return path.is_relative_to(output.parent) or output.is_relative_to(path)


def _disk_error(error: Exception, destination: Path) -> ConvertError | None:
    number = error.errno if isinstance(error, OSError) else None
    # Libraries that write files outside Python (HDF5, TensorFlow) report the system's error only in their text.
    if number == errno.EFBIG or os.strerror(errno.EFBIG) in str(error):
        return ResourceLimit(
            f"{destination} is larger than files may be here, and could not be written; nothing was changed",
            hint="raise the limit of file sizes (ulimit -f), or give -o on another disk",
        )
    if number in (errno.ENOSPC, errno.EDQUOT) or FULL_DISK.search(str(error)):
        return ResourceLimit(
            f"the disk is full: {destination} could not be written, nothing was changed",
            hint="free some space, or give -o on another disk",
        )
    if isinstance(error, OSError) and number in _WRONG_PLACE and _is_beside(error.filename, destination):
        return UsageError(
            f"{destination} cannot be written: {os.strerror(number)}", hint="check the path and its permissions"
        )
    return None
