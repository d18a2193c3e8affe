"""Where an output may be written: not over, in or around what is read, and only over models."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from convert.errors import ConvertError, UsageError
from convert.files.sniff import sniff
from convert.plugin import Format

_ELSEWHERE = "name another place with -o"


def check_apart(destination: Path, read: Iterable[Path], hint: str = _ELSEWHERE) -> None:
    """Raises `UsageError` where `destination` is one of the files and folders that are read, in one, or around one.

    Links and other names of the same place (mounts, file systems without case) make no difference.
    """
    for path in read:
        ours, theirs = Path(os.path.realpath(destination)), Path(os.path.realpath(path))
        if _is_same(ours, theirs):
            raise UsageError(f"{destination} is the source itself, which would be overwritten", hint=hint)
        if theirs.is_dir() and any(_is_same(theirs, around) for around in ours.parents):
            raise UsageError(f"{destination} lies inside of the source {path}", hint=hint)
        if any(_is_same(ours, around) for around in theirs.parents):
            raise UsageError(f"{destination} holds the source {path}, which would be replaced with it", hint=hint)


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one == other or os.path.samefile(one, other)
    except OSError:
        return False


def check_replaceable(destination: Path, forms: Sequence[Format]) -> None:
    """Raises `UsageError` for what --force would destroy although no format of `forms` is written so, devices first.

    A folder is replaced if all files in it are such as one format's folder holds, and those among them that such a
    folder never lacks; a file if it is empty, named like an artefact, or one by its content.
    """
    if destination.exists() and not (destination.is_file() or destination.is_dir()):
        raise UsageError(f"{destination} is a device, a pipe or a socket, and no place for a model", hint=_ELSEWHERE)
    if not destination.exists() or (destination.is_symlink() and not destination.is_dir()):
        return
    if destination.is_dir():
        files = [file.relative_to(destination).as_posix() for file in _files_in(destination)]
        whole = [form for form in forms if set(form.never_lacking) <= set(files)]
        strange = [[f for f in files if not any(map(partial(fnmatchcase, f), form.entries))] for form in whole]
        others = min([*strange, files], key=len)
        if others:
            raise UsageError(
                f"{destination} is a folder that holds other things than a model, such as {min(others)}: "
                "it would be replaced with all of them",
                hint="name a place in it, or remove it yourself",
            )
        return
    named = any(destination.name.endswith(form.suffix) for form in forms)
    if not named and destination.stat().st_size and not _is_model(destination):
        raise UsageError(
            f"{destination} is neither named like a model nor one: --force would destroy it",
            hint="name another place with -o, or remove it yourself",
        )


def check_belongs(companions: Iterable[Path], models: Sequence[Path]) -> None:
    """Raises `UsageError` for a file that would be replaced beside a model, and is no part of the model that is there.

    Part of it are weights (`x.onnx.data`) that are called after it and that it names. `models` are those that are
    replaced themselves.
    """
    for path in companions:
        around = [model for model in models if path.name.startswith(f"{model.name}.")]
        if path not in models and not any(_holds_text(model, path.name) for model in around):
            raise UsageError(
                f"{path} is there already, and no model that is replaced has its weights there: it would be destroyed",
                hint=f"{_ELSEWHERE}, or remove it yourself",
            )


def _holds_text(path: Path, text: str) -> bool:
    """Whether a file has these letters in it, as a protobuf has them."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(os.fsencode(text)) >= 0


def _files_in(folder: Path) -> Iterator[Path]:
    """All that is in a folder and no folder; nobody misses empty ones."""
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            yield from _files_in(entry)
        else:
            yield entry


def _is_model(path: Path) -> bool:
    try:
        return bool(sniff(path))
    except ConvertError:
        return False
