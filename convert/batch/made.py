"""Describes the artefact that a task wrote, for the journal, and checks whether it is still in place."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeGuard

from convert.batch.contents import content_digest
from convert.batch.storage import Url
from convert.errors import BadInput
from convert.files.folders import paths_in
from convert.files.weight_files import weight_files

Made = dict[str, Any]
"""The description of an artefact, as stored in the journal.

It has the `bytes` and `sha256` of the whole artefact. `files` maps the name of each file, relative to the output's
folder, to its size and first bytes.

The description of an artefact on a storage has `marks` of each file, too.
"""

_FIRST = 16


def describe(output: Path) -> Made:
    """Return the description of `output`: a file with the weight files that it names, or a folder. Raises OSError."""
    names = _names(output)
    return {**_sums(output, names), "files": {name: _beginning(output.parent / name) for name in names}}


def describe_stored(output: Url, local: Made) -> Made:
    """Return the description of an artefact that was copied to a storage.

    It includes what identifies the files on the storage.
    """
    return {**local, "marks": {name: _below(output, name).mark() for name in local["files"]}}


def is_there(output: Path | Url, made: object) -> bool:
    """Return whether what `made` describes is at `output`. Raises `ConvertError` if a storage cannot be reached."""
    if not is_description(made):
        return False
    if isinstance(output, Url):
        marks = made.get("marks", {})
        return bool(marks) and all(mark and _below(output, name).mark() == mark for name, mark in marks.items())
    paths = [output.parent / name for name in made["files"]]
    if not all(map(Path.is_file, paths)) or sum(path.stat().st_size for path in paths) != made["bytes"]:
        return False
    try:
        return _sums(output, made["files"]).items() <= made.items()
    except OSError:
        return False


def discard_damaged(output: Path, made: object) -> None:
    """Remove the rest of an artefact with truncated or missing files, because a conversion replaces only whole models.

    Each remaining file must begin like the original, and must not be longer: files of somebody else stay.
    """
    if not is_description(made):
        return
    there = {name: output.parent / name for name in made["files"] if (output.parent / name).is_file()}
    found = {name: _beginning(path) for name, path in there.items()}
    if found == made["files"]:
        return
    wanted = made["files"]
    if all(size <= wanted[name][0] and wanted[name][1].startswith(first) for name, (size, first) in found.items()):
        for path in there.values():
            path.unlink(missing_ok=True)
        if output.is_dir() and not any(path.is_file() for path in paths_in(output)):
            shutil.rmtree(output)


def is_description(made: Any) -> TypeGuard[Made]:
    """Return whether a value in a journal has the form of `Made`, with names below the output's folder only."""
    if not isinstance(made, dict) or not isinstance(made.get("bytes"), int) or not isinstance(made.get("files"), dict):
        return False
    marks = made.get("marks", {})
    return (
        bool(made["files"])
        and isinstance(made.get("sha256"), str)
        and all(_is_below(name) and _is_beginning(first) for name, first in made["files"].items())
        and isinstance(marks, Mapping)
        and all(isinstance(mark, str) and _is_below(name) for name, mark in marks.items())
    )


def remove(output: Path) -> None:
    """Remove the new output of a task whose sources changed while it ran."""
    for name in _names(output):
        with suppress(OSError):
            (output.parent / name).unlink()
    if output.is_dir() and not output.is_symlink():
        shutil.rmtree(output, ignore_errors=True)


def _names(output: Path) -> list[str]:
    if output.is_dir():
        with suppress(BadInput):
            return sorted(p.relative_to(output.parent).as_posix() for p in paths_in(output) if p.is_file())
        return []
    return [p.relative_to(output.parent).as_posix() for p in (output, *weight_files(output)) if p.is_file()]


def _beginning(path: Path) -> list[Any]:
    with open(path, "rb") as file:
        return [os.fstat(file.fileno()).st_size, file.read(_FIRST).hex()]


def _is_beginning(found: Any) -> bool:
    return isinstance(found, list) and list(map(type, found)) == [int, str]


def _sums(output: Path, names: Iterable[str]) -> Made:
    digest, size = hashlib.sha256(), 0
    for name in names:
        path = output.parent / name
        size += path.stat().st_size
        digest.update(os.fsencode(name) + b"\0" + content_digest(path))
    return {"bytes": size, "sha256": digest.hexdigest()}


def _is_below(name: str) -> bool:
    return bool(name) and "\0" not in name and not re.match(r"/|\w:", name) and ".." not in re.split(r"[/\\]", name)


def _below(output: Url, name: str) -> Url:
    return output.parent / name
