"""Pooling over windows and over all spatial dims. Data is channels-last."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np
import tensorflow as tf

from convert import limits
from convert.errors import ResourceLimit, Unsupported
from convert.semantics.windows import Window

from ..emit import Dim, Emitter, Value
from ..rules import channels_last, onnx_op
from .reduce import kept_from_reordering
from .sums import halves_in_float32, mean
from .windows import pad_spatial, spatial_shape, windows


def lowest_number(dtype: tf.DType) -> float:
    """Return the smallest number of a dtype."""
    return -np.inf if dtype.is_floating else dtype.min


def kernel_taps(x: tf.Tensor, window: Window, counts: Sequence[Dim]) -> Iterator[tuple[tuple[int, ...], tf.Tensor]]:
    """Yield, per kernel element, its offsets and the input elements under it, one per window; x is already padded.

    Raises `ResourceLimit` for a kernel of too many elements.
    """
    if math.prod(window.kernel) > limits.WINDOW_PLACES:
        raise ResourceLimit(
            f"indices of a MaxPool over windows of {math.prod(window.kernel):,} elements",
            hint="a program can set convert.limits.WINDOW_PLACES",
        )
    for offsets in itertools.product(*(range(k) for k in window.kernel)):
        spatial = []
        for offset, d, s, n in zip(offsets, window.dilations, window.strides, counts, strict=True):
            start = offset * d
            spatial.append(slice(start, start + (n - 1) * s + 1, s))
        yield offsets, x[(slice(None), *spatial, slice(None))]


def pool_windows(x: tf.Tensor, kind: str, window: Window, counts: Sequence[Dim]) -> tf.Tensor:
    """Return MAX or AVG over each window of an input that is already padded."""
    if _is_pooled_at_once(x, window):
        if kind == "MAX":
            return tf.nn.max_pool(kept_from_reordering(x), window.kernel, window.strides, "VALID")
        return tf.nn.avg_pool(x, window.kernel, window.strides, "VALID")
    # Maxima and sums over a window are computed one axis after the other.
    for axis, (k, d, s, n) in enumerate(zip(window.kernel, window.dilations, window.strides, counts, strict=True)):
        ahead = (slice(None),) * (axis + 1)
        parts = [x[(*ahead, slice(i * d, i * d + (n - 1) * s + 1, s))] for i in range(k)]
        x = reduce(tf.maximum, parts) if kind == "MAX" else tf.add_n(parts)
    return x if kind == "MAX" else x / tf.constant(int(np.prod(window.kernel)), x.dtype)


def _is_pooled_at_once(x: tf.Tensor, window: Window) -> bool:
    """Return whether TensorFlow has a single kernel for it."""
    floats = x.dtype in (tf.float32, tf.float64, tf.float16)
    return floats and len(window.kernel) <= 3 and set(window.dilations) == {1}


@onnx_op("convert.channels_last::MaxPool")
def max_pool(t, x, *, auto_pad, dilations, kernel_shape, pads, storage_order, strides):
    if t.outputs > 1:
        raise Unsupported("indices of a channels-last MaxPool")
    return _maxima(t, x, windows(t, x, kernel_shape, strides, dilations, pads, auto_pad))


@onnx_op("MaxPool")
def max_pool_channels_first(t, x, *, auto_pad, dilations, kernel_shape, pads, storage_order, strides):
    x = t.channels_last(x)
    window = windows(t, x, kernel_shape, strides, dilations, pads, auto_pad)
    y = t.channels_first(_maxima(t, x, window))
    return y if t.outputs < 2 else (y, t.channels_first(_maximum_indices(t, x, window, storage_order)))


def _maxima(t: Emitter, x: tf.Tensor, window: Window) -> tf.Tensor:
    """Return the maximum of each window."""
    sizes = spatial_shape(t, x)
    if window.has_same_pads(sizes) and _is_pooled_at_once(x, window):
        return tf.nn.max_pool(kept_from_reordering(x), window.kernel, window.strides, "SAME")
    x = pad_spatial(x, window.before, window.after, lowest_number(x.dtype))
    return pool_windows(x, "MAX", window, window.counts(sizes))


def _maximum_indices(t: Emitter, x: tf.Tensor, window: Window, storage_order: int) -> tf.Tensor:
    """Return the index of each maximum in the whole N C spatial… tensor (row-major, or column-major)."""
    sizes = spatial_shape(t, x)
    counts = window.counts(sizes)
    batch, channels = t.shape(x)[0], t.shape(x)[-1]
    order = list(range(len(sizes)))
    if storage_order:
        order.reverse()
    places, values = [], []
    for offsets, value in kernel_taps(
        pad_spatial(x, window.before, window.after, lowest_number(x.dtype)), window, counts
    ):
        place = tf.zeros([], tf.int64)
        for axis in order:
            start = offsets[axis] * window.dilations[axis] - window.before[axis]
            along = tf.cast(tf.range(counts[axis]) * window.strides[axis] + start, tf.int64)
            along = tf.reshape(along, [-1 if i == axis + 1 else 1 for i in range(len(sizes) + 2)])
            place = place * tf.cast(sizes[axis], tf.int64) + along
        places.append(tf.broadcast_to(place, tf.shape(value)))
        values.append(value)
    best = tf.argmax(tf.stack(values), 0)
    chosen = reduce(tf.add, [tf.where(tf.equal(best, i), place, 0) for i, place in enumerate(places)])
    whole = reduce(lambda a, b: a * tf.cast(b, tf.int64), sizes, tf.ones([], tf.int64))
    plane = tf.range(batch)[:, None] * channels + tf.range(channels)[None, :]
    shape = [batch, *([1] * len(sizes)), channels]
    return chosen + tf.reshape(tf.cast(plane, tf.int64) * whole, shape)


@channels_last("AveragePool")
@halves_in_float32
def average_pool(t, x, *, auto_pad, count_include_pad, dilations, kernel_shape, pads, strides):
    sizes, window = spatial_shape(t, x), windows(t, x, kernel_shape, strides, dilations, pads, auto_pad)
    if window.has_same_pads(sizes) and not count_include_pad and _is_pooled_at_once(x, window):
        return tf.nn.avg_pool(x, window.kernel, window.strides, "SAME")
    counts = window.counts(sizes)
    mean = pool_windows(pad_spatial(x, window.before, window.after), "AVG", window, counts)
    if window.is_unpadded or count_include_pad:
        return mean
    factor = _kernel_over_count(sizes, window, counts, tf.float64 if x.dtype == tf.float64 else tf.float32)
    return mean if factor is None else mean * tf.cast(factor, mean.dtype)


def _kernel_over_count(
    sizes: Sequence[Dim], window: Window, counts: Sequence[Dim], dtype: tf.DType
) -> tf.Tensor | None:
    """Return the kernel's size divided by the number of input elements in each window: [1, spatial…, 1]; None if all
    are 1.

    dtype: the dtype of counts that are not known before the run.
    """
    known_factor: np.ndarray | None = None
    elements, size = None, 1
    for axis, n in enumerate(sizes):
        known = all(isinstance(d, int) for d in (n, counts[axis], window.before[axis]))
        arange, add = (np.arange, np.sum) if known else (tf.range, tf.reduce_sum)
        start = arange(counts[axis])[:, None] * window.strides[axis] - window.before[axis]
        place = start + np.arange(window.kernel[axis], dtype=np.int32)[None, :] * window.dilations[axis]
        inside = (place >= 0) & (place < n)
        count = add(inside.astype(np.float64) if known else tf.cast(inside, dtype), 1)
        if known and (count == window.kernel[axis]).all():
            continue
        shape = [-1 if i == axis + 1 else 1 for i in range(len(sizes) + 2)]
        if known:
            along = (window.kernel[axis] / count).reshape(shape)
            known_factor = along if known_factor is None else known_factor * along
        else:  # the product of counts is exact, so a single division rounds
            along = tf.reshape(count, shape)
            elements, size = along if elements is None else elements * along, size * window.kernel[axis]
    if elements is None:
        return known_factor
    whole = size if known_factor is None else size * known_factor
    return tf.constant(whole, dtype) / elements


def spatial_axes(t: Emitter, x: Value) -> list[int]:
    """Return the axes between batch and channels."""
    return list(range(1, t.rank(x) - 1))


@channels_last("GlobalAveragePool")
def global_average_pool(t, x):
    return mean(x, spatial_axes(t, x), True)


@channels_last("GlobalMaxPool")
def global_max_pool(t, x):
    return tf.reduce_max(kept_from_reordering(x), spatial_axes(t, x), keepdims=True)
