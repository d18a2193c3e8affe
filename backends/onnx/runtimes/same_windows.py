"""Rewrites convolutions and pools with auto_pad whose strides exceed the window's extent.

`auto_pad` gives negative pads if the last window covers fewer elements than the gap between two windows. TensorFlow
uses pads of 0 there. onnxruntime 1.32 fails for a pool ("padding values must be non-negative"), and crops the input of
a convolution. If 2 or more elements are missing, all windows start too late. Known sizes become explicit pads; dynamic
ones use a Pad.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.passes.opset.adapters import Adapter
from convert.semantics.windows import same_pads

_COMPUTED_PADS = 11
"""The opset that made the pads of Pad an input."""
_CONVOLUTIONS = {"Conv": None, "ConvInteger": 2, "QLinearConv": 2}
"""Convolutions with an input for the zero point."""
_WEIGHTS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}


def padded_window(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Return a window with SAME_UPPER or SAME_LOWER over [batch, channels, *spatial] in another form.

    Returns None if the operator itself pads correctly. Raises `Unsupported` if the target's opset has no other form.
    """
    side, x = node.attributes.get_string("auto_pad", "NOTSET"), node.inputs[0]
    kernel = _kernel(node)
    if side not in ("SAME_UPPER", "SAME_LOWER") or x is None or kernel is None:
        return None
    rank = len(kernel)
    strides, dilations = (list(node.attributes.get_ints(key, [1] * rank)) for key in ("strides", "dilations"))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    harmless = 1 if node.op_type in _CONVOLUTIONS else 0  # one element is cropped at the end, which no window covers
    if all(s <= r + harmless for s, r in zip(strides, reach, strict=True)):
        return None
    kept = {k: a for k, a in node.attributes.items() if k not in ("auto_pad", "pads", "ceil_mode")}
    sizes = [n for n in (x.shape or ())[2:] if isinstance(n, int)]
    if len(sizes) == rank:
        pairs = [same_pads(n, r, s, side) for n, r, s in zip(sizes, reach, strides, strict=True)]
        pads = [before for before, _ in pairs] + [after for _, after in pairs]
        outputs = g.node(node.op_type, node.inputs, {**kept, "pads": pads}, outputs=len(node.outputs))
        return [outputs] if len(node.outputs) == 1 else outputs
    if target < _COMPUTED_PADS or len(node.outputs) > 1:
        what = "places of the largest elements" if len(node.outputs) > 1 else f"opset {target}"
        raise Unsupported(f"padding by open sizes, with strides beyond the kernel, is not possible for {what}")
    computed = _computed_pads(g, x, np.array(reach, np.int64), np.array(strides, np.int64), side)
    return [_PADDED.get(node.op_type, _padded_pool)(g, node, x, computed, kept)]


def _kernel(node: ir.Node) -> list[int] | None:
    """Return the spatial sizes of a window, or None if they are unknown."""
    if node.op_type not in _CONVOLUTIONS:
        return list(node.attributes.get_ints("kernel_shape"))
    weight = node.inputs[_WEIGHTS[node.op_type]]
    dims = list(weight.shape)[2:] if weight is not None and weight.shape is not None else []
    known = [d for d in dims if isinstance(d, int)]
    return known if known and len(known) == len(dims) else None


def _computed_pads(g: Graph, x: ir.Value, reach: np.ndarray, strides: np.ndarray, side: str) -> ir.Value:
    """Return the non-negative pads of all dims, computed from the sizes of `x`."""
    sizes = _spatial_sizes(g, x, len(reach))
    steps = g.Div(g.Add(sizes, strides - 1), strides)
    total = g.Sub(g.Add(g.Mul(g.Sub(steps, 1), strides), reach), sizes)
    total = g.Where(g.Less(total, 0), np.zeros(len(reach), np.int64), total)
    half, none = g.Div(total, 2), np.zeros(2, np.int64)
    before, after = (half, g.Sub(total, half))[:: 1 if side == "SAME_UPPER" else -1]
    return g.Concat(none, before, none, after, axis=0)


def _spatial_sizes(g: Graph, x: ir.Value, rank: int) -> ir.Value:
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
    sizes = _spatial_sizes(g, x, len(node.attributes.get_ints("kernel_shape")))
    ones = g.Expand(g.const(1.0, g.dtype(x)), g.Concat(np.ones(2, np.int64), sizes, axis=0))
    return g.Div(pooled, g.node("AveragePool", [g.Pad(ones, pads)], kept))


_PADDED: dict[str, Callable[[Graph, ir.Node, ir.Value, ir.Value, Attributes], ir.Value]] = {
    **dict.fromkeys(_CONVOLUTIONS, _padded_convolution),
    "MaxPool": _padded_max_pool,
}
FORMS: Mapping[str, Adapter] = dict.fromkeys((*_CONVOLUTIONS, "MaxPool", "AveragePool", "LpPool"), padded_window)
