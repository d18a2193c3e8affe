"""Copies files that runtimes expect beside a model, such as a Hugging Face configuration and tokenizer."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from convert import limits
from convert.errors import ConvertError, ResourceLimit
from convert.files.output import atomic_replacement
from convert.files.part_names import NAMES, PARTS
from convert.outcome.report import Report

_SUFFIXES = {"float16": "_fp16", "int8": "_int8", "int8-weights": "_int8", "int4": "_q4"}
_HUB_FOLDER = "onnx"
"""Folder for ONNX files in a model of the Hugging Face hub; the configuration and the tokenizer are in its parent."""


def companion_folder(place: Path) -> Path:
    """Return the folder where runtimes look for the configuration and the tokenizer of the artefact `place`."""
    return place.parent.parent if place.parent.name == _HUB_FOLDER else place.parent


def copy_companions(files: Mapping[str, Path | bytes], place: Path, report: Report, folder: Path | None = None) -> None:
    """Copy `files` beside the artefact `place`, and add notes; no existing file is replaced.

    folder: where they belong; by default the `companion_folder` of the artefact.

    Files are copied only if the artefact is named `model`, or like a part of one (`NAMES`): runtimes find such an
    artefact by its folder. Beside any other artefact, the files could belong to a second model; a note then names them,
    and the output that would have them copied. A file that is no longer a plain file, or is too large, is left out with
    a note, because the model is already in place. `files` maps the name of each copy to its source, with links
    resolved, or to its content. Raises `ResourceLimit` on a full disk.
    """
    if not files:
        return
    if place.stem not in NAMES:
        example = f"{place.stem}/{PARTS[0]}{place.suffix}"
        report.note(
            f"runtimes look for {', '.join(files)} beside the model: -o {example} copies them there",
            code="companions-missing",
        )
        return
    copied, kept, left = [], [], []
    free = limits.COMPANION_BYTES
    for name, file in files.items():
        target = (folder or companion_folder(place)) / name
        content = _content(file, free)
        if content is None:
            left.append(name)
            continue
        free -= len(content)
        if os.path.lexists(target):
            kept += [] if target.is_file() and _content(target.resolve(), len(content)) == content else [name]
            continue
        try:
            with atomic_replacement(target, force=False) as temporary:
                temporary.write_bytes(content)
        except OSError as error:
            raise ResourceLimit(f"{name} could not be copied beside {place}: {error.strerror}") from error
        except ConvertError as error:
            if isinstance(error, ResourceLimit):
                raise
            kept.append(name)  # another process was faster
            continue
        copied.append(name)
    if copied:
        where = "the model" if folder or companion_folder(place) == place.parent else f"the folder {_HUB_FOLDER}"
        report.note(f"copied beside {where}: {', '.join(copied)}", code="companions-copied")
    if kept:
        report.note(
            f"not copied, because the folder has other files of these names: {', '.join(kept)}",
            code="companions-missing",
        )
    if left:
        report.note(
            f"not copied beside the model, because they cannot be read or are too large: {', '.join(left)}",
            code="companions-missing",
        )


def dtype_suffix(folder: Path, dtype: str) -> str:
    """Return what transformers.js appends to the names of models in `dtype`, for a `folder` where it looks for them."""
    return _SUFFIXES.get(dtype, "") if folder.name == _HUB_FOLDER else ""


def _content(file: Path | bytes, most: int) -> bytes | None:
    """Return the content of a plain file, or content that was given, of at most `most` bytes.

    Returns None for anything else, also if a link replaced the file.
    """
    if isinstance(file, bytes):
        return file if len(file) <= most else None
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as stream:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > most:
                return None
            content = stream.read(most + 1)
    except OSError:
        return None
    return content if len(content) <= most else None
