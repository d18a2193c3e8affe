"""Concatenating and splitting tensors."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ..emit import Dim
from ..rules import LITE, onnx_op


@onnx_op("Concat")
def concat(t, *inputs, axis):
    return tf.concat(inputs, axis)


@onnx_op("Split", f"{LITE}::Split")
def split(t, x, sizes, *, axis, num_outputs):
    count = num_outputs or len(t.node.outputs)
    known = None if sizes is None else t.ints(sizes)
    dim = t.dim(x, axis)
    if known is not None:
        parts = known
    elif sizes is not None:
        parts = tf.unstack(sizes, num=count)
    elif isinstance(dim, int) and dim % count == 0:
        parts = [dim // count] * count
    else:  # the last part is smaller if the dim does not divide
        part = (dim + count - 1) // count
        parts = [part] * (count - 1) + [dim - part * (count - 1)]
    if t.node.domain == LITE and x.dtype not in _SPLIT_BY_LITE:
        return _slices(x, axis, parts)
    if t.node.domain == LITE and all(isinstance(part, int) and part == parts[0] for part in parts):
        return tuple(tf.split(x, count, axis))  # SPLIT, which XNNPACK takes, instead of SPLIT_V
    return tuple(tf.split(x, parts, axis, num=count))


_SPLIT_BY_LITE = (tf.float32, tf.int32, tf.int16, tf.int8, tf.uint8)
"""Dtypes that the split kernels support; slices support more."""


def _slices(x: tf.Tensor, axis: int, sizes: Sequence[Dim]) -> tuple[tf.Tensor, ...]:
    place = [slice(None)] * x.shape.rank
    found, begin = [], 0
    for size in sizes:
        place[axis] = slice(begin, begin + size)
        found.append(x[tuple(place)])
        begin = begin + size
    return tuple(found)
