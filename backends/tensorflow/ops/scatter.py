"""Writing elements by index."""

from __future__ import annotations

import tensorflow as tf

from convert.errors import Unsupported

from ..emit import Emitter, Value
from ..rules import LITE, onnx_op
from .gather import wrap_negative, wrap_negative_nd
from .shape import dims_product, pack_dims


def scatter_updates(t: Emitter, x: tf.Tensor, places: tf.Tensor, updates: Value, reduction: str) -> tf.Tensor:
    """Return `x` with `updates` written to, or combined with, the elements at the index tuples `places`."""
    if t.node is not None and t.node.domain == LITE and reduction in ("none", "add"):
        return _write_in_lite(t, x, places, updates) if reduction == "none" else _add_in_lite(x, places, updates)
    return _scatter(x, places, updates, reduction)


def _scatter(x: Value, places: tf.Tensor, updates: Value, reduction: str) -> tf.Tensor:
    if x.dtype == tf.bool and reduction == "none":
        return tf.cast(_scatter(tf.cast(x, tf.int32), places, tf.cast(updates, tf.int32), "none"), tf.bool)
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


def _write_in_lite(t: Emitter, x: tf.Tensor, places: tf.Tensor, updates: Value) -> tf.Tensor:
    """Write the last update of each index, as other targets do, by a gather.

    TensorFlow Lite's own operator adds updates of equal indices, and multiplies the replaced elements by 0, which keeps
    NaN.
    """
    depth = places.shape[-1]
    if depth is None:
        raise Unsupported("tuples of indices of dynamic length")
    dims, rest = t.shape(x)[:], t.shape(x)[depth:]
    count = dims_product(dims[:depth])
    weights = tf.stack([tf.cast(dims_product(dims[i + 1 : depth]), tf.int32) for i in range(depth)])
    into = tf.reshape(tf.reduce_sum(tf.cast(places, tf.int32) * weights, -1), [-1])
    size = tf.size(into)
    rows = tf.concat([
        tf.reshape(x, pack_dims([count, *rest])), tf.reshape(updates, pack_dims([size, *rest])),
    ], 0)  # fmt: skip
    owners = tf.concat([tf.range(count), into], 0)
    last = tf.math.unsorted_segment_max(tf.range(count + size), owners, count)
    return tf.reshape(tf.gather(rows, last), pack_dims(dims))


def _add_in_lite(x: tf.Tensor, places: tf.Tensor, updates: Value) -> tf.Tensor:
    """Add updates without TensorFlow Lite's own operator, which turns infinity into NaN."""
    return tf.add(x, tf.scatter_nd(places, updates, tf.shape(x, places.dtype)))


def _scatter_multiply(x: tf.Tensor, places: tf.Tensor, updates: tf.Tensor) -> tf.Tensor:
    """Multiply elements by updates. TensorFlow has no scattered product, so updates are multiplied by segment first."""
    depth = places.shape.as_list()[-1]
    depth = tf.shape(places)[-1] if depth is None else depth
    dims = tf.shape(x, places.dtype)
    rest = tf.reduce_prod(dims[depth:])
    weights = tf.math.cumprod(dims[:depth], exclusive=True, reverse=True)
    flat = tf.reshape(tf.reduce_sum(tf.multiply(places, weights), -1), [-1])
    rows = tf.reshape(updates, tf.stack([tf.size(flat, places.dtype), rest]))
    factors = tf.math.unsorted_segment_prod(rows, flat, tf.reduce_prod(dims[:depth]))
    return tf.multiply(x, tf.reshape(factors, dims))


@onnx_op("ScatterND", f"{LITE}::ScatterND")
def scatter_nd(t, x, indices, updates, *, reduction):
    if t.rank(indices) == 1:  # a single index tuple, which TensorFlow reads as a list of one-dim indices
        indices, updates = tf.expand_dims(indices, 0), tf.expand_dims(updates, 0)
    return scatter_updates(
        t, tf.convert_to_tensor(x), tf.convert_to_tensor(wrap_negative_nd(t, x, indices)), updates, reduction
    )


@onnx_op("ScatterElements", f"{LITE}::ScatterElements")
def scatter_elements(t, x, indices, updates, *, axis, reduction):
    rank = t.rank(x)
    axis %= rank
    indices = tf.cast(wrap_negative(t, indices, t.shape(x)[axis]), tf.int64)
    grid = tf.meshgrid(*(tf.range(tf.cast(d, tf.int64)) for d in t.shape(indices)), indexing="ij")
    places = tf.stack([indices if i == axis else g for i, g in enumerate(grid)], -1)
    flat = tf.reshape(places, [-1, rank])
    return scatter_updates(t, tf.convert_to_tensor(x), flat, tf.reshape(updates, [-1]), reduction)
