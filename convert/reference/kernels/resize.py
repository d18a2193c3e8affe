"""Reference kernel of Resize: one matrix of interpolation weights for each axis that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from convert.reference.table import kernel

Array = Any


@kernel("Resize")
def resize(
    count: int,
    x: Array,
    roi: Array = None,
    scales: Array = None,
    sizes: Array = None,
    *,
    antialias: int,
    axes: Any,
    coordinate_transformation_mode: str,
    cubic_coeff_a: float,
    exclude_outside: int,
    extrapolation_value: float,
    keep_aspect_ratio_policy: str,
    mode: str,
    nearest_mode: str,
) -> Array:
    """Resize-19. Every mode is separable, so one axis is interpolated after the other."""
    chosen = [a % x.ndim for a in (axes or range(x.ndim))]
    lengths = [x.shape[a] for a in chosen]
    factors, targets = _target_sizes(lengths, scales, sizes, keep_aspect_ratio_policy)
    crop = coordinate_transformation_mode == "tf_crop_and_resize"
    y = x.astype(np.float64) if x.dtype.kind != "f" else x
    outside = np.zeros((1,) * x.ndim, bool)
    for i, axis in enumerate(chosen):
        span = (float(roi[i]), float(roi[i + len(chosen)])) if crop else (0.0, 1.0)
        if targets[i] == lengths[i] and factors[i] == 1 and not crop:
            continue
        # Selecting a neighbor is discontinuous, and runtimes do it in float32, where 3 / 0.6 is 5 and not 4.9999998.
        number = np.float32 if mode == "nearest" else getattr(x, "coordinates", np.float64)
        at = _coordinates(lengths[i], targets[i], number(factors[i]), coordinate_transformation_mode, span)
        if crop:
            beyond = (at < 0) | (at > lengths[i] - 1)
            outside = outside | beyond.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        matrix, signs = _weight_matrix(
            at, lengths[i], factors[i], mode, nearest_mode, cubic_coeff_a, exclude_outside, antialias
        )
        y = np.moveaxis(_weighted_sums(matrix.astype(y.dtype), signs, np.moveaxis(y, axis, 0)), 0, axis)
    if crop:
        y = np.where(outside, extrapolation_value, y)
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        # As in onnxruntime. The rounding is needed because an integral sum may come out slightly below itself.
        y = np.clip(
            np.rint(y) if mode == "nearest" or antialias else np.trunc(y * (1 + 2.0**-40)), limits.min, limits.max
        )
    return np.ascontiguousarray(y).astype(x.dtype)


def _weighted_sums(matrix: Array, signs: Array, y: Array) -> Array:
    """Return the weighted sums along the first axis.

    NaN and infinities affect only sums that read them, even with weight 0.

    A matrix product over the whole axis would spread them to every position, because 0 · ∞ is NaN. `signs` marks the
    positions that are read with a negative, zero or positive weight, each [target, length].
    """
    finite = np.isfinite(y)
    if finite.all():
        return np.tensordot(matrix, y, axes=(1, 0))

    def reached(reads: Array, places: Array) -> Array:
        return np.tensordot(reads.astype(np.float64), places.astype(np.float64), axes=(1, 0)) > 0

    below, zero, above = signs
    up = reached(above, y == np.inf) | reached(below, y == -np.inf)
    down = reached(below, y == np.inf) | reached(above, y == -np.inf)
    lost = reached(below | zero | above, np.isnan(y)) | reached(zero, np.isinf(y)) | (up & down)
    found = np.tensordot(matrix, np.where(finite, y, 0), axes=(1, 0))
    return np.where(lost, np.nan, np.where(up, np.inf, np.where(down, -np.inf, found))).astype(found.dtype)


def _target_sizes(lengths: Sequence[int], scales: Array, sizes: Array, policy: str) -> tuple[list[float], list[int]]:
    if sizes is None or not len(sizes):
        factors = [float(s) for s in scales]
        # The product is computed in float32, the dtype of scales, as in onnxruntime: 5 × 2.6 is 13.
        return factors, [int(np.floor(np.float32(n) * np.float32(s))) for n, s in zip(lengths, factors, strict=True)]
    targets = [int(s) for s in sizes]
    factors = [t / n for t, n in zip(targets, lengths, strict=True)]
    if policy != "stretch":
        one = min(factors) if policy == "not_larger" else max(factors)
        factors = [one] * len(factors)
        targets = [int(np.floor(n * one + 0.5)) for n in lengths]
    return factors, targets


def _coordinates(length: int, target: int, scale: Any, mode: str, span: tuple[float, float]) -> Array:
    """Return the input coordinate of each output position, in the dtype of `scale`.

    `mode` is ONNX's coordinate_transformation_mode.

    The output length is the integral number of elements, as in the text and onnxruntime, and not length · scale.
    """
    number = type(scale)
    at = np.arange(target, dtype=number)
    if mode == "align_corners":
        return at * (length - 1) / (target - 1) if target > 1 else at * 0
    if mode == "asymmetric":
        return at / scale
    if mode == "pytorch_half_pixel":
        return (at + 0.5) / scale - 0.5 if target > 1 else at * 0
    if mode == "half_pixel_symmetric":
        offset = number(length) / 2 * (1 - number(target) / (number(length) * scale))
        return offset + (at + 0.5) / scale - 0.5
    if mode == "tf_crop_and_resize":
        start, end = number(span[0]), number(span[1])
        if target > 1:
            return start * (length - 1) + at * (end - start) * (length - 1) / (target - 1)
        return at * 0 + 0.5 * (start + end) * (length - 1)
    if mode == "tf_half_pixel_for_nn":  # from opset 11
        return (at + 0.5) / scale
    return (at + 0.5) / scale - 0.5


def _weight_matrix(
    at: Array, length: int, scale: float, mode: str, nearest_mode: str, coefficient: float, exclude: int, antialias: int
) -> tuple[Array, Array]:
    """Return the weights [target, length] of the inputs in each output, and the signs of the weights that are read.

    Without antialiasing, two (linear) or four positions are read, whatever their weights, at a border one of them
    repeatedly.
    """
    matrix = np.zeros((len(at), length))
    rows = np.arange(len(at))
    if mode == "nearest":
        matrix[rows, np.clip(_round_nearest(at, nearest_mode), 0, length - 1).astype(int)] = 1
        return matrix, np.stack([matrix < 0, matrix < 0, matrix > 0])
    shrink = min(1.0, scale) if antialias else 1.0
    reach = (1 if mode == "linear" else 2) / shrink
    first, signs = np.floor(at - reach).astype(int), np.zeros((3, *matrix.shape), bool)
    for offset in range(int(np.ceil(2 * reach)) + 2):
        column = first + offset
        distance = np.abs(column - at) * shrink
        weight = np.maximum(0, 1 - distance) if mode == "linear" else cubic(distance, coefficient)
        if exclude:
            weight = np.where((column < 0) | (column >= length), 0, weight)
        place = (rows, np.clip(column, 0, length - 1))
        np.add.at(matrix, place, weight)
        before = np.floor(at) - column
        read = weight != 0 if antialias else (-reach <= before) & (before < reach)
        for sign, mask in zip(signs, (weight < 0, weight == 0, weight > 0), strict=True):
            sign[place] |= read & mask
    return matrix / matrix.sum(1, keepdims=True) if exclude or antialias else matrix, signs


# onnxruntime (1.32) treats positions this close to the midpoint as ties, because the midpoint is computed, too
_NEAR_THE_MIDDLE = 1e-6


def _round_nearest(at: Array, mode: str) -> Array:
    if mode == "floor":
        return np.floor(at)
    if mode == "ceil":
        return np.ceil(at)
    part = at - np.floor(at) - 0.5
    up = part > _NEAR_THE_MIDDLE if mode == "round_prefer_floor" else part >= -_NEAR_THE_MIDDLE
    return np.floor(at) + up


def cubic(distance: Array, a: float) -> Array:
    """Return Keys' cubic convolution kernel with parameter `a` (R. Keys, 1981)."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = a * (((distance - 5) * distance + 8) * distance - 4)
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))
