"""Rules for quantization: 8-bit and 16-bit integers as whole numbers in float32 or int32, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph.tensors import dtype_name

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..common.padding import slice_axis
from ..common.shapes import reshape_fixed
from ..net import Net
from ..rules import onnx_op
from .conv import conv
from .math import compute_binary, round_half_even

_RANGES = {
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT16: (0, 65535),
    ir.DataType.INT16: (-32768, 32767),
}


@onnx_op("QuantizeLinear")
def quantize_linear(
    net: Net,
    x: Blob,
    scale: Blob,
    zero_point: Blob | None,
    *,
    axis: int,
    block_size: int,
    output_dtype: int,
    precision: int,
    saturate: int,
) -> Blob:
    """round(x / scale) half to even + zero point, clipped to the range of the integer; `saturate` concerns float8."""
    if precision not in (0, ir.DataType.FLOAT):
        raise Unsupported(f"precision={precision}: the division is in float32")
    target = ir.DataType(output_dtype or ir.DataType.UINT8) if zero_point is None else zero_point.dtype
    divisor = _broadcast_parameter(net, x, widen(net, scale, FLOAT), axis, block_size)
    quotient = net.Div(widen(net, x, FLOAT), divisor)
    zero = (
        None
        if zero_point is None
        else _broadcast_parameter(net, x, cast(net, zero_point, ir.DataType.FLOAT), axis, block_size)
    )
    if target not in _RANGES:
        raise Unsupported(f"quantization to {dtype_name(target)}, which Caffe2 does not have")
    low, high = _RANGES[target]
    y = round_half_even(net, quotient)
    y = y if zero is None else net.Add(y, zero)
    return cast(net, cast(net, net.Clip(y, min=float(low), max=float(high)), ir.DataType.INT32), target)


@onnx_op("DequantizeLinear")
def dequantize_linear(
    net: Net,
    x: Blob,
    scale: Blob,
    zero_point: Blob | None,
    *,
    axis: int,
    block_size: int,
    output_dtype: int,
) -> Blob:
    """(x − zero point) · scale; the difference of int32 is computed before it becomes a float."""
    wide = widen(net, x, (ir.DataType.INT32,))
    if zero_point is not None:
        wide = net.Sub(
            wide, _broadcast_parameter(net, x, widen(net, zero_point, (ir.DataType.INT32,)), axis, block_size)
        )
    factor = _broadcast_parameter(net, x, widen(net, scale, FLOAT), axis, block_size)
    dtype = ir.DataType(output_dtype) if output_dtype else scale.dtype
    return cast(net, net.Mul(cast(net, wide, ir.DataType.FLOAT), factor), dtype)


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


def _broadcast_parameter(net: Net, x: Blob, parameter: Blob, axis: int, block_size: int) -> Blob:
    """Return a scale or zero point that broadcasts against `x`: per tensor, per index of an axis, or per block."""
    if net.rank(parameter) == 0 or (net.rank(parameter) == 1 and parameter.shape == (1,)):
        return parameter
    along = net.axis(x, axis)
    if block_size:
        size, count = net.shape(x)[along], net.shape(parameter)[along]
        if not isinstance(size, int) or not isinstance(count, int):
            raise Unsupported("blocks along an axis whose size is not fixed")
        index = np.arange(size, dtype=np.int64) // block_size
        shape = [size if i == along else d for i, d in enumerate(net.shape(parameter))]
        return net.facts(net.Gather(parameter, net.const(index), axis=along), parameter.dtype, shape)
    (size,) = net.shape(parameter)
    if not isinstance(size, int):
        raise Unsupported("one scale for each index of an axis whose size is not fixed")
    return reshape_fixed(net, parameter, [size if i == along else 1 for i in range(net.rank(x))])


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
