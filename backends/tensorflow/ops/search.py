"""Sorting and searching."""

from __future__ import annotations

import tensorflow as tf

from ..rules import onnx_op


@onnx_op("TopK")
def top_k(t, x, k, *, axis, largest, sorted):
    known = t.ints(k)
    count = known[0] if known is not None else tf.reshape(tf.cast(k, tf.int32), [])
    rank = t.rank(x)
    axis %= rank
    order = [*(i for i in range(rank) if i != axis), axis]
    moved = t.permuted(x, order)
    key = moved if largest else reversed_order(moved)
    values, places = tf.math.top_k(key, count, sorted=True)
    if not largest:
        values = reversed_order(values)
    back = [order.index(i) for i in range(rank)]
    return t.permuted(values, back), t.permuted(tf.cast(places, tf.int64), back)


def reversed_order(x: tf.Tensor) -> tf.Tensor:
    """Return an order-reversing map of x that is its own inverse and does not overflow."""
    return tf.negative(x) if x.dtype.is_floating else tf.bitwise.invert(x)


@onnx_op("Unique")
def unique(t, x, *, axis, sorted):
    if axis is None:
        x, axis = tf.reshape(x, [-1]), 0
    axis %= t.rank(x)
    y, inverse, counts = tf.raw_ops.UniqueWithCountsV2(x=x, axis=[axis], out_idx=tf.int64)
    positions = tf.range(tf.size(inverse, tf.int64))
    first = tf.math.unsorted_segment_min(positions, inverse, tf.size(counts, tf.int64))
    if sorted:
        order = _lexical_order(y, axis)
        y, first, counts = tf.gather(y, order, axis=axis), tf.gather(first, order), tf.gather(counts, order)
        inverse = tf.gather(tf.math.invert_permutation(order), inverse)
    return y, first, tf.cast(inverse, tf.int64), counts


def _lexical_order(y: tf.Tensor, axis: int) -> tf.Tensor:
    """Return positions along `axis` that sort the slices by their first element, then their second, and so on."""
    if y.dtype == tf.string:  # TensorFlow sorts code points only
        y = tf.strings.unicode_decode(y, "UTF-8").to_tensor(-1)
    rank = y.shape.rank
    rows = tf.transpose(y, [axis, *(i for i in range(rank) if i != axis)])
    rows = tf.reshape(rows, tf.stack([tf.shape(rows)[0], -1]))
    order = tf.range(tf.shape(rows)[0])

    def by_column(i: tf.Tensor, order: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        column = tf.gather(rows[:, i], order)
        return i - 1, tf.gather(order, tf.argsort(column, stable=True))

    last = tf.shape(rows)[1] - 1
    _, order = tf.while_loop(lambda i, order: i >= 0, by_column, (last, order))
    return order
