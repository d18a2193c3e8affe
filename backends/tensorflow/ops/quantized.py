"""Integer matrix products and convolutions."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ..emit import Emitter, Value
from ..rules import channels_last, onnx_op
from .conv import convolve
from .linalg import matrix_product
from .windows import kernel_shape_of, windows


def subtract_zero_point(t: Emitter, x: Value, zero: Value, axis: int, dtype: tf.DType = tf.float64) -> Value:
    """Return x minus its zero point, per tensor or per index of `axis`, exact in a dtype that holds it."""
    known, known_zero = t.static(x), np.zeros([]) if zero is None else t.static(zero)
    if known is not None and known_zero is not None:
        # A weight is centred once during conversion, not in each run.
        shift = known_zero.astype(dtype.as_numpy_dtype)
        if shift.ndim == 1:
            shift = shift.reshape([-1 if i == axis % known.ndim else 1 for i in range(known.ndim)])
        return t.store.known(known.astype(shift.dtype) - shift, getattr(x, "name", "const"))
    wide = tf.cast(x, dtype)
    if zero is None:
        return wide
    zero = tf.cast(zero, dtype)
    if zero.shape.rank == 1 and zero.shape[0] != 1:
        rank = x.shape.rank
        zero = tf.reshape(zero, [-1 if i == axis % rank else 1 for i in range(rank)])
    elif zero.shape.rank == 1:
        zero = zero[0]
    return wide - zero


@onnx_op("MatMulInteger")
def matmul_integer(t, a, b, a_zero, b_zero):
    return tf.cast(
        matrix_product(subtract_zero_point(t, a, a_zero, -2), subtract_zero_point(t, b, b_zero, -1)), tf.int32
    )


@channels_last("ConvInteger")
def conv_integer(t, x, w, x_zero, w_zero, *, auto_pad, dilations, group, kernel_shape, pads, strides):
    window = windows(t, x, kernel_shape or kernel_shape_of(t, w), strides, dilations, pads, auto_pad)
    # A pad stands for the zero point, which is 0 after centring.
    x, w = subtract_zero_point(t, x, x_zero, -1), subtract_zero_point(t, w, w_zero, 0)
    return tf.cast(convolve(t, x, w, window, group), tf.int32)
