"""Lifts operators that had another form before opset 13: Clip, Pad, Dropout, Resize, batch norms, recurrent layers.

Clip and Pad had numbers as attributes: ONNX's version converter turns these into float32 constants, whatever the dtype
of the data. It also leaves a Resize to the later defaults.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.tensors import numpy_dtype
from convert.graph.values import is_used

_LARGEST = float(np.finfo(np.float32).max)
"""The bound that Clip-6 assumes if one is left out, in any dtype; for float32 later opsets are equivalent."""


def lift_clip(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Clip with bounds as attributes."""
    x = node.inputs[0]
    if x is None or len(node.inputs) > 1:
        return None
    dtype = g.dtype(x)
    bounds = []
    for name, default in (("min", -_LARGEST), ("max", _LARGEST)):
        number = node.attributes.get_float(name, default)
        same = dtype == ir.DataType.FLOAT and number == default
        bounds.append(None if same else _scalar(g, number, dtype))
    return [g.Clip(x, *bounds)]


def lift_pad(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Pad with amounts and value as attributes; the value is used in mode constant only."""
    x, pads = node.inputs[0], node.attributes.get_ints("pads", node.attributes.get_ints("paddings"))
    if x is None or pads is None:
        return None
    mode, value = node.attributes.get_string("mode", "constant"), node.attributes.get_float("value", 0.0)
    filling = _scalar(g, value, g.dtype(x)) if mode == "constant" and "value" in node.attributes else None
    return [g.Pad(x, np.array(pads, np.int64), filling, mode=mode)]


def _scalar(g: Graph, number: float, dtype: ir.DataType) -> ir.Value:
    with np.errstate(over="ignore"):  # the limits of float32 become the infinities of float16
        return g.const(np.array(number).astype(numpy_dtype(dtype)), dtype)


def lift_dropout(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Dropout before opset 12 returns its input. A mask that is used is all zeros, as in onnxruntime.

    The mask keeps its dtype, which is a floating-point one in opset 7.
    """
    x, mask = node.inputs[0], node.outputs[1] if len(node.outputs) > 1 else None
    if (
        x is None
        or mask is None
        or not is_used(mask)
        or mask.dtype is None
        or node.attributes.get_int("is_test", 1) == 0
    ):
        return None
    empty = g.const(np.zeros((), numpy_dtype(mask.dtype)), mask.dtype)
    return [g.Identity(x), g.Expand(empty, g.Shape(x))]


def lift_batch_norm(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """BatchNormalization-7 with spatial=0: one number per element of a row; later ones have one per channel."""
    if node.attributes.get_int("spatial", 1) or len(node.outputs) > 1:
        return None
    x, scale, bias, mean, variance = node.inputs
    if variance is None:
        return None
    deviation = g.Sqrt(g.Add(variance, g.const(node.attributes.get_float("epsilon", 1e-5), g.dtype(variance))))
    return [g.Add(g.Mul(g.Div(g.Sub(x, mean), deviation), scale), bias)]


def lift_recurrent(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """LSTM, GRU and RNN before opset 7, whose `output_sequence` only says whether the first output may be left out."""
    if node.graph is None or node.graph.opset_imports.get("", target) >= 7:
        return None
    attributes = {name: a for name, a in node.attributes.items() if name != "output_sequence"}
    made = g.node(node.op_type, node.inputs, attributes, outputs=len(node.outputs))
    return made if isinstance(made, list) else [made]


def lift_resize(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Resize-10, and Resize-11 with a coordinate mode that opset 13 removed."""
    if len(node.inputs) == 2:
        return [_resize_without_coordinates(g, node)]
    attributes = node.attributes
    if attributes.get_string("coordinate_transformation_mode", "half_pixel") != "tf_half_pixel_for_nn":
        return None
    if attributes.get_string("mode", "nearest") != "nearest":
        return None
    return _odd_cells(g, node) or _half_pixels(g, node)


def _odd_cells(g: Graph, node: ir.Node) -> Sequence[ir.Value] | None:
    """Compute (i + ½) / scale as (2i + 1) / (2 scale).

    These are the odd cells of a result that is twice as large, even with floating-point rounding.
    """
    x, _, *ends = node.inputs
    place = next((i for i, v in enumerate(ends) if v is not None and g.static(v) is not None and v.shape != (0,)), None)
    dims = None if x is None else x.shape
    if place is None or dims is None:
        return None
    value = ends[place]
    assert value is not None
    known = g.static(value)
    assert known is not None
    one = [1] * known.size if place == 0 else [n if isinstance(n, int) else None for n in dims]
    axes = [i for i, n in enumerate(known) if n != one[i]]
    doubled = np.array([2 * n if i in axes else n for i, n in enumerate(known)], known.dtype)
    attributes = {**node.attributes, "coordinate_transformation_mode": "asymmetric"}
    y = g.node("Resize", [x, *[None] * (place + 1), g.const(doubled)], attributes)
    count = len(axes)
    return [g.Slice(y, [1] * count, [np.iinfo(np.int64).max] * count, axes, [2] * count) if axes else y]


def _half_pixels(g: Graph, node: ir.Node) -> Sequence[ir.Value] | None:
    """Return a Resize with half_pixel, which subtracts ½, and an adapted rounding mode, for scales known at run time
    only.

    onnxruntime treats a coordinate within 1e-6 of an integer as a tie, and may then select the next cell.
    """
    how = _SHIFTED.get(node.attributes.get_string("nearest_mode", "round_prefer_floor"))
    if how is None:
        return None
    named = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": how}
    return [g.node("Resize", node.inputs, {**node.attributes, **named})]


_SHIFTED = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}
"""The rounding of x - ½ that is equivalent to another rounding of x."""


def _resize_without_coordinates(g: Graph, node: ir.Node) -> ir.Value:
    """Resize-10, whose specification has no formula: onnxruntime uses the coordinate i / scale.

    The nearest cell is that before the coordinate if an axis grows, and that after it if the axis shrinks
    (onnxruntime's upsamplebase.h, "the original logic"). Growing and shrinking axes are resized one after the other.
    """
    x, scales = node.inputs
    attributes = {"mode": node.attributes.get_string("mode", "nearest"), "coordinate_transformation_mode": "asymmetric"}
    known, one = g.static(scales), np.float32(1)
    if attributes["mode"] != "nearest":
        return g.node("Resize", [x, None, scales], attributes)
    if known is None or known.max() > 1:
        larger = scales if known is not None and known.min() >= 1 else g.Max(scales, one)
        x = g.node("Resize", [x, None, larger], {**attributes, "nearest_mode": "floor"})
    if known is None or known.min() < 1:
        smaller = scales if known is not None and known.max() <= 1 else g.Min(scales, one)
        x = g.node("Resize", [x, None, smaller], {**attributes, "nearest_mode": "ceil"})
    assert x is not None
    return x
