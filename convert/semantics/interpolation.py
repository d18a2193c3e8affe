"""Resize: where each output lies among the inputs, and which inputs it is a weighted sum of, one axis at a time.

Source: ONNX Resize-19 (https://onnx.ai/onnx/operators/onnx__Resize.html). Where the operator's text, its reference
implementation in Python and onnxruntime part, this is what is computed here, and why:

- `length_resized` of align_corners, pytorch_half_pixel and tf_crop_and_resize is the number of elements of the output,
  also where input · scale has a fraction. The text calls it "the length of the resized tensor" and has another name for
  the number with the fraction; so do onnxruntime and TVM, and so PyTorch and TensorFlow align corners: the last output
  is the last input. The reference implementation takes the fraction (its author means it so, onnx/onnx#2462), and with
  it two of ONNX's node tests, test_resize_downsample_scales_{linear,cubic}_align_corners.
- pytorch_half_pixel with one output takes x_original = 0, as the text and onnxruntime have it, and not −0.5, which is
  the reference implementation's (onnx/onnx#4275). No source needs it: PyTorch itself takes the middle, which is
  half_pixel.
- The number of outputs is floor(input · scale) with the product in float32, as scales are: 5 · 2.6 is 13, which is what
  whoever wrote 2.6 meant, and what onnxruntime makes. The reference implementation and ONNX's shape inference multiply
  float32's 2.5999999 in float64 and have 12. Nobody multiplies by the extent of the region of tf_crop_and_resize, as
  the text does.
- The coordinates of `nearest` are computed in float32, where 3 / 0.6 is 5 and not 4.9999998: a neighbor is a step, and
  onnxruntime, PyTorch and TensorFlow take it in float32. Those of weighted sums are computed in float64.
- With antialias, what the filter reaches beyond the edge is the edge's, unless exclude_outside is set.
- A scale other than 1, or a region, that leaves the size as it is (3 elements by 1.3) interpolates; onnxruntime copies
  an input that has the shape of the output.
- Of integers the text says nothing. As in onnxruntime their sums lose the fraction, and are rounded with
  antialias. A sum that is whole stays, where onnxruntime makes 76 of 77s at some scales.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.errors import Unsupported

WHOLE = 1 + 2.0**-22
"""What sums in float32 are multiplied by before they lose their fraction: rounded, a whole one may lie below itself."""


@dataclass(frozen=True)
class Interpolation:
    """The attributes of a Resize that say how to interpolate."""

    mode: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


def resized_length(length: int, scale: float) -> int:
    """floor(length · scale), with the product in float32."""
    return int(np.floor(np.float32(length) * np.float32(scale)))


def keep_aspect_ratio(lengths: Sequence[int], wanted: Sequence[int], policy: str) -> tuple[float, list[int]]:
    """The one scale of all axes, and their sizes, halves rounded up. `policy` is not_larger or not_smaller."""
    ratios = [size / length for size, length in zip(wanted, lengths, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return scale, [int(np.floor(scale * length + 0.5)) for length in lengths]


def source_coordinates(
    length: int, size: int, scale: float, method: Interpolation, region: tuple[float, float] | None = None
) -> np.ndarray:
    """Where among `length` inputs each of `size` outputs lies: float32[size] for nearest, else float64[size].

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
    if mode == "tf_half_pixel_for_nn":  # of opset 11
        return (x + half) / s
    if mode == "tf_crop_and_resize" and region is not None:
        start, end = number(region[0]), number(region[1])
        if one:
            return x * 0 + half * (start + end) * (n - 1)
        return start * (n - 1) + x * (end - start) * (n - 1) / (m - 1)
    raise Unsupported(f"Resize with coordinate_transformation_mode={mode!r}")


HALFWAY = 1e-6
"""How far from the middle of two inputs a coordinate in float32 is taken to lie in it, as onnxruntime does (1.32)."""


def nearest_indices(where: np.ndarray, length: int, how: str) -> np.ndarray:
    """int64[size]: the input that is nearest to each coordinate; of two that are as near, the preferred one."""
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
    """Inputs int64[size, taps] and their weights float64[size, taps] of linear and cubic interpolation.

    Inputs beyond an edge are the edge's. With antialias and a scale below 1 the kernel is stretched by its inverse.
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
    """[size, length]: the weights of the inputs in each output, in float64; for every mode but tf_crop_and_resize."""
    return matrix_at(source_coordinates(length, size, scale, method), length, scale, method)


def matrix_at(where: np.ndarray, length: int, scale: float, method: Interpolation) -> np.ndarray:
    """The same for outputs that lie at given coordinates."""
    rows = np.zeros((len(where), length))
    if method.mode == "nearest":
        rows[np.arange(len(where)), nearest_indices(where, length, method.nearest)] = 1
        return rows
    places, weights = neighbors(where, length, scale, method)
    np.add.at(rows, (np.arange(len(where))[:, None], places), weights)
    return rows


def _kernel(distance: np.ndarray, method: Interpolation) -> np.ndarray:
    """The weight at a distance: a triangle, or the cubic of R. Keys (1981) with parameter a."""
    d = np.abs(distance)
    if method.mode == "linear":
        return np.maximum(1 - d, 0)
    a = method.cubic
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))
