"""Joining and splitting tensors."""

from __future__ import annotations

import tensorflow as tf

from ..rules import onnx_op


@onnx_op("Concat")
def concat(t, *inputs, axis):
    return tf.concat(inputs, axis)


@onnx_op("Split")
def split(t, x, sizes, *, axis, num_outputs):
    count = num_outputs or len(t.node.outputs)
    if sizes is not None:
        known = t.ints(sizes)
        return tuple(tf.split(x, sizes if known is None else known, axis, num=count))
    dim = t.dim(x, axis)
    if isinstance(dim, int) and dim % count == 0:
        return tuple(tf.split(x, count, axis))
    # The last part is the smaller one where the dim does not divide.
    part = (dim + count - 1) // count
    rest = dim - part * (count - 1)
    return tuple(tf.split(x, [part] * (count - 1) + [rest], axis, num=count))
