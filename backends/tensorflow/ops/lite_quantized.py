"""Integer matrix products and convolutions for TensorFlow Lite, whose exact kernels are float32 only.

Centred 8-bit operands are at most 255, so a sum of up to 258 products is below 2²⁴, and exact in float32 in any order.
Longer sums are split into parts of this length, which are added in int32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import tensorflow as tf

from convert.errors import Unsupported

from ..rules import LITE, onnx_op
from .conv import convolve
from .linalg import matrix_product
from .quantized import subtract_zero_point
from .windows import kernel_shape_of, windows

_LONGEST = 2**24 // 255**2
"""Number of products of two centred 8-bit operands whose sum float32 holds exactly."""


@onnx_op(f"{LITE}::MatMulInteger")
def matmul_integer(t, a, b, a_zero, b_zero):
    length = a.shape[-1] if a.shape[-1] is not None else b.shape[-2 if b.shape.rank > 1 else -1]
    if length is None:
        raise Unsupported(
            f"sums over a dim of unknown size, of which TensorFlow Lite has exact ones of {_LONGEST} products",
            hint="say the size with --input",
        )
    a, b = (subtract_zero_point(t, x, zero, axis, tf.float32) for x, zero, axis in ((a, a_zero, -2), (b, b_zero, -1)))
    parts = [
        tf.cast(
            matrix_product(a[..., first:last], b[..., first:last, :] if b.shape.rank > 1 else b[first:last]), tf.int32
        )
        for first, last in _parts(length, _LONGEST)
    ]
    return tf.add_n(parts) if len(parts) > 1 else parts[0]


@onnx_op(f"{LITE}::ConvInteger")
def conv_integer(t, x, w, x_zero, w_zero, *, auto_pad, dilations, group, kernel_shape, pads, strides):
    kernel = kernel_shape or kernel_shape_of(t, w)
    window = windows(t, x, kernel, strides, dilations, pads, auto_pad)
    channels, most = w.shape[1], _LONGEST // math.prod(kernel)
    if channels is None or not most or (group > 1 and channels > most):
        raise Unsupported(
            f"{group} groups, whose windows are {channels} x {list(kernel)}: TensorFlow Lite has exact sums of "
            f"{_LONGEST} products"
        )
    # A pad represents the zero point, which is 0 after centring.
    x, w = subtract_zero_point(t, x, x_zero, -1, tf.float32), subtract_zero_point(t, w, w_zero, 0, tf.float32)
    if channels <= most:
        return tf.cast(convolve(t, x, w, window, group), tf.int32)
    parts = [convolve(t, x[..., a:b], w[:, a:b], window, group) for a, b in _parts(channels, most)]
    return tf.add_n([tf.cast(part, tf.int32) for part in parts])


def _parts(length: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of parts of about equal length, none longer than `most`."""
    count = max(1, -(-length // most))
    return ((length * n // count, length * (n + 1) // count) for n in range(count))
