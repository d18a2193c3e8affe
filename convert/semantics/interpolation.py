"""Interpolation along one dim as a matrix: which inputs each output is a weighted sum of (ONNX's Resize)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from convert.errors import Unsupported


@dataclass(frozen=True)
class Interpolation:
    """The attributes of a Resize that say how to interpolate."""

    mode: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


def weight_matrix(n: int, size: int, scale: float, method: Interpolation) -> np.ndarray:
    """[size, n]: the weights of `n` inputs in each of `size` outputs, in float64. Formulas: ONNX Resize-19."""
    x = _source_coordinates(n, size, scale, method.coordinates)
    rows = np.zeros((size, n))
    if method.mode == "nearest":
        rows[np.arange(size), _nearest_indices(x, method.nearest).clip(0, n - 1)] = 1
        return rows
    stretch = min(scale, 1.0) if method.antialias else 1.0
    support = (1 if method.mode == "linear" else 2) / stretch
    first = np.floor(x - support).astype(int)
    for offset in range(int(np.ceil(2 * support)) + 2):
        place = first + offset
        weight = _kernel((place - x) * stretch, method)
        if method.exclude_outside:
            weight = np.where((place < 0) | (place >= n), 0, weight)
        np.add.at(rows, (np.arange(size), place.clip(0, n - 1)), weight)
    return rows / rows.sum(1, keepdims=True)


def _source_coordinates(n: int, size: int, scale: float, how: str) -> np.ndarray:
    """Where in the input each output lies."""
    x = np.arange(size, dtype=np.float64)
    match how:
        case "half_pixel":
            return (x + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            offset = n / 2 * (1 - size / (scale * n))
            return offset + (x + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (x + 0.5) / scale - 0.5 if size > 1 else np.zeros(1)
        case "align_corners":
            length = n * scale  # with its fraction, as onnx's reference has it; onnxruntime takes `size`
            return x * (n - 1) / (length - 1) if size > 1 else np.zeros(1)
        case "asymmetric":
            return x / scale
    raise Unsupported(f"Resize with coordinate_transformation_mode={how!r}")


def _nearest_indices(x: np.ndarray, how: str) -> np.ndarray:
    rounded: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda a: np.ceil(a - 0.5),
        "round_prefer_ceil": lambda a: np.floor(a + 0.5),
    }
    return rounded[how](x).astype(int)


def _kernel(distance: np.ndarray, method: Interpolation) -> np.ndarray:
    d = np.abs(distance)
    if method.mode == "linear":
        return np.maximum(1 - d, 0)
    a = method.cubic
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))
