"""Names of the files of a reduced failure, and how to recognize them."""

from __future__ import annotations

from pathlib import Path

MARK = "convert.reduced"
"""Metadata key that marks the models that are written."""

_HEAD = 4096


def reduced_files(path: Path) -> tuple[Path, Path, Path]:
    """Return the paths that a reduction may write: the part, its inputs, and the part of the target."""
    stem = path.with_suffix("")
    return path, stem.with_name(f"{stem.name}.npz"), stem.with_name(f"{stem.name}-target.onnx")


def is_reduced(path: Path) -> bool:
    """Return whether a file is a part that `--reduce` wrote."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
        file.seek(max(0, path.stat().st_size - _HEAD))
        return MARK.encode() in head + file.read()
