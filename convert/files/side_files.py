"""Files written in addition to the artefact (pages, inputs): atomically, and only over files of the same kind."""

from __future__ import annotations

import errno
import os
import stat
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from convert.errors import UsageError
from convert.files.letter_case import place_of
from convert.files.output import atomic_replacement
from convert.files.output_place import check_apart

GENERATOR = '<meta name="generator" content="convert"/>'
"""Part of the first lines of every page of this tool, by which it is recognized."""

ARRAYS = b"inputs saved by convert"
"""The comment of an `.npz` that this tool wrote, to tell it from the user's own arrays."""

_HEAD = 4096
_READER_SECONDS = 10.0
"""How long a pipe may be without a reader."""


def is_page(path: Path) -> bool:
    """Return whether a file is a page that this tool wrote."""
    with path.open("rb") as file:
        return GENERATOR.encode() in file.read(_HEAD)


def is_arrays(path: Path) -> bool:
    """Return whether a file is an `.npz` that this tool wrote."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment == ARRAYS and all(name.endswith(".npy") for name in archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return False


def check_side_file(path: Path, is_ours: Callable[[Path], bool], option: str, read: Iterable[Path] = ()) -> None:
    """Raise `UsageError` if writing `path`, as requested by `option`, would destroy something.

    `path` must not be one of the paths in `read`, nor lie in or around one, and must not be a folder. An existing file
    may be replaced if it is empty, or if `is_ours` recognizes it.
    """
    if _is_device(path):
        return
    hint = f"give {option} another path"
    check_apart(path, read, hint)
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint=hint)
    above = next((folder for folder in path.absolute().parents if folder.exists()), None)
    if above is not None and not above.is_dir():
        raise UsageError(f"{path} cannot be written, because {above} is no folder", hint=hint)
    try:
        foreign = path.exists() and path.stat().st_size and not is_ours(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=hint) from None
    if foreign:
        raise UsageError(f"{path} exists and holds something else, which {option} would destroy", hint=hint)


def check_different(named: Iterable[tuple[str, Path]]) -> None:
    """Raise `UsageError` if two of the files that a command writes are one file; each comes with the option that names
    it.
    """
    found: dict[str, str] = {}
    for name, path in named:
        if _is_device(path):
            continue
        if (other := found.setdefault(place_of(Path(os.path.realpath(path))), name)) != name:
            raise UsageError(f"{other} and {name} would both be written to {path}", hint="give each a path of its own")


@contextmanager
def side_file(path: Path, is_ours: Callable[[Path], bool], option: str) -> Iterator[Path]:
    """Context manager: yield where to write the content of `path`, which is moved there once it is complete.

    Devices and pipes are written directly. Raises `UsageError` if `path` cannot or must not be written
    (`check_side_file`), also if it is a pipe that nobody reads, and `ResourceLimit` on a full disk.
    """
    place = Path(os.path.realpath(path))  # resolved once: a link may change
    if _is_device(path):
        with _open_pipe(path, option):
            yield path
        return
    check_side_file(place, is_ours, option)
    try:
        with atomic_replacement(place, force=True) as temporary:
            yield temporary
    except UsageError as error:
        raise UsageError(error.message, hint=f"give {option} another path") from None


@contextmanager
def _open_pipe(path: Path, option: str) -> Iterator[None]:
    """Context manager: if `path` is a pipe, keep it open for writing.

    Without it, opening a pipe that nobody reads would wait forever. Raises `UsageError` for such a pipe after
    `_READER_SECONDS`.
    """
    if not stat.S_ISFIFO(path.stat().st_mode):
        yield
        return
    until = time.monotonic() + _READER_SECONDS
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise UsageError(f"{path} cannot be written: {error.strerror}", hint=f"give {option} a file") from None
            if time.monotonic() > until:
                raise UsageError(
                    f"{path} is a pipe that nobody reads", hint=f"start its reader, or give {option} a file"
                ) from None
            time.sleep(0.05)
    try:
        yield
    finally:
        os.close(descriptor)


def _is_device(path: Path) -> bool:
    return path.exists() and not (path.is_file() or path.is_dir())
