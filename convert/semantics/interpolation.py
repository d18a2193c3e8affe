"""Resize, one axis at a time: the source coordinate of each output, and the weights of the inputs in it.

Source: ONNX Resize-19 (https://onnx.ai/onnx/operators/onnx__Resize.html). The operator's text, its reference
implementation in Python and onnxruntime disagree in some cases. This module computes:

- In align_corners, pytorch_half_pixel and tf_crop_and_resize, `length_resized` is the number of output elements, even
  if input · scale has a fraction. The text calls it "the length of the resized tensor", and has another name for the
  number with the fraction. onnxruntime and TVM agree, and PyTorch and TensorFlow align corners in this way: the last
  output is the last input. The reference implementation keeps the fraction (its author intends that, onnx/onnx#2462),
  and so do two of ONNX's node tests, test_resize_downsample_scales_{linear,cubic}_align_corners.
- pytorch_half_pixel with one output uses x_original = 0, as the text and onnxruntime do, and not −0.5, as the reference
  implementation does (onnx/onnx#4275). No source needs it: PyTorch itself uses the centre, which is half_pixel.
- The number of outputs is floor(input · scale), with the product in float32, the dtype of scales: 5 · 2.6 is 13, which
  is what the author of 2.6 intended, and what onnxruntime returns. The reference implementation and ONNX's shape
  inference multiply float32's 2.5999999 in float64 and get 12. No implementation multiplies by the extent of the region
  in tf_crop_and_resize, as the text does.
- The coordinates of `nearest` are computed in float32, where 3 / 0.6 is 5 and not 4.9999998: selecting a neighbor is
  discontinuous, and onnxruntime, PyTorch and TensorFlow do it in float32. Coordinates of weighted sums are computed in
  float64.
- With antialias, taps of the filter beyond the edge read the edge element, unless exclude_outside is set.
- A scale other than 1, or a region, interpolates even if the size does not change (3 elements by 1.3); onnxruntime
  copies an input that has the shape of the output.
- The text does not cover integers. As in onnxruntime, their sums are truncated, and rounded with antialias. An integral
  sum stays, while onnxruntime turns 77s into 76 at some scales.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.errors import Unsupported

WHOLE = 1 + 2.0**-22
"""Factor for float32 sums before truncation, because rounding may put an integral sum slightly below itself."""


@dataclass(frozen=True)
class Interpolation:
    """The attributes of a Resize that define the interpolation."""

    mode: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


def resized_length(length: int, scale: float) -> int:
    """Return floor(length · scale), with the product in float32."""
    return int(np.floor(np.float32(length) * np.float32(scale)))


def keep_aspect_ratio(lengths: Sequence[int], wanted: Sequence[int], policy: str) -> tuple[float, list[int]]:
    """Return the common scale of all axes, and their sizes, with halves rounded up.

    `policy` is not_larger or not_smaller.
    """
    ratios = [size / length for size, length in zip(wanted, lengths, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return scale, [int(np.floor(scale * length + 0.5)) for length in lengths]


def source_coordinates(
    length: int, size: int, scale: float, method: Interpolation, region: tuple[float, float] | None = None
) -> np.ndarray:
    """Return the coordinate of each of `size` outputs among `length` inputs.

    The dtype is float32 for nearest, and float64 otherwise.

    `region` is the start and the end of tf_crop_and_resize. Raises `Unsupported` for a mode that ONNX does not have.
    """
    number: Any = np.float32 if method.mode == "nearest" else np.float64
    x: np.ndarray = np.arange(size, dtype=number)
    n, m, s, half = number(length), number(size), number(scale), number(0.5)
    one, mode = size == 1, method.coordinates
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and not one):
        return (x + half) / s - half
    if mode == "pytorch_half_pixel":
        return x * 0
    if mode == "half_pixel_symmetric":
        return n / 2 * (1 - m / (s * n)) + (x + half) / s - half
    if mode == "align_corners":
        return x * 0 if one else x * (n - 1) / (m - 1)
    if mode == "asymmetric":
        return x / s
    if mode == "tf_half_pixel_for_nn":  # from opset 11
        return (x + half) / s
    if mode == "tf_crop_and_resize" and region is not None:
        start, end = number(region[0]), number(region[1])
        if one:
            return x * 0 + half * (start + end) * (n - 1)
        return start * (n - 1) + x * (end - start) * (n - 1) / (m - 1)
    raise Unsupported(f"Resize with coordinate_transformation_mode={mode!r}")


HALFWAY = 1e-6
"""A float32 coordinate within this distance of the midpoint of two inputs counts as a tie, as in onnxruntime (1.32)."""


def nearest_indices(where: np.ndarray, length: int, how: str) -> np.ndarray:
    """Return the nearest input of each coordinate as int64[size]; `how` breaks ties.

    Raises `Unsupported` for another mode.
    """
    below = np.floor(where)
    beyond_half = where - below - 0.5
    rounded: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda a: below + (beyond_half > HALFWAY),
        "round_prefer_ceil": lambda a: below + (beyond_half >= -HALFWAY),
    }
    if how not in rounded:
        raise Unsupported(f"Resize with nearest_mode={how!r}")
    return np.clip(rounded[how](where), 0, length - 1).astype(np.int64)


def neighbors(where: np.ndarray, length: int, scale: float, method: Interpolation) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs int64[size, taps] and weights float64[size, taps] of linear and cubic interpolation.

    Inputs beyond an edge are replaced by the edge. With antialias and a scale below 1, the kernel is stretched by the
    inverse of the scale. Raises `Unsupported` for another mode.
    """
    if method.mode not in ("linear", "cubic"):
        raise Unsupported(f"Resize with mode={method.mode!r}")
    stretch = max(1.0, 1 / scale) if method.antialias else 1.0
    reach = int(np.ceil((1 if method.mode == "linear" else 2) * stretch))
    places = np.floor(where).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)
    weights = _kernel((places - where[:, None]) / stretch, method)
    if method.exclude_outside:
        weights = np.where((places < 0) | (places >= length), 0, weights)
    if method.exclude_outside or method.antialias:
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, length - 1), weights


def weight_matrix(length: int, size: int, scale: float, method: Interpolation) -> np.ndarray:
    """Return the weights of the inputs in each output, float64[size, length].

    tf_crop_and_resize is not supported.
    """
    return matrix_at(source_coordinates(length, size, scale, method), length, scale, method)


def matrix_at(where: np.ndarray, length: int, scale: float, method: Interpolation) -> np.ndarray:
    """Return the weights of the inputs in outputs at the given coordinates, float64[outputs, length]."""
    rows = np.zeros((len(where), length))
    if method.mode == "nearest":
        rows[np.arange(len(where)), nearest_indices(where, length, method.nearest)] = 1
        return rows
    places, weights = neighbors(where, length, scale, method)
    np.add.at(rows, (np.arange(len(where))[:, None], places), weights)
    return rows


def keys_polynomials(a: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the cubic of R. Keys (1981) with parameter `a`, for distances up to 1 and from 1 to 2.

    The coefficients are those of powers of the distance, the highest first.
    """
    return (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)


def keys_kernel(distance: np.ndarray, a: float) -> np.ndarray:
    """Return Keys's cubic at absolute distances."""
    near, far = (np.polyval(numbers, distance) for numbers in keys_polynomials(a))
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _kernel(distance: np.ndarray, method: Interpolation) -> np.ndarray:
    """Return the weight at a distance: a triangle, or Keys's cubic."""
    d = np.abs(distance)
    return np.maximum(1 - d, 0) if method.mode == "linear" else keys_kernel(d, method.cubic)
