"""Calibration data: samples of a model's inputs, from files or images, in the layout of the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import BadInput

_PICTURES = frozenset(
    (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".avif", ".ppm", ".pgm", ".jp2", ".tga")
)

FIRST = 0
"""Key of samples for the first input of a model."""


def load_samples(path: Path, image_as: str = "") -> dict[Any, np.ndarray]:
    """Return samples by input name, from an `.npz`, a folder of `.npy`, one `.npy`, an image or a folder of images.

    Samples without a name are for the first input. image_as: how images become inputs. Raises `BadInput`, `UsageError`
    for an invalid `image_as`, and `ConvertError` for images without Pillow.
    """
    from convert.request.given_arrays import load_array, load_inputs
    from convert.request.image_inputs import image_batch, parse_preparation

    pictures = image_files(path)
    if pictures:
        return image_batch(pictures, parse_preparation(image_as))
    if path.is_file() and path.suffix == ".npy":
        return {FIRST: load_array(path)}
    if path.is_dir() and not any(path.glob("*.npy")):
        raise BadInput(f"{path} contains neither images nor .npy files")
    return dict(load_inputs(path))


def image_files(path: Path) -> list[Path]:
    """Return the image files in a folder, sorted by name, or the given image file."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in files if file.suffix.lower() in _PICTURES and file.is_file()]


def fit_samples(
    model: ir.Model, samples: Mapping[Any, Any], moves: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Return samples by name, in the layout of the model.

    moves: the permutation of each input that has another layout in the output. Samples may have either layout; if they
    fit both, they are read in the layout of the model.
    """
    values = {str(v.name): v for v in model.graph.inputs}
    first = next(iter(values), "")
    found = {}
    for key, array in samples.items():
        name = first if key == FIRST and not isinstance(key, str) else str(key)
        found[name] = np.asarray(array)
        if name in moves and name in values:
            found[name] = _in_layout_of(values[name], found[name], moves[name])
    return found


def _in_layout_of(value: ir.Value, array: np.ndarray, move: tuple[int, ...]) -> np.ndarray:
    if value.shape is None or _fits(list(value.shape), array.shape):
        return array
    extra = array.ndim - len(move)
    back = [*range(extra), *(extra + int(i) for i in np.argsort(move))]
    if extra in (0, 1) and _fits(list(value.shape), array.transpose(back).shape):
        return array.transpose(back)
    return array


def _fits(shape: list[Any], given: tuple[int, ...]) -> bool:
    """Return whether samples fit a shape: concatenated along its first dim, or stacked along a dim in front."""
    tail = list(given[1:])
    for wanted, found in ((shape[1:], tail), (shape, tail)):
        if len(wanted) == len(found) and all(
            not isinstance(w, int) or w == f for w, f in zip(wanted, found, strict=True)
        ):
            return True
    return False


def moved_samples(samples: Mapping[str, Any], moves: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Return samples with the axes of inputs permuted; a sample dim in front stays in front."""
    found = {}
    for name, array in samples.items():
        perm = moves.get(name)
        extra = 0 if perm is None else np.ndim(array) - len(perm)
        axes = None if perm is None else [*range(extra), *(extra + axis for axis in perm)]
        found[name] = np.asarray(array) if axes is None else np.transpose(array, axes)
    return found
