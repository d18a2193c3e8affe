"""Quantization features that older opsets lack: 16-bit integers, float16 data, a named output dtype."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.graph import Graph
from convert.legalize.quantize import INTEGERS, quantized
from convert.legalize.quantize import dequantize as write_dequantize

_WIDE = (ir.DataType.INT16, ir.DataType.UINT16)
_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_HALVES = 19
"""The opset that added quantization of 16-bit floats."""
_SHORTS, _MIXED = 21, 23
"""`_SHORTS`: the opset that added 16-bit integers. `_MIXED`: the opset that gave the scale a dtype of its own."""


def lift_quantize(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """QuantizeLinear of 16-bit floats before opset 23, which onnxruntime divides in float32.

    Since opset 23 the division is in the dtype of the scale, so the float32 precision is written explicitly.
    """
    scale = node.inputs[1]
    if scale is None or scale.dtype not in _HALF or target < _MIXED:
        return None
    return [g.node("QuantizeLinear", node.inputs, {**node.attributes, "precision": ir.DataType.FLOAT})]


def _precision(node: ir.Node) -> int:
    return node.attributes.get_int("precision", 0)


def quantize(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """x / scale rounded half to even, plus the zero point, saturated; None if `target` has the operator."""
    x, scale, zero = [*node.inputs, None][:3]
    if scale is not None and scale.dtype in _HALF and target < _MIXED and _precision(node) == ir.DataType.FLOAT:
        kept = {name: value for name, value in node.attributes.items() if name != "precision"}
        return [g.node("QuantizeLinear", node.inputs, kept)]  # onnxruntime's kernels of older opsets compute in float32
    if x is None or scale is None or _has_special_attributes(node):
        return None
    named = ir.DataType(node.attributes.get_int("output_dtype", 0))
    halves = x.dtype == ir.DataType.FLOAT16 and target < _HALVES
    dtype = named if zero is None and named in INTEGERS else ir.DataType.UINT8 if zero is None else zero.dtype
    if dtype not in INTEGERS:
        return None
    if not halves and (dtype not in _WIDE or target >= _SHORTS):
        # In these opsets x must have the dtype of the scale.
        mixed = x.dtype != scale.dtype and _HALVES <= target < _MIXED
        if not mixed and (named == ir.DataType.UNDEFINED or target >= _SHORTS):
            return None
        x = g.Cast(x, to=g.dtype(scale)) if mixed else x
        kept = {name: value for name, value in node.attributes.items() if name != "output_dtype"}
        none = zero or g.Expand(g.const(0, dtype), g.Shape(scale))
        return [g.node("QuantizeLinear", [x, scale, none], kept)]
    return [quantized(g, node, x, dtype, ir.DataType.FLOAT if x.dtype == ir.DataType.FLOAT16 else g.dtype(x))]


def dequantize(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """(x - zero point) · scale; None if `target` has the operator."""
    x, scale = node.inputs[:2]
    if x is None or scale is None or _has_special_attributes(node):
        return None
    halves = scale.dtype == ir.DataType.FLOAT16 and target < _HALVES
    named = ir.DataType(node.attributes.get_int("output_dtype", 0))
    if x.dtype not in (INTEGERS if halves else _WIDE) or named not in (ir.DataType.UNDEFINED, scale.dtype):
        return None
    return write_dequantize(g, node)


def _has_special_attributes(node: ir.Node) -> bool:
    names = ("block_size", "precision")
    return any(node.attributes.get_int(name, 0) for name in names)
