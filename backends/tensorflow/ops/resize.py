"""Resize in all its modes: a weighted sum of gathered neighbours along each axis in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from convert.errors import Unsupported
from convert.graph.metadata import CHANNELS_LAST
from convert.semantics.interpolation import (
    HALFWAY,
    WHOLE,
    Interpolation,
    keep_aspect_ratio,
    nearest_indices,
    neighbors,
    resized_length,
    source_coordinates,
)

from ..emit import Dim, Emitter, Value
from ..rules import onnx_op


@onnx_op("Resize")
def resize(
    t,
    x,
    roi,
    scales,
    sizes,
    *,
    antialias,
    axes,
    coordinate_transformation_mode,
    cubic_coeff_a,
    exclude_outside,
    extrapolation_value,
    keep_aspect_ratio_policy,
    mode,
    nearest_mode,
):
    sampling = Interpolation(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias),
        extrapolation_value,
    )
    return resize_axes(t, x, list(range(t.rank(x))), roi, scales, sizes, axes, keep_aspect_ratio_policy, sampling)


@onnx_op(f"{CHANNELS_LAST}::Resize")
def resize_channels_last(
    t,
    x,
    roi,
    scales,
    sizes,
    *,
    antialias,
    axes,
    coordinate_transformation_mode,
    cubic_coeff_a,
    exclude_outside,
    extrapolation_value,
    keep_aspect_ratio_policy,
    mode,
    nearest_mode,
):
    sampling = Interpolation(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias),
        extrapolation_value,
    )
    rank = t.rank(x)
    places = [0, rank - 1, *range(1, rank - 1)]
    return resize_axes(t, x, places, roi, scales, sizes, axes, keep_aspect_ratio_policy, sampling)


def resize_axes(
    t: Emitter,
    x: Value,
    places: Sequence[int],
    roi: Value,
    scales: Value,
    sizes: Value,
    axes: Sequence[int] | None,
    policy: str,
    sampling: Interpolation,
) -> tf.Tensor:
    """Resize `x`; its axis for ONNX's axis i is `places[i]`."""
    rank = t.rank(x)
    axes = [a % rank for a in axes] if axes is not None else list(range(rank))
    dims = [t.shape(x)[places[a]] for a in axes]
    factors, targets = _scales_and_sizes(t, dims, scales, sizes, policy)
    dtype = x.dtype
    if sampling.mode != "nearest" and dtype.is_integer:
        x = tf.cast(x, tf.float32)
    outside: list[tuple[int, Any]] = []
    for i, axis in enumerate(axes):
        if (
            isinstance(factors[i], float)
            and factors[i] == 1
            and _is_same_size(dims[i], targets[i])
            and ignores_roi(sampling)
        ):
            continue
        bounds = _region_bounds(t, roi, i, len(axes)) if sampling.coordinates == "tf_crop_and_resize" else None
        where = coordinates(sampling, dims[i], targets[i], factors[i], bounds)
        x = resample_axis(x, places[axis], dims[i], where, factors[i], sampling)
        if bounds is not None:
            outside.append((places[axis], (where < 0) | (where > _as_number(dims[i]) - 1)))
    for axis, beyond in outside:
        beyond = tf.reshape(beyond, [-1 if i == axis else 1 for i in range(rank)])
        x = tf.where(beyond, tf.cast(sampling.extrapolation, x.dtype), x)
    if x.dtype != dtype:
        whole = tf.round(x) if sampling.antialias else x * WHOLE  # a cast drops the fraction
        x = tf.cast(tf.clip_by_value(whole, float(dtype.min), float(dtype.max)), dtype)
    return tf.convert_to_tensor(x)


def ignores_roi(sampling: Interpolation) -> bool:
    """Return whether an axis with a scale of one stays unchanged."""
    return sampling.coordinates != "tf_crop_and_resize"


def _is_same_size(a: Dim, b: Dim) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def _as_float(value: float | tf.Tensor) -> np.float32 | tf.Tensor:
    return np.float32(value) if isinstance(value, (int, float)) else tf.cast(value, tf.float32)


def _as_number(value: Dim) -> int | tf.Tensor:
    return value if isinstance(value, int) else tf.cast(value, tf.float32)


