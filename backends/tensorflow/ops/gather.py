"""Selecting elements by index."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ..emit import Dim, Emitter, Value
from ..rules import onnx_op


def wrap_negative(t: Emitter, indices: Value, size: Dim) -> tf.Tensor | np.ndarray:
    """Return non-negative indices; TensorFlow's kernels reject negative ones, which count from the end."""
    known = t.static(indices)
    if known is not None:
        if (known >= 0).all():
            return known
        if isinstance(size, int):
            return np.where(known < 0, known + size, known)
    size = tf.cast(size, indices.dtype)
    return tf.where(tf.less(indices, tf.zeros([], indices.dtype)), tf.add(indices, size), indices)


@onnx_op("Gather")
def gather(t, x, indices, *, axis):
    return tf.gather(x, wrap_negative(t, indices, t.shape(x)[axis]), axis=axis)


@onnx_op("GatherElements")
def gather_elements(t, x, indices, *, axis):
    rank = t.rank(x)
    axis %= rank
    indices = wrap_negative(t, indices, t.shape(x)[axis])
    # Along the other axes the indices may be shorter than the data.
    dims, picked = t.shape(x), t.shape(tf.convert_to_tensor(indices))
    x = tf.slice(x, [0] * rank, tf.stack([dims[i] if i == axis else d for i, d in enumerate(picked)]))
    if rank == 1:
        return tf.gather(x, indices)
    last = [*(i for i in range(rank) if i != axis), axis]
    back = [int(i) for i in np.argsort(last)]
    y = tf.gather(tf.transpose(x, last), tf.transpose(indices, last), axis=-1, batch_dims=rank - 1)
    return tf.transpose(y, back)


@onnx_op("GatherND")
def gather_nd(t, x, indices, *, batch_dims):
    indices = wrap_negative_nd(t, x, indices, batch_dims)
    if not batch_dims:
        return tf.gather_nd(x, indices)
    # With batch_dims, TensorFlow is wrong if the length of the index tuples is unknown.
    indices = tf.convert_to_tensor(indices)
    lead, rank = t.shape(indices)[:batch_dims], t.rank(indices)
    places = []
    for axis, n in enumerate(lead):
        along = tf.reshape(tf.range(tf.cast(n, indices.dtype)), [-1 if i == axis else 1 for i in range(rank)])
        places.append(tf.broadcast_to(along, tf.concat([tf.shape(indices)[:-1], [1]], 0)))
    return tf.gather_nd(x, tf.concat([*places, indices], -1))


def wrap_negative_nd(t: Emitter, x: Value, indices: Value, batch_dims: int = 0) -> tf.Tensor | np.ndarray:
    """Return index tuples with negative indices made non-negative."""
    known = t.static(indices)
    if known is not None and (known >= 0).all():
        return known
    depth = t.shape(indices)[-1]
    sizes = tf.cast(tf.convert_to_tensor(t.dims(x))[batch_dims : batch_dims + depth], indices.dtype)
    return tf.where(tf.less(indices, tf.zeros([], indices.dtype)), tf.add(indices, sizes), indices)


@onnx_op("OneHot")
def one_hot(t, indices, depth, values, *, axis):
    known = t.ints(depth)
    size = known[0] if known is not None else tf.cast(tf.reshape(depth, []), tf.int32)
    indices = tf.cast(indices, tf.int64)
    indices = tf.where(indices < 0, indices + tf.cast(size, tf.int64), indices)
    axis = axis if axis >= 0 else axis + t.rank(indices) + 1
    return tf.one_hot(indices, size, values[1], values[0], axis, values.dtype)


@onnx_op("NonZero")
def non_zero(t, x):
    found = x if x.dtype == tf.bool else tf.not_equal(x, tf.zeros([], x.dtype))
    return tf.transpose(tf.where(found))
