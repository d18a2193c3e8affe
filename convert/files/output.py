"""Atomic outputs: written beside their destination, flushed to disk, and renamed over it only when complete."""

from __future__ import annotations

import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from convert.activity import temporary_folder_at
from convert.errors import ConvertError, ResourceLimit, UsageError
from convert.files.output_place import check_apart

_RANDOM = 8
"""Characters that mkdtemp adds to a name."""


@contextmanager
def atomic_replacement(destination: Path, *, force: bool, read: Sequence[Path] = ()) -> Iterator[Path]:
    """Yield a temporary path beside `destination`; on success it takes `destination`'s place.

    The path is inside a fresh hidden folder, so that a format may write a file or a folder, and companions (ONNX
    external data) beside it: these move along. Raises `UsageError` if `destination` exists and `force` is not set,
    before anything is written, and for a companion that is one of the files `read`; `ResourceLimit` on a full disk. On
    any error what was on disk stays as it was.
    """
    if destination.exists() and not force:
        raise UsageError(f"{destination} exists already", hint="give another -o, or --force to replace it")
    parent = destination.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=parent))
    except OSError as error:
        raise (_disk_error(error, destination) or error) from error
    try:
        with temporary_folder_at(folder):
            yield folder / destination.name
            _put_in_place(folder, destination, read)
    except Exception as error:
        if told := _disk_error(error, destination):
            raise told from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _put_in_place(folder: Path, destination: Path, read: Sequence[Path]) -> None:
    written = sorted(folder.iterdir())
    for path in written:
        check_apart(destination.parent / path.name, read)
    for path in written:
        _fsync(path)
    # The artefact itself goes last: companions without it are harmless, it without them is not.
    for path in sorted(written, key=lambda p: p.name == destination.name):
        _rename(path, destination.parent / path.name)


def discard_unfinished(destination: Path) -> None:
    """Remove what a process that was killed while it wrote `destination` has left beside it. None may be writing it."""
    for folder in destination.parent.glob(f".{glob.escape(destination.name)}.{'?' * _RANDOM}"):
        discard_folder(folder)


def discard_folder(folder: Path) -> None:
    """Remove what `atomic_replacement` has left in a process that was killed; what had stepped aside comes back."""
    name = folder.name[1 : -1 - _RANDOM]
    aside, place = folder / f"{name}.old", folder.parent / name
    if aside.exists() and not place.exists():
        os.rename(aside, place)
    shutil.rmtree(folder, ignore_errors=True)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_dir():
        return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    return path.stat().st_size


def _fsync(path: Path) -> None:
    for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _rename(new: Path, old: Path) -> None:
    # A folder cannot be renamed over another: the old one steps aside first and comes back if the rename fails.
    if old.is_dir() and not old.is_symlink():
        aside = new.parent / f"{old.name}.old"
        os.rename(old, aside)
        try:
            os.rename(new, old)
        except OSError:
            os.rename(aside, old)
            raise
    elif new.is_dir() and old.exists():
        old.unlink()
        os.rename(new, old)
    else:
        os.replace(new, old)


def _disk_error(error: Exception, destination: Path) -> ConvertError | None:
    number = error.errno if isinstance(error, OSError) else None
    # Libraries that write files outside Python (HDF5, TensorFlow) tell of the system's error in their text alone.
    if number in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in str(error):
        return ResourceLimit(
            f"the disk is full: {destination} could not be written, nothing was changed",
            hint="free some space, or give -o on another disk",
        )
    if number in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST):
        return UsageError(
            f"{destination} cannot be written: {os.strerror(number)}", hint="check the path and its permissions"
        )
    return None