def _scales_and_sizes(
    t: Emitter, dims: Sequence[Dim], scales: Value, sizes: Value, policy: str
) -> tuple[list[float | tf.Tensor], list[Dim]]:
    """Return the scale and the new size of each axis, as numbers if they are known."""
    if sizes is not None:
        known = t.ints(sizes)
        wanted = known if known is not None else tf.unstack(tf.cast(sizes, tf.int32), num=len(dims))
        if policy != "stretch":
            return _keep_aspect_ratio(dims, wanted, policy)
        return [_ratio(w, n) for w, n in zip(wanted, dims, strict=True)], list(wanted)
    numbers = t.static(scales)
    if numbers is None:
        factors = tf.unstack(scales, num=len(dims))
        sizes = [tf.cast(n, tf.float32) * f for n, f in zip(dims, factors, strict=True)]
        return factors, [tf.cast(tf.floor(n), tf.int32) for n in sizes]
    # The product is computed in float32, as the scales are: 0.6 × 5 is then 3.
    factors = [float(f) for f in numbers.ravel()]
    targets = [
        resized_length(n, f)
        if isinstance(n, int)
        else n
        if f == 1
        else tf.cast(tf.floor(tf.cast(n, tf.float32) * f), tf.int32)
        for n, f in zip(dims, factors, strict=True)
    ]
    return factors, targets


def _ratio(target: Dim, size: Dim) -> float | tf.Tensor:
    if isinstance(target, int) and isinstance(size, int):
        return target / size
    return _quotient(tf.cast(target, tf.float32), tf.cast(size, tf.float32))


def _quotient(a: tf.Tensor, b: np.float32 | tf.Tensor) -> tf.Tensor:
    """Return a / b of positive numbers, rounded to float32.

    TensorFlow's optimizer multiplies by the reciprocal of a constant divisor, and 5 · (1 / 6) differs from 5 / 6:
    coordinates halfway between two elements would be rounded to the other element. Here the divisor is made to look
    computed.
    """
    return a / tf.maximum(b, tf.minimum(a, b))


def _keep_aspect_ratio(
    dims: Sequence[Dim], wanted: Sequence[Dim], policy: str
) -> tuple[list[float | tf.Tensor], list[Dim]]:
    """Return one scale for all axes: the smallest (not_larger) or the largest (not_smaller) of them."""
    ratios = [_ratio(w, n) for w, n in zip(wanted, dims, strict=True)]
    if all(isinstance(r, float) for r in ratios):
        scale, sizes = keep_aspect_ratio(dims, wanted, policy)
        return [scale] * len(dims), sizes
    pick = tf.reduce_min if policy == "not_larger" else tf.reduce_max
    scale = pick(tf.stack([tf.cast(r, tf.float32) for r in ratios]))
    return [scale] * len(dims), [tf.cast(tf.floor(scale * tf.cast(n, tf.float32) + 0.5), tf.int32) for n in dims]


def _region_bounds(t: Emitter, roi: Value, i: int, count: int) -> tuple[Any, Any]:
    known = t.static(roi)
    if known is not None:
        return float(known[i]), float(known[i + count])
    region = tf.cast(roi, tf.float32)
    return region[i], region[i + count]


def coordinates(
    sampling: Interpolation, size: Dim, target: Dim, scale: float | tf.Tensor, bounds: tuple[Any, Any] | None
) -> np.ndarray | tf.Tensor:
    """Return the input coordinate of each output element: numpy if everything is known, else float32.

    The formulas are those of convert.semantics.interpolation, for sizes that are tensors.
    """
    mode = sampling.coordinates
    known = isinstance(size, int) and isinstance(target, int) and isinstance(scale, float)
    if known and (bounds is None or isinstance(bounds[0], float)):
        return source_coordinates(size, target, scale, sampling, bounds)
    place = tf.cast(tf.range(target), tf.float32)
    n, m, scale = _as_float(size), _as_float(target), _as_float(scale)
    one = tf.equal(m, 1.0)
    if mode == "half_pixel":
        return _quotient(place + 0.5, scale) - 0.5
    if mode == "tf_half_pixel_for_nn":  # a mode of opset 11
        return _quotient(place + 0.5, scale)
    if mode == "pytorch_half_pixel":
        return tf.where(one, place * 0, _quotient(place + 0.5, scale) - 0.5)
    if mode == "half_pixel_symmetric":
        return n / 2 * (1 - m / (n * scale)) + _quotient(place + 0.5, scale) - 0.5
    if mode == "asymmetric":
        return _quotient(place, scale)
    if mode == "align_corners":
        return tf.where(one, place * 0, _quotient(place * (n - 1), tf.where(one, 1.0, m - 1)))
    if mode == "tf_crop_and_resize":
        assert bounds is not None
        start, end = bounds
        many = start * (n - 1) + place * (end - start) * (n - 1) / tf.where(one, 1.0, m - 1)
        return tf.where(one, 0.5 * (start + end) * (n - 1) + place * 0, many)
    raise Unsupported(f"Resize with coordinate_transformation_mode {mode!r}")


