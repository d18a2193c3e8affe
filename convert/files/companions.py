"""Files that runtimes look for beside a model: configuration, tokenizer and such of a Hugging Face folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from convert import limits
from convert.errors import ConvertError, ResourceLimit
from convert.files.output import atomic_replacement
from convert.report import Report

_NAMES = ("model", "encoder_model", "decoder_model", "decoder_with_past_model")


def copy_companions(files: Mapping[str, Path], place: Path, report: Report) -> None:
    """Copy `files` beside an artefact called `model`, or by the name of a part, and note which; none is replaced.

    So is one called that runtimes find by its folder. Beside any other they would be a second model's as well; they
    are named then, with the way to have them. What is no plain file any more, or too large, is left out with a note:
    the model is there already. `files` are by the name that the copy has, links resolved. Raises `ResourceLimit` on a
    full disk.
    """
    if not files:
        return
    if place.stem not in _NAMES:
        example = f"{place.stem}/{_NAMES[0]}{place.suffix}"
        report.note(
            f"runtimes look for {', '.join(files)} beside the model: -o {example} copies them there",
            code="companions-missing",
        )
        return
    copied, kept, left = [], [], []
    free = limits.COMPANION_BYTES
    for name, file in files.items():
        target = place.parent / name
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
        report.note(f"copied beside the model: {', '.join(copied)}", code="companions-copied")
    if kept:
        report.note(
            f"beside the model there are others already, which were left: {', '.join(kept)}", code="companions-missing"
        )
    if left:
        report.note(
            f"not copied beside the model, because they cannot be read or are too large: {', '.join(left)}",
            code="companions-missing",
        )


def keep_present(new: Path, folder: Path, stems: Iterable[str], report: Report) -> None:
    """Of files in `new` that are no part of an artefact with one of the stems, leave out those that `folder` has.

    They are noted where they are others than those.
    """
    own, kept = tuple(f"{stem}." for stem in stems), []
    for file in sorted(new.iterdir()):
        target = folder / file.name
        if file.name.startswith(own) or not os.path.lexists(target):
            continue
        if not (target.is_file() and _content(target.resolve(), limits.COMPANION_BYTES) == file.read_bytes()):
            kept.append(file.name)
        file.unlink()
    if kept:
        report.note(
            f"beside the model there are others already, which were left: {', '.join(kept)}", code="companions-missing"
        )


def _content(file: Path, most: int) -> bytes | None:
    """What a plain file of `most` bytes or fewer holds; None for any other, and for a link that came meanwhile."""
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
