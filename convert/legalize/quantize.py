"""Quantization written in arithmetic, and quantized products written as integer products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convert.graph import Graph

INTEGERS = (ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT8, ir.DataType.UINT8)
_WIDE = ir.DataType.FLOAT


def quantize(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """QuantizeLinear: x / scale rounded half to even, plus the zero point, saturated."""
    x, scale, zero = [*node.inputs, None][:3]
    assert x is not None
    assert scale is not None
    named = ir.DataType(node.attributes.get_int("output_dtype", 0))
    dtype = zero.dtype if zero is not None else named if named != ir.DataType.UNDEFINED else ir.DataType.UINT8
    assert dtype is not None
    precision = ir.DataType(node.attributes.get_int("precision", 0))
    return [quantized(g, node, x, dtype, g.dtype(scale) if precision == ir.DataType.UNDEFINED else precision)]


def quantized(g: Graph, node: ir.Node, x: ir.Value, dtype: ir.DataType, precision: ir.DataType) -> ir.Value:
    """Return `x` quantized to dtype `dtype` by the scale and the zero point of `node`, divided in `precision`."""
    scale, zero = [*node.inputs, None][1:3]
    assert scale is not None
    steps = g.Div(_cast(g, x, precision), broadcast_parameter(g, node, _cast(g, scale, precision)))
    wide = _at_least_float(g, steps)
    moved = None if _is_zero(g, zero) else broadcast_parameter(g, node, _cast(g, zero, g.dtype(wide)))
    if dtype.is_floating_point():
        return g.Cast(wide if moved is None else g.Add(wide, moved), to=dtype,
                      saturate=node.attributes.get_int("saturate", 1))  # fmt: skip
    return saturated(g, g.Round(wide), moved, dtype)


def saturated(g: Graph, steps: ir.Value, zero: ir.Value | None, dtype: ir.DataType) -> ir.Value:
    """Return whole floating-point numbers plus a zero point, clipped to the range of the integers of `dtype`."""
    limits = ml_dtypes.iinfo(dtype.numpy())
    moved = steps if zero is None else g.Add(steps, zero)
    return g.Cast(g.Clip(moved, *(g.const(float(n), g.dtype(moved)) for n in (limits.min, limits.max))), to=dtype)


def dequantize(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """DequantizeLinear: (x - zero point) · scale, multiplied in float32 or wider."""
    x, scale, zero = [*node.inputs, None][:3]
    assert x is not None
    assert scale is not None
    named = ir.DataType(node.attributes.get_int("output_dtype", 0))
    whole = _WIDE if g.dtype(x).is_floating_point() else ir.DataType.INT32
    steps = g.Cast(x, to=whole)
    if not _is_zero(g, zero):
        steps = g.Sub(steps, broadcast_parameter(g, node, g.Cast(zero, to=whole)))
    wide = broadcast_parameter(g, node, _at_least_float(g, scale))
    y = g.Mul(_cast(g, steps, g.dtype(wide)), wide)
    return [_cast(g, y, g.dtype(scale) if named == ir.DataType.UNDEFINED else named)]


def _cast(g: Graph, x: ir.Value | None, dtype: ir.DataType) -> ir.Value:
    assert x is not None
    return x if g.dtype(x) == dtype else g.Cast(x, to=dtype)


def _at_least_float(g: Graph, x: ir.Value) -> ir.Value:
    """Return half precision in float32, because it cannot represent all 16-bit integers; other dtypes unchanged."""
    return _cast(g, x, _WIDE) if g.dtype(x) in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) else x


def _is_zero(g: Graph, zero: ir.Value | None) -> bool:
    """Return whether there is no zero point, or one that is known to be 0."""
    known = np.zeros([]) if zero is None else g.static(zero)
    return known is not None and not known.astype(np.float32).any()


def broadcast_parameter(g: Graph, node: ir.Node, parameter: ir.Value) -> ir.Value:
    """Return a scale or zero point, per tensor, axis or block, in a shape that broadcasts with x."""
    x = node.inputs[0]
    assert x is not None
    block = node.attributes.get_int("block_size", 0)
    parameter = parameter if block else scalar_if_single(g, parameter)
    if g.rank(parameter) == 0:
        return parameter
    axis = node.attributes.get_int("axis", 1) % g.rank(x)
    if not block:
        return g.Reshape(parameter, np.array([-1 if i == axis else 1 for i in range(g.rank(x))], dtype=np.int64))
    length = g.shape(x)[axis]
    if isinstance(length, int):
        return g.Gather(parameter, np.arange(length, dtype=np.int64) // block, axis=axis)
    places = g.Range(np.int64(0), g.Gather(g.dims(x), np.int64(axis), axis=0), np.int64(1))
    return g.Gather(parameter, g.Div(places, np.int64(block)), axis=axis)


def dynamic_quantize(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """DynamicQuantizeLinear: the scale of a range of uint8 that includes 0, which is 1 for zeros as in ONNX Runtime."""
    x = node.inputs[0]
    assert x is not None
    low, high = range_with_zero(g, x)
    scale = g.Where(g.Equal(low, high), np.float32(1), g.Div(g.Sub(high, low), 255.0))
    zero = g.Cast(g.Clip(g.Round(g.Div(g.Neg(low), scale)), 0.0, 255.0), to=ir.DataType.UINT8)
    return [g.QuantizeLinear(x, scale, zero), scale, zero]


def range_with_zero(
    g: Graph, x: ir.Value, axes: Sequence[int] | None = None, keepdims: int = 0
) -> tuple[ir.Value, ir.Value]:
    """Return the least and the largest number of floating-point `x` along `axes` (None: all), widened to include 0."""
    low, high = (g.node(name, [x] if axes is None else [x, np.array(axes)], {"keepdims": keepdims})
                 for name in ("ReduceMin", "ReduceMax"))  # fmt: skip
    return g.Min(low, g.const(0.0, g.dtype(x))), g.Max(high, g.const(0.0, g.dtype(x)))


def qlinear_matmul(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """QLinearMatMul: MatMulInteger, scaled and quantized; `a` has one scale for each row, or one for all."""
    a, _, a_zero, b, _, b_zero, _, _ = node.inputs
    scale, *others = (scalar_if_single(g, node.inputs[i]) for i in (1, 4, 6, 7))
    by_row = g.Unsqueeze(scale, np.array([-1])) if g.rank(scale) == 1 else scale
    return [_requantized(g, g.MatMulInteger(a, b, a_zero, b_zero), by_row, *others)]


def qlinear_conv(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """QLinearConv: ConvInteger plus the bias, scaled and quantized; the weight has a scale for each channel, or one."""
    x, _, x_zero, w, w_scale, w_zero, _, _, bias = [*node.inputs, None][:9]
    assert w is not None
    column = np.array([-1, *[1] * (g.rank(w) - 2)])
    known = g.static(w_zero)  # symmetric weights: ONNX Runtime has no ConvInteger with a zero point for each channel
    total = g.node(
        "ConvInteger", [x, w, x_zero, w_zero if known is None or known.any() else None], dict(node.attributes)
    )
    if bias is not None:
        total = g.Add(total, g.Reshape(bias, column))
    x_scale, y_scale, zero = (scalar_if_single(g, node.inputs[i]) for i in (1, 6, 7))
    return [_requantized(g, total, x_scale, g.Reshape(w_scale, column), y_scale, zero)]


def _requantized(
    g: Graph, total: ir.Value, a_scale: ir.Value, b_scale: ir.Value, y_scale: ir.Value, zero: ir.Value
) -> ir.Value:
    """Return an int32 result quantized by `y_scale` and `zero`, in float32 as in ONNX Runtime."""
    left, right, result = (_cast(g, v, _WIDE) for v in (a_scale, b_scale, y_scale))
    steps = g.Round(g.Mul(g.Cast(total, to=_WIDE), g.Div(g.Mul(left, right), result)))
    return saturated(g, steps, g.Cast(zero, to=_WIDE), g.dtype(zero))


def scalar_if_single(g: Graph, parameter: ir.Value | None) -> ir.Value:
    """Return a scale or zero point, as a scalar if it is a vector of one number."""
    assert parameter is not None
    return g.Squeeze(parameter, np.array([0])) if g.shape(parameter) == (1,) else parameter


EXACT = 2**24 // 255**2
"""Number of products of two centred 8-bit integers (at most 255) whose sum float32 holds exactly, in any order."""


def matmul_integer(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """MatMulInteger: exact products in float32 of at most `EXACT` terms, added in int32.

    A sum over a dim of unknown size is computed in float64.
    """
    a, b, a_zero, b_zero = [*node.inputs, None, None][:4]
    assert a is not None
    assert b is not None
    if a_zero is not None and g.rank(a_zero) == 1 and g.shape(a_zero) != (1,):
        a_zero = g.Unsqueeze(a_zero, np.array([-1]))
    row = max(g.rank(b) - 2, 0)
    length = next((n for n in (g.shape(a)[-1], g.shape(b)[row]) if isinstance(n, int)), None)

    def product(a: ir.Value, b: ir.Value, dtype: ir.DataType) -> ir.Value:
        return g.Cast(g.MatMul(_centred(g, a, a_zero, dtype), _centred(g, b, b_zero, dtype)), to=ir.DataType.INT32)

    if length is None:
        return [product(a, b, ir.DataType.DOUBLE)]
    pieces = [(_piece(g, a, g.rank(a) - 1, part), _piece(g, b, row, part)) for part in _parts(length, EXACT)]
    return [reduce(g.Add, [product(*piece, _WIDE) for piece in pieces])]


def conv_integer(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """ConvInteger: exact convolutions in float32 of numbers minus their zero points, so that pads are 0.

    Channels are split so that no sum has more than `EXACT` terms; with groups, or a larger kernel, in float64.
    """
    x, w, x_zero, w_zero = [*node.inputs, None, None][:4]
    assert x is not None
    assert w is not None
    if w_zero is not None:
        w_zero = g.Reshape(w_zero, np.array([-1, *[1] * (g.rank(w) - 1)]))
    sizes = [n for n in g.shape(w)[1:] if isinstance(n, int)]
    channels, most = (sizes[0], EXACT // math.prod(sizes[1:])) if len(sizes) == g.rank(w) - 1 else (1, 0)
    exact = most > 0 and (channels <= most or node.attributes.get_int("group", 1) == 1)

    def convolution(x: ir.Value, w: ir.Value, dtype: ir.DataType) -> ir.Value:
        inputs = [_centred(g, x, x_zero, dtype), _centred(g, w, w_zero, dtype)]
        return g.Cast(g.node("Conv", inputs, dict(node.attributes)), to=ir.DataType.INT32)

    if not exact:
        return [convolution(x, w, ir.DataType.DOUBLE)]
    if channels <= most:
        return [convolution(x, w, _WIDE)]
    pieces = [(_piece(g, x, 1, part), _piece(g, w, 1, part)) for part in _parts(channels, most)]
    return [reduce(g.Add, [convolution(*piece, _WIDE) for piece in pieces])]


def _parts(length: int, most: int) -> list[tuple[int, int]]:
    """Return the bounds of parts of about equal length, none longer than `most`."""
    count = max(1, -(-length // most))
    return [(length * n // count, length * (n + 1) // count) for n in range(count)]


def _piece(g: Graph, x: ir.Value, axis: int, part: tuple[int, int]) -> ir.Value:
    """Return a part of `x` along an axis; `x` if it has no other elements."""
    return x if g.shape(x)[axis] == part[1] - part[0] else g.Slice(x, [part[0]], [part[1]], [axis])


def _centred(g: Graph, x: ir.Value, zero: ir.Value | None, dtype: ir.DataType) -> ir.Value:
    wide = g.Cast(x, to=dtype)
    return wide if _is_zero(g, zero) else g.Sub(wide, g.Cast(zero, to=dtype))
