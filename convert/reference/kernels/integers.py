"""Reference kernels of convolutions and products of integers, because numpy's integer products use no fast library.

A sum of products of bytes is exact in float64, which has a fast library: the 2^53 / 2^16 products that are allowed do
not fit into memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convert.errors import Unsupported
from convert.reference.kernels.nn import conv
from convert.reference.table import kernel

Array = Any


@kernel("MatMulInteger")
def matmul_integer(count: int, a: Array, b: Array, a_zero: Array = None, b_zero: Array = None) -> Array:
    return _product(a, a_zero, b, b_zero)


@kernel("QLinearMatMul")
def quantized_matmul(
    count: int, a: Array, a_scale: Array, a_zero: Array, b: Array, b_scale: Array, b_zero: Array, scale: Array,
    zero: Array,
) -> Array:  # fmt: skip
    return _to_steps(_product(a, a_zero, b, b_zero), _by_row(a_scale) * b_scale / scale, zero)


@kernel("ConvInteger")
def conv_integer(
    count: int, x: Array, w: Array, x_zero: Array = None, w_zero: Array = None, *, auto_pad: str, dilations: Any,
    group: int, kernel_shape: Any, pads: Any, strides: Any,
) -> Array:  # fmt: skip
    return _convolution(x, x_zero, w, w_zero, None, auto_pad, dilations, group, pads, strides)


@kernel("QLinearConv")
def quantized_conv(
    count: int, x: Array, x_scale: Array, x_zero: Array, w: Array, w_scale: Array, w_zero: Array, scale: Array,
    zero: Array, b: Array = None, *, auto_pad: str, dilations: Any, group: int, kernel_shape: Any, pads: Any,
    strides: Any,
) -> Array:  # fmt: skip
    total = _convolution(x, x_zero, w, w_zero, b, auto_pad, dilations, group, pads, strides)
    return _to_steps(total, x_scale * _by_channel(w_scale, w.ndim - 1) / scale, zero)


def _product(a: Array, a_zero: Array, b: Array, b_zero: Array) -> Array:
    """Return the product of matrices minus their zero points; `a` has one zero point for each row, or one for all."""
    return _whole(_shifted(a, None if a_zero is None else _by_row(a_zero)) @ _shifted(b, b_zero))


def _convolution(
    x: Array, x_zero: Array, w: Array, w_zero: Array, b: Array, auto_pad: str, dilations: Any, group: int, pads: Any,
    strides: Any,
) -> Array:  # fmt: skip
    weights = _shifted(w, None if w_zero is None else _by_channel(w_zero, w.ndim))
    return _whole(
        conv(
            1, _shifted(x, x_zero), weights, None if b is None else b.astype(np.float64), auto_pad=auto_pad,
            dilations=dilations, group=group, kernel_shape=None, pads=pads, strides=strides,
        )
    )  # fmt: skip


def _by_row(values: Array) -> Array:
    return values[:, None] if values.ndim == 1 and values.size > 1 else values


def _by_channel(values: Array, rank: int) -> Array:
    """Return values per output channel, or a single value, in a shape that broadcasts to weights of this rank."""
    return values.reshape(-1, *[1] * (rank - 1))


def _shifted(x: Array, zero: Array) -> Array:
    x = x.astype(np.float64)
    return x if zero is None else x - zero.astype(np.float64)


def _whole(total: Array) -> Array:
    return total.astype(np.int64).astype(np.int32)


def _to_steps(total: Array, factor: Array, zero: Array) -> Array:
    """Return `total * factor` rounded half to even, plus `zero`, clipped to the range of its dtype."""
    if zero.dtype.kind not in "iu":
        raise Unsupported(f"a quantized product of {zero.dtype}, which ONNX's reference lacks, too")
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(total * factor + zero), limits.min, limits.max).astype(zero.dtype)
