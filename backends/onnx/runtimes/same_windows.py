"""Rewrites convolutions and pools with auto_pad that have dilations, or strides longer than their windows.

onnxruntime 1.32 refuses SAME with dilations, and pools whose pads are as long as the kernel.

`auto_pad` gives negative pads if the last window covers fewer elements than the gap between two windows. TensorFlow
uses pads of 0 there. onnxruntime fails for a pool ("padding values must be non-negative"), and crops the input of
a convolution. If 2 or more elements are missing, all windows start too late. Known sizes become explicit pads; dynamic
ones use a Pad.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.windows import spatial_sizes, window_of
from convert.passes.opset.adapters import Adapter

_COMPUTED_PADS = 11
"""The opset that made the pads of Pad an input."""
_CONVOLUTIONS = {"Conv": None, "ConvInteger": 2, "QLinearConv": 2}
"""Convolutions with an input for the zero point."""


def padded_window(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Return a window with SAME_UPPER or SAME_LOWER over [batch, channels, *spatial] in another form.

    Returns None if the operator itself pads correctly. Raises `Unsupported` if the target's opset has no other form.
    """
    side, x, window = node.attributes.get_string("auto_pad", "NOTSET"), node.inputs[0], window_of(node)
    if side not in ("SAME_UPPER", "SAME_LOWER") or x is None or window is None:
        return None
    harmless = 1 if node.op_type in _CONVOLUTIONS else 0  # one element is cropped at the end, which no window covers
    dilated = max(window.dilations) > 1
    if not dilated and all(s <= r + harmless for s, r in zip(window.strides, window.spans, strict=True)):
        return None
    kept = {k: a for k, a in node.attributes.items() if k not in ("auto_pad", "pads", "ceil_mode")}
    padded = window.with_auto_pad(spatial_sizes(x, window.rank), side)
    short = padded is not None and all(p < k for p, k in zip(padded.pads, padded.kernel * 2, strict=True))
    if padded is not None and (short or node.op_type in _CONVOLUTIONS):  # pools need pads shorter than the kernel
        outputs = g.node(node.op_type, node.inputs, {**kept, "pads": padded.pads}, outputs=len(node.outputs))
        return [outputs] if len(node.outputs) == 1 else outputs
    if target < _COMPUTED_PADS or len(node.outputs) > 1:
        what = "places of the largest elements" if len(node.outputs) > 1 else f"opset {target}"
        raise Unsupported(f"padding by open sizes, with strides beyond the kernel, is not possible for {what}")
    computed = _computed_pads(g, x, np.array(window.spans, np.int64), np.array(window.strides, np.int64), side)
    return [_PADDED.get(node.op_type, _padded_pool)(g, node, x, computed, kept)]


def _computed_pads(g: Graph, x: ir.Value, reach: np.ndarray, strides: np.ndarray, side: str) -> ir.Value:
    """Return the non-negative pads of all dims, computed from the sizes of `x`."""
    sizes = _computed_sizes(g, x, len(reach))
    steps = g.Div(g.Add(sizes, strides - 1), strides)
    total = g.Sub(g.Add(g.Mul(g.Sub(steps, 1), strides), reach), sizes)
    total = g.Where(g.Less(total, 0), np.zeros(len(reach), np.int64), total)
    half, none = g.Div(total, 2), np.zeros(2, np.int64)
    before, after = (half, g.Sub(total, half))[:: 1 if side == "SAME_UPPER" else -1]
    return g.Concat(none, before, none, after, axis=0)


def _computed_sizes(g: Graph, x: ir.Value, rank: int) -> ir.Value:
    return g.Slice(g.dims(x), [2], [2 + rank], [0])


Attributes = Mapping[str, ir.Attr]


def _padded_convolution(g: Graph, node: ir.Node, x: ir.Value, pads: ir.Value, kept: Attributes) -> ir.Value:
    place = _CONVOLUTIONS[node.op_type]
    zero = node.inputs[place] if place is not None and place < len(node.inputs) else None
    padded = g.Pad(x, pads) if zero is None else g.Pad(x, pads, g.Reshape(zero, np.zeros(0, np.int64)))
    return g.node(node.op_type, [padded, *node.inputs[1:]], kept)


def _padded_max_pool(g: Graph, node: ir.Node, x: ir.Value, pads: ir.Value, kept: Attributes) -> ir.Value:
    dtype = g.dtype(x)
    lowest = -np.inf if dtype.is_floating_point() else np.iinfo(dtype.numpy()).min
    return g.node("MaxPool", [g.Pad(x, pads, g.const(np.array(lowest, dtype.numpy()), dtype))], kept)


def _padded_pool(g: Graph, node: ir.Node, x: ir.Value, pads: ir.Value, kept: Attributes) -> ir.Value:
    pooled = g.node(node.op_type, [g.Pad(x, pads)], kept)
    if node.op_type == "LpPool" or node.attributes.get_int("count_include_pad", 0) != 0:
        return pooled
    # The mean does not include the padding.
    sizes = _computed_sizes(g, x, len(node.attributes.get_ints("kernel_shape")))
    ones = g.Expand(g.const(1.0, g.dtype(x)), g.Concat(np.ones(2, np.int64), sizes, axis=0))
    return g.Div(pooled, g.node("AveragePool", [g.Pad(ones, pads)], kept))


_PADDED: dict[str, Callable[[Graph, ir.Node, ir.Value, ir.Value, Attributes], ir.Value]] = {
    **dict.fromkeys(_CONVOLUTIONS, _padded_convolution),
    "MaxPool": _padded_max_pool,
}
FORMS: Mapping[str, Adapter] = dict.fromkeys((*_CONVOLUTIONS, "MaxPool", "AveragePool", "LpPool"), padded_window)
