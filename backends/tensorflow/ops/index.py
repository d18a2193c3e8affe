"""Slices and other ranges along axes."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ..emit import Dim, Emitter, Value
from ..rules import LITE, onnx_op

# TensorFlow counts slices in int32 if it gets Python numbers; no dim is larger.
_FAR = 2**31 - 1


@onnx_op("Slice")
def slice_(t, x, starts, ends, axes, steps):
    begin, end, step = t.ints(starts), t.ints(ends), t.ints(steps)
    chosen = t.ints(axes)
    if begin is None or end is None or (steps is not None and step is None) or (axes is not None and chosen is None):
        return _dynamic_bounds(t, x, starts, ends, axes, steps)
    return _static_slice(
        t, x, begin, end, chosen if chosen is not None else range(len(begin)), step or [1] * len(begin)
    )


def _static_slice(
    t: Emitter, x: Value, begin: Sequence[int], end: Sequence[int], axes: Sequence[int], step: Sequence[int]
) -> tf.Tensor:
    # By ONNX's specification, each axis occurs once only.
    spec = [slice(None)] * t.rank(x)
    for axis, b, e, s in zip(axes, begin, end, step, strict=True):
        size = t.shape(x)[axis]
        if isinstance(size, int) and s > 0:  # TensorFlow Lite's converter rejects slices beyond the end of a dim
            b, e = min(b, size), e if e < size else _FAR
        # A bound beyond the end of the dim means the end of the dim, in either direction.
        start = None if (b >= _FAR and s < 0) or (b <= -_FAR and s > 0) else max(min(b, _FAR), -_FAR)
        stop = None if (e >= _FAR and s > 0) or (e <= -_FAR and s < 0) else max(min(e, _FAR), -_FAR)
        # TensorFlow Lite's XNNPACK treats an end of 0 as the end of the dim; an end before the first element is empty
        # as well.
        stop = -_FAR if stop == 0 and s > 0 else stop
        if s < 0 and b < -1:
            # For a backward slice that starts before the first element, ONNX includes the first element and TensorFlow
            # includes none.
            start = _at_least_first(size, max(b, -_FAR))
        spec[axis] = slice(start, stop, max(min(s, _FAR), -_FAR))
    return tf.convert_to_tensor(x)[tuple(spec)]


def _at_least_first(size: Dim, start: int) -> Dim:
    """Return a negative `start` of a backward slice, counted from the front and at least 0."""
    return max(size + start, 0) if isinstance(size, int) else tf.maximum(size + start, 0)


def _dynamic_bounds(
    t: Emitter, x: Value, starts: Value, ends: Value, axes: Value, steps: Value
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return begin, end and step of every axis as vectors; axes that are not sliced are taken whole."""
    rank = t.rank(x)
    starts, ends = _near(t, starts), _near(t, ends)
    count = tf.size(starts)
    steps = tf.ones_like(starts) if steps is None else tf.cast(steps, tf.int64)
    axes = tf.range(count) if axes is None else tf.cast(axes, tf.int32)
    places = tf.where(axes < 0, axes + rank, axes)[:, None]
    dims = tf.shape(x, tf.int64)

    def spread(default: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        return tf.tensor_scatter_nd_update(default, places, values)

    # TensorFlow adds the dim to negative bounds before clamping, as ONNX does.
    known = t.ints(steps)
    if known is None or min(known, default=1) < 0:
        early = tf.maximum(starts + tf.gather(dims, places[:, 0]), 0)  # see `_static_slice`
        starts = tf.where((starts < 0) & (steps < 0), early, starts)
    begin = spread(tf.zeros_like(dims), starts)
    end, step = spread(dims, ends), spread(tf.ones_like(dims), steps)
    y = tf.strided_slice(x, begin, end, step)
    y.set_shape([None] * rank)
    return y


def _near(t: Emitter, bounds: Value) -> tf.Tensor:
    """Return int64 bounds; known ones are clamped to int32, in which TensorFlow Lite counts, so that a far end does not
    become -1.
    """
    known = t.ints(bounds)
    if known is not None:
        return tf.constant([max(min(b, _FAR), -_FAR) for b in known], tf.int64)
    return tf.cast(bounds, tf.int64)


@onnx_op(f"{LITE}::Slice")
def slice_of_lite(t, x, starts, ends, axes, steps):
    """Slice a vector of unknown length as a matrix; a matrix of two columns if its elements are not floats.

    TensorFlow's converter turns x[1:3] of such a vector into a SLICE of two elements, which fails if there are fewer.
    """
    starts, ends = (b if t.ints(b) is not None else tf.clip_by_value(b, -_FAR, _FAR) for b in (starts, ends))
    if t.rank(x) != 1 or x.shape[0] is not None or x.dtype == tf.string:
        return slice_(t, x, starts, ends, axes, steps)
    column, axes = tf.reshape(x, [-1, 1]), None  # the only axis becomes the first axis, even if it was given as -1
    if x.dtype.is_floating:
        return tf.reshape(slice_(t, column, starts, ends, axes, steps), [-1])
    return tf.gather(slice_(t, tf.concat([column, column], 1), starts, ends, axes, steps), 0, axis=1)


@onnx_op("ReverseSequence")
def reverse_sequence(t, x, lengths, *, batch_axis, time_axis):
    return tf.reverse_sequence(x, lengths, seq_axis=time_axis, batch_axis=batch_axis)


@onnx_op(f"{LITE}::ReverseSequence")
def reverse_sequence_of_lite(t, x, lengths, *, batch_axis, time_axis):
    """ReverseSequence as a gather: the converter gives input and output of a reversal different 8-bit scales."""
    steps, ends = tf.range(tf.shape(x)[time_axis])[None], tf.cast(lengths, tf.int32)[:, None]
    places = tf.where(steps < ends, ends - 1 - steps, steps)
    if batch_axis == 0:
        return tf.gather(x, places, axis=1, batch_dims=1)
    order = [1, 0, *range(2, x.shape.rank)]
    return tf.transpose(tf.gather(tf.transpose(x, order), places, axis=1, batch_dims=1), order)


@onnx_op("Compress")
def compress(t, x, condition, *, axis):
    if axis is None:
        x, axis = tf.reshape(x, [-1]), 0
    return tf.gather(x, tf.where(condition)[:, 0], axis=axis)
