"""Quantization written in arithmetic, and quantized products written as integer products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import dtype_name

INTEGERS = (ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT8, ir.DataType.UINT8)


def quantize(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """QuantizeLinear: x / scale rounded half to even, plus the zero point, saturated."""
    x, scale, zero = [*node.inputs, None][:3]
    assert x is not None
    assert scale is not None
    named = ir.DataType(node.attributes.get_int("output_dtype", 0))
    dtype = zero.dtype if zero is not None else named if named != ir.DataType.UNDEFINED else ir.DataType.UINT8
    if dtype not in INTEGERS:
        raise Unsupported(f"quantization to {'another dtype' if dtype is None else dtype_name(dtype)}")
    precision = ir.DataType(node.attributes.get_int("precision", 0))
    return [quantized(g, node, x, dtype, g.dtype(scale) if precision == ir.DataType.UNDEFINED else precision)]


def quantized(g: Graph, node: ir.Node, x: ir.Value, dtype: ir.DataType, precision: ir.DataType) -> ir.Value:
    """Return `x` quantized to dtype `dtype` by the scale and the zero point of `node`, computed in `precision`."""
    scale, zero = [*node.inputs, None][1:3]
    assert scale is not None
    wide, step = (v if g.dtype(v) == precision else g.Cast(v, to=precision) for v in (x, scale))
    moved = g.Round(g.Div(wide, broadcast_parameter(g, node, step)))
    if zero is not None:
        moved = g.Add(moved, broadcast_parameter(g, node, g.Cast(zero, to=precision)))
    limits = np.iinfo(dtype.numpy())
    ends = (g.const(float(n), precision) for n in (limits.min, limits.max))
    return g.Cast(g.Clip(moved, *ends), to=dtype)


def dequantize(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """DequantizeLinear: (x - zero point) · scale, in the dtype of the scale."""
    x, scale, zero = [*node.inputs, None][:3]
    assert x is not None
    assert scale is not None
    named = ir.DataType(node.attributes.get_int("output_dtype", 0))
    if x.dtype not in (*INTEGERS, ir.DataType.INT32) or named not in (ir.DataType.UNDEFINED, scale.dtype):
        raise Unsupported(f"numbers of {'another dtype' if x.dtype is None else dtype_name(x.dtype)}")
    steps = g.Cast(x, to=ir.DataType.INT32)
    if zero is not None:
        steps = g.Sub(steps, broadcast_parameter(g, node, g.Cast(zero, to=ir.DataType.INT32)))
    return [g.Mul(g.Cast(steps, to=g.dtype(scale)), broadcast_parameter(g, node, scale))]


def broadcast_parameter(g: Graph, node: ir.Node, parameter: ir.Value) -> ir.Value:
    """Return a scale or zero point, per tensor, axis or block, in a shape that broadcasts with x."""
    x = node.inputs[0]
    assert x is not None
    if g.rank(parameter) == 0:
        return parameter
    axis, block = node.attributes.get_int("axis", 1) % g.rank(x), node.attributes.get_int("block_size", 0)
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
    low, high = g.Min(g.ReduceMin(x, keepdims=0), 0.0), g.Max(g.ReduceMax(x, keepdims=0), 0.0)
    scale = g.Where(g.Equal(low, high), np.float32(1), g.Div(g.Sub(high, low), 255.0))
    zero = g.Cast(g.Clip(g.Round(g.Div(g.Neg(low), scale)), 0.0, 255.0), to=ir.DataType.UINT8)
    return [g.QuantizeLinear(x, scale, zero), scale, zero]


def qlinear_matmul(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """QLinearMatMul: MatMulInteger, scaled and quantized; `a` has one scale for each row, or one for all."""
    a, _, a_zero, b, _, b_zero, _, _ = node.inputs
    scale, *others = (_scalar_if_single(g, node.inputs[i]) for i in (1, 4, 6, 7))
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
    x_scale, y_scale, zero = (_scalar_if_single(g, node.inputs[i]) for i in (1, 6, 7))
    return [_requantized(g, total, x_scale, g.Reshape(w_scale, column), y_scale, zero)]


def _requantized(
    g: Graph, total: ir.Value, a_scale: ir.Value, b_scale: ir.Value, y_scale: ir.Value, zero: ir.Value
) -> ir.Value:
    """Return an int32 result quantized by `y_scale` and `zero`, in float32 as in ONNX Runtime."""
    dtype = g.dtype(zero)
    if dtype not in INTEGERS:
        raise Unsupported(f"quantization to {dtype_name(dtype)}")
    left, right, result = (v if g.dtype(v) == _WIDE else g.Cast(v, to=_WIDE) for v in (a_scale, b_scale, y_scale))
    steps = g.Round(g.Mul(g.Cast(total, to=_WIDE), g.Div(g.Mul(left, right), result)))
    limits = np.iinfo(dtype.numpy())
    moved = g.Add(steps, g.Cast(zero, to=_WIDE))
    return g.Cast(g.Clip(moved, float(limits.min), float(limits.max)), to=dtype)


_WIDE = ir.DataType.FLOAT


def _scalar_if_single(g: Graph, parameter: ir.Value | None) -> ir.Value:
    """Return a scale or zero point, as a scalar if it is a vector of one number."""
    assert parameter is not None
    return g.Squeeze(parameter, np.array([0])) if g.shape(parameter) == (1,) else parameter


def conv_integer(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """ConvInteger: a convolution in float64, which is exact, of numbers minus their zero points; pads are 0 then."""
    x, w, x_zero, w_zero = [*node.inputs, None, None][:4]
    assert w is not None
    if w_zero is not None:
        w_zero = g.Reshape(w_zero, np.array([-1, *[1] * (g.rank(w) - 1)]))
    centred = [_centred(g, v, zero) for v, zero in ((x, x_zero), (w, w_zero))]
    return [g.Cast(g.node("Conv", centred, dict(node.attributes)), to=ir.DataType.INT32)]


def _centred(g: Graph, x: ir.Value | None, zero: ir.Value | None) -> ir.Value:
    wide = g.Cast(x, to=ir.DataType.DOUBLE)
    return wide if zero is None else g.Sub(wide, g.Cast(zero, to=ir.DataType.DOUBLE))
