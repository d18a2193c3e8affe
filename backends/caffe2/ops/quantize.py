"""Rules for products of 8-bit and 16-bit integers, as whole numbers in float32, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..common.dtypes import cast
from ..common.padding import slice_axis
from ..net import Net
from ..rules import onnx_op
from .conv import conv
from .math import compute_binary


@onnx_op("MatMulInteger")
def matmul_integer(net: Net, a: Blob, b: Blob, a_zero: Blob | None, b_zero: Blob | None) -> Blob:
    x, y = _subtract_zero_point(net, a, _row_parameter(net, a, a_zero)), _subtract_zero_point(net, b, b_zero)
    return _exact_product(net, x, y)


@onnx_op("ConvInteger")
def conv_integer(
    net: Net,
    x: Blob,
    w: Blob,
    x_zero: Blob | None,
    w_zero: Blob | None,
    *,
    auto_pad: str,
    dilations: list[int] | None,
    group: int,
    kernel_shape: list[int] | None,
    pads: list[int] | None,
    strides: list[int] | None,
) -> Blob:
    given = {
        "auto_pad": auto_pad, "dilations": dilations, "group": group, "kernel_shape": kernel_shape, "pads": pads,
        "strides": strides,
    }  # fmt: skip
    return _exact_convolution(net, x, w, x_zero, w_zero, given)


def _row_parameter(net: Net, a: Blob, parameter: Blob | None) -> Blob | None:
    """Return scales or zero points of a matrix's rows as a column."""
    if parameter is None or net.rank(parameter) != 1 or parameter.shape == (1,):
        return parameter
    return net.facts(net.ExpandDims(parameter, dims=[1]), shape=(*net.shape(parameter), 1))


def _channel_parameter(net: Net, parameter: Blob, rank: int) -> Blob:
    if net.rank(parameter) == 0 or parameter.shape == (1,):
        return parameter
    (size,) = net.shape(parameter)
    return net.facts(net.Reshape(parameter, shape=[-1, *[1] * (rank - 2)], outputs=2)[0],
                     parameter.dtype, (size, *[1] * (rank - 2)))  # fmt: skip


def _subtract_zero_point(net: Net, x: Blob, zero: Blob | None) -> Blob:
    """Return x − zero point in float32: at most 16 bits and a sign."""
    wide = cast(net, x, ir.DataType.FLOAT)
    return wide if zero is None else net.facts(net.Sub(wide, cast(net, zero, ir.DataType.FLOAT)), shape=x.shape)


_EXACT = 256
"""Number of products of centred 8-bit numbers (at most 255²) whose sum float32 holds exactly, below 2²⁴."""


def _exact_product(net: Net, x: Blob, y: Blob) -> Blob:
    """Return the matrix product of whole numbers as int32, in parts that float32 sums exactly."""
    depth = net.shape(x)[-1]
    if not isinstance(depth, int):
        raise Unsupported("an integer product over an axis whose size is not fixed")
    row = max(net.rank(y) - 2, 0)
    total: Blob | None = None
    for start in range(0, depth, _EXACT):
        end = min(start + _EXACT, depth)
        parts = [x, y]
        if depth > _EXACT:
            parts = [slice_axis(net, x, net.rank(x) - 1, start, end), slice_axis(net, y, row, start, end)]
        part = cast(net, net.BatchMatMul(*parts, broadcast=1), ir.DataType.INT32)
        total = part if total is None else compute_binary(net, "Add", total, part)
    assert total is not None
    return net.Reshape(total, shape=[], outputs=2)[0] if net.rank(x) == net.rank(y) == 1 else total


def _exact_convolution(
    net: Net, x: Blob, w: Blob, x_zero: Blob | None, w_zero: Blob | None, given: Mapping[str, Any]
) -> Blob:
    """Return the int32 convolution of whole numbers, split by input channels; padding has the zero point."""
    a = _subtract_zero_point(net, x, x_zero)
    b = _subtract_zero_point(net, w, None if w_zero is None else _channel_parameter(net, w_zero, net.rank(x) + 1))
    sizes = net.shape(w)[1:]
    if not all(isinstance(s, int) for s in sizes):
        raise Unsupported("an integer convolution with a weight whose size is not fixed")
    channels, area = int(str(sizes[0])), int(np.prod([int(str(s)) for s in sizes[1:]]))
    step = max(1, _EXACT // area)
    if channels > step and given["group"] != 1:
        raise Unsupported("an integer convolution with groups whose sums float32 does not hold")
    if area > _EXACT:
        raise Unsupported(f"an integer convolution with {area} cells in its kernel, whose sums float32 does not hold")
    total: Blob | None = None
    for start in range(0, channels, step):
        end = min(start + step, channels)
        parts = [a, b] if channels <= step else [slice_axis(net, v, 1, start, end) for v in (a, b)]
        part = cast(net, conv(net, *parts, None, **given), ir.DataType.INT32)
        total = part if total is None else net.Add(total, part)
    assert total is not None
    return total
