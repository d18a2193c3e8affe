"""QuantizeLinear and DequantizeLinear written in arithmetic, with a scale per tensor, axis or block."""

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
    kind = zero.dtype if zero is not None else named if named != ir.DataType.UNDEFINED else ir.DataType.UINT8
    if kind not in INTEGERS:
        raise Unsupported(f"quantization to {'another dtype' if kind is None else dtype_name(kind)}")
    precision = ir.DataType(node.attributes.get_int("precision", 0))
    return [quantized(g, node, x, kind, g.dtype(scale) if precision == ir.DataType.UNDEFINED else precision)]


def quantized(g: Graph, node: ir.Node, x: ir.Value, kind: ir.DataType, precision: ir.DataType) -> ir.Value:
    """Return `x` quantized to dtype `kind` by the scale and the zero point of `node`, computed in `precision`."""
    scale, zero = [*node.inputs, None][1:3]
    assert scale is not None
    wide, step = (v if g.dtype(v) == precision else g.Cast(v, to=precision) for v in (x, scale))
    moved = g.Round(g.Div(wide, broadcast_parameter(g, node, step)))
    if zero is not None:
        moved = g.Add(moved, broadcast_parameter(g, node, g.Cast(zero, to=precision)))
    limits = np.iinfo(kind.numpy())
    ends = (g.const(float(n), precision) for n in (limits.min, limits.max))
    return g.Cast(g.Clip(moved, *ends), to=kind)


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
