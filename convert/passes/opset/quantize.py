"""Quantization to integers of 16 bits, which QuantizeLinear has from opset 21 on, written out in smaller operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

_WIDE = (ir.DataType.INT16, ir.DataType.UINT16)


def quantize(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """x / scale rounded half to even, shifted by the zero point and saturated; None for other integers."""
    x, scale, zero = [*node.inputs, None][:3]
    if x is None or scale is None or zero is None or zero.dtype not in _WIDE or _has_special_attributes(node):
        return None
    limits = np.iinfo(zero.dtype.numpy())
    steps = g.Round(g.Div(x, _broadcast_parameter(g, node, scale)))
    moved = g.Add(steps, _broadcast_parameter(g, node, g.Cast(zero, to=g.dtype(x))))
    ends = (g.const(float(n), g.dtype(x)) for n in (limits.min, limits.max))
    return [g.Cast(g.Clip(moved, *ends), to=zero.dtype)]


def dequantize(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """(x - zero point) · scale; None for other integers."""
    x, scale, zero = [*node.inputs, None][:3]
    if x is None or scale is None or x.dtype not in _WIDE or _has_special_attributes(node):
        return None
    steps = g.Cast(x, to=ir.DataType.INT32)
    if zero is not None:
        steps = g.Sub(steps, _broadcast_parameter(g, node, g.Cast(zero, to=ir.DataType.INT32)))
    return [g.Mul(g.Cast(steps, to=g.dtype(scale)), _broadcast_parameter(g, node, scale))]


def _has_special_attributes(node: ir.Node) -> bool:
    names = ("block_size", "output_dtype", "precision")
    return any(node.attributes.get_int(name, 0) for name in names)


def _broadcast_parameter(g: Graph, node: ir.Node, parameter: ir.Value) -> ir.Value:
    """A scale or zero point, one for all or one for each index of the axis, to broadcast against the input."""
    if g.rank(parameter) == 0:
        return parameter
    rank = g.rank(node.inputs[0])  # type: ignore[arg-type]
    axis = node.attributes.get_int("axis", 1) % rank
    return g.Reshape(parameter, np.array([-1 if i == axis else 1 for i in range(rank)], dtype=np.int64))
