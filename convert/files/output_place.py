"""Where an output may be written: not over, in or around what is read, and only over models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from convert.errors import ConvertError, UsageError
from convert.files.sniff import sniff
from convert.plugin import Format

_ELSEWHERE = "name another place with -o"


def check_apart(destination: Path, read: Iterable[Path], hint: str = _ELSEWHERE) -> None:
    """Raises `UsageError` where `destination` is one of the files and folders that are read, in one, or around one."""
    for path in read:
        ours, theirs = Path(os.path.realpath(destination)), Path(os.path.realpath(path))
        if ours == theirs or (destination.exists() and path.exists() and os.path.samefile(destination, path)):
            raise UsageError(f"{destination} is the source itself, which would be overwritten", hint=hint)
        if theirs.is_dir() and theirs in ours.parents:
            raise UsageError(f"{destination} lies inside of the source {path}", hint=hint)
        if ours in theirs.parents:
            raise UsageError(f"{destination} holds the source {path}, which would be replaced with it", hint=hint)


def check_replaceable(destination: Path, forms: Sequence[Format]) -> None:
    """Raises `UsageError` for what --force would destroy although no format of `forms` is written so.

    A folder is replaced if all that it holds is what some format's folder holds; a file if it is empty, named like an
    artefact, or one by its content.
    """
    if not destination.exists() or (destination.is_symlink() and not destination.is_dir()):
        return
    if destination.is_dir():
        own = {name for form in forms for name in form.entries}
        others = sorted(p.name for p in destination.iterdir() if p.name not in own)
        if others:
            raise UsageError(
                f"{destination} is a folder that holds other things than a model, such as {others[0]}: "
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


def _is_model(path: Path) -> bool:
    try:
        return bool(sniff(path))
    except ConvertError:
        return False
