"""Files that runtimes look for beside a model: configuration, tokenizer and such of a Hugging Face folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from convert.errors import ResourceLimit
from convert.files.output import atomic_replacement
from convert.report import Report

_NAME = "model"


def copy_companions(files: Sequence[Path], place: Path, report: Report) -> None:
    """Copy `files` beside an artefact that is called `model`, and note which; nothing that is there is replaced.

    So is one called that runtimes find by its folder. Beside any other they would be a second model's as well; they
    are named then, with the way to have them. Raises `ResourceLimit` on a full disk.
    """
    if not files:
        return
    names = ", ".join(file.name for file in files)
    if place.stem != _NAME:
        example = f"{place.stem}/{_NAME}{place.suffix}"
        report.note(f"runtimes look for {names} beside the model: -o {example} copies them there")
        return
    copied, kept = [], []
    for file in files:
        target = place.parent / file.name
        if target.exists() or target.is_symlink():
            kept += [] if target.is_file() and target.read_bytes() == file.read_bytes() else [file.name]
            continue
        try:
            with atomic_replacement(target, force=False) as temporary:
                shutil.copyfile(file, temporary)
        except OSError as error:
            raise ResourceLimit(f"{file.name} could not be copied beside {place}: {error.strerror}") from error
        copied.append(file.name)
    if copied:
        report.note(f"copied beside the model: {', '.join(copied)}")
    if kept:
        report.note(f"beside the model there are others already, which were left: {', '.join(kept)}")