def resample_axis(
    x: tf.Tensor,
    axis: int,
    size: Dim,
    where: np.ndarray | tf.Tensor,
    scale: float | tf.Tensor,
    sampling: Interpolation,
) -> tf.Tensor:
    """Resample one axis at the input coordinates `where`."""
    last = size - 1
    if sampling.mode == "nearest":
        known = isinstance(where, np.ndarray) and isinstance(size, int)
        nearest = nearest_indices(where, size, sampling.nearest) if known else _round_nearest(where, sampling.nearest)
        return tf.gather(x, _clip_indices(nearest, last), axis=axis)
    if sampling.mode not in ("linear", "cubic"):
        raise Unsupported(f"Resize with mode {sampling.mode!r}")
    if sampling.antialias and not isinstance(scale, float):
        return _resample_antialiased(x, axis, last, where, scale, sampling)
    if isinstance(where, np.ndarray) and isinstance(size, int):
        places, weights = (list(a.T) for a in neighbors(where, size, scale, sampling))
    else:
        places, weights = _neighbors(where, size, scale, sampling)
    result = None
    for place, weight in zip(places, weights, strict=True):
        shape = [-1 if i == axis else 1 for i in range(x.shape.rank)]
        part = tf.gather(x, _clip_indices(place, last), axis=axis) * _spread_weights(weight, shape, x.dtype)
        result = part if result is None else result + part
    return result


def _spread_weights(weight: np.ndarray | tf.Tensor, shape: list[int], dtype: tf.DType) -> np.ndarray | tf.Tensor:
    if isinstance(weight, np.ndarray):
        return weight.reshape(shape).astype(dtype.as_numpy_dtype)
    return tf.cast(tf.reshape(weight, shape), dtype)


def _clip_indices(place: np.ndarray | tf.Tensor, last: Dim) -> np.ndarray | tf.Tensor:
    if isinstance(place, np.ndarray) and isinstance(last, int):
        return np.clip(place, 0, last).astype(np.int32)
    return tf.clip_by_value(tf.cast(place, tf.int32), 0, last)


def _round_nearest(where: tf.Tensor, mode: str) -> tf.Tensor:
    if mode == "floor":
        return tf.floor(where)
    if mode == "ceil":
        return tf.math.ceil(where)
    below = tf.floor(where)
    beyond_half = where - below - 0.5
    if mode == "round_prefer_floor":
        return below + tf.cast(beyond_half > HALFWAY, where.dtype)
    if mode == "round_prefer_ceil":
        return below + tf.cast(beyond_half >= -HALFWAY, where.dtype)
    raise Unsupported(f"Resize with nearest_mode {mode!r}")


def _neighbors(where: tf.Tensor, size: Dim, scale: float | tf.Tensor, sampling: Interpolation) -> tuple[Any, Any]:
    """Return indices and weights of the input elements for each output element, if their number is fixed."""
    reach = 1 if sampling.mode == "linear" else 2
    stretch = 1.0
    if sampling.antialias:
        stretch = max(1.0, 1.0 / scale)
    span = int(np.ceil(reach * stretch))
    base = tf.floor(where)
    places = [base + float(k) for k in range(1 - span, span + 1)]
    weights = [_interpolation_kernel((place - where) / np.float32(stretch), sampling) for place in places]
    if sampling.exclude_outside or sampling.antialias:
        if sampling.exclude_outside:
            inside = [(place >= 0) & (place <= _as_float(size) - 1) for place in places]
            weights = [tf.where(i, w, w * 0) for i, w in zip(inside, weights, strict=True)]
        total = sum(weights[1:], weights[0])
        weights = [w / total for w in weights]
    return places, weights


def _resample_antialiased(
    x: tf.Tensor, axis: int, last: Dim, where: tf.Tensor, scale: tf.Tensor, sampling: Interpolation
) -> tf.Tensor:
    """Resample one axis at a scale that is not known, so that the number of neighbours is not known either."""
    reach = 1.0 if sampling.mode == "linear" else 2.0
    stretch = tf.maximum(1.0, 1.0 / scale)
    span = tf.math.ceil(reach * stretch)
    places = tf.floor(where)[:, None] + tf.range(1 - span, span + 1)[None, :]
    weights = _interpolation_kernel((places - where[:, None]) / stretch, sampling)
    if sampling.exclude_outside:
        weights = tf.where((places >= 0) & (places <= _as_float(last)), weights, 0)
    weights = weights / tf.reduce_sum(weights, 1, keepdims=True)
    rank = x.shape.rank
    shape = [*([1] * axis), tf.shape(weights)[0], tf.shape(weights)[1], *([1] * (rank - axis - 1))]
    parts = tf.gather(x, _clip_indices(places, last), axis=axis) * tf.cast(tf.reshape(weights, shape), x.dtype)
    return tf.reduce_sum(parts, axis + 1)


def _interpolation_kernel(distance: tf.Tensor, sampling: Interpolation) -> tf.Tensor:
    d = tf.abs(distance)
    if sampling.mode == "linear":
        return tf.maximum(1 - d, 0 * d)
    a = np.float32(sampling.cubic)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return tf.where(d <= 1, near, tf.where(d < 2, far, 0 * d))
