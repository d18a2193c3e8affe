"""Writing elements by index."""

from __future__ import annotations

import tensorflow as tf

from convert.errors import Unsupported

from ..emit import Value
from ..rules import onnx_op
from .gather import wrap_negative, wrap_negative_nd


def scatter_updates(x: Value, places: tf.Tensor, updates: Value, reduction: str) -> tf.Tensor:
    """`x` with `updates` written at, or combined with what is at, the index tuples `places`."""
    if x.dtype == tf.bool and reduction == "none":
        return tf.cast(scatter_updates(tf.cast(x, tf.int32), places, tf.cast(updates, tf.int32), "none"), tf.bool)
    if reduction == "mul":
        return _scatter_multiply(x, places, updates)
    functions = {
        "none": tf.tensor_scatter_nd_update,
        "add": tf.tensor_scatter_nd_add,
        "max": tf.tensor_scatter_nd_max,
        "min": tf.tensor_scatter_nd_min,
    }
    if reduction not in functions:
        raise Unsupported(f"reduction {reduction!r}")
    return functions[reduction](x, places, updates)


def _scatter_multiply(x: tf.Tensor, places: tf.Tensor, updates: tf.Tensor) -> tf.Tensor:
    """TensorFlow has no scattered product: the updates of each element are multiplied by segment first."""
    depth = places.shape.as_list()[-1]
    depth = tf.shape(places)[-1] if depth is None else depth
    dims = tf.shape(x, places.dtype)
    rest = tf.reduce_prod(dims[depth:])
    weights = tf.math.cumprod(dims[:depth], exclusive=True, reverse=True)
    flat = tf.reshape(tf.reduce_sum(tf.multiply(places, weights), -1), [-1])
    rows = tf.reshape(updates, tf.stack([tf.size(flat, places.dtype), rest]))
    factors = tf.math.unsorted_segment_prod(rows, flat, tf.reduce_prod(dims[:depth]))
    return tf.multiply(x, tf.reshape(factors, dims))


@onnx_op("ScatterND")
def scatter_nd(t, x, indices, updates, *, reduction):
    return scatter_updates(
        tf.convert_to_tensor(x), tf.convert_to_tensor(wrap_negative_nd(t, x, indices)), updates, reduction
    )


@onnx_op("ScatterElements")
def scatter_elements(t, x, indices, updates, *, axis, reduction):
    rank = t.rank(x)
    axis %= rank
    indices = tf.cast(wrap_negative(t, indices, t.shape(x)[axis]), tf.int64)
    grid = tf.meshgrid(*(tf.range(tf.cast(d, tf.int64)) for d in t.shape(indices)), indexing="ij")
    places = tf.stack([indices if i == axis else g for i, g in enumerate(grid)], -1)
    flat = tf.reshape(places, [-1, rank])
    return scatter_updates(tf.convert_to_tensor(x), flat, tf.reshape(updates, [-1]), reduction)
