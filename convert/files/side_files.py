"""Files that are written beside the work (pages, inputs): whole or not at all, and over nothing but their own kind."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from convert.errors import UsageError
from convert.files.output import atomic_replacement
from convert.files.output_place import check_apart

GENERATOR = '<meta name="generator" content="convert"/>'
"""What is in the first lines of every page of this tool, by which it is known again."""

ARRAYS = b"inputs saved by convert"
"""The comment at the end of an `.npz` that this tool has written: arrays of the user's look alike otherwise."""

_HEAD = 4096


def is_page(path: Path) -> bool:
    """Whether a file is a page that this tool has written."""
    with path.open("rb") as file:
        return GENERATOR.encode() in file.read(_HEAD)


def is_arrays(path: Path) -> bool:
    """Whether a file is an `.npz` that this tool has written."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment == ARRAYS and all(name.endswith(".npy") for name in archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return False


def check_side_file(path: Path, is_ours: Callable[[Path], bool], option: str, read: Iterable[Path] = ()) -> None:
    """Raises `UsageError` where writing `path`, as `option` asks for, would destroy something.

    That is what is `read`, a place in it or around it, and any file that is not empty nor `is_ours`.
    """
    if _is_device(path):
        return
    hint = f"give {option} another path"
    check_apart(path, read, hint)
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint=hint)
    try:
        foreign = path.exists() and path.stat().st_size and not is_ours(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=hint) from None
    if foreign:
        raise UsageError(f"{path} exists and holds something else, which {option} would destroy", hint=hint)


@contextmanager
def side_file(path: Path, is_ours: Callable[[Path], bool], option: str) -> Iterator[Path]:
    """Yield where to write what goes to `path` once it is whole; devices and pipes are written as they are.

    Raises `UsageError` where `path` cannot be written or must not (`check_side_file`), `ResourceLimit` on a full disk.
    """
    place = Path(os.path.realpath(path))  # once: a link may lead elsewhere the next time
    if _is_device(path):
        yield path
        return
    check_side_file(place, is_ours, option)
    try:
        with atomic_replacement(place, force=True) as temporary:
            yield temporary
    except UsageError as error:
        raise UsageError(error.message, hint=f"give {option} another path") from None


def _is_device(path: Path) -> bool:
    return path.exists() and not (path.is_file() or path.is_dir())
