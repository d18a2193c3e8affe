"""Writes pools and convolutions whose windows lie further apart than they reach, with their `same` pads as a Pad.

What `auto_pad` puts around them is less than nothing where the last window reaches over fewer elements than lie between
two. onnxruntime 1.32 ends there with "padding values must be non-negative" for pools, and cuts elements off for
convolutions, which gives other numbers than TensorFlow's SAME.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.values import known_dims
from convert.passes.opset.adapters import Adapter

_COMPUTED_PADS = 11
"""The opset that made the pads of Pad an input."""


def _same_pads(g: Graph, node: ir.Node, kernel: Sequence[int], target: int) -> tuple[ir.Value, ir.Value] | None:
    """Return the spatial sizes and the pads of SAME_UPPER or SAME_LOWER over [batch, channels, *spatial].

    int64, [spatial] and [2 * (2 + spatial)]. None where `auto_pad` is not SAME or puts no negative pads.
    """
    side = node.attributes.get_string("auto_pad", "NOTSET")
    x = node.inputs[0]
    if side not in ("SAME_UPPER", "SAME_LOWER") or x is None or x.shape is None or len(node.outputs) > 1:
        return None
    strides = np.array(node.attributes.get_ints("strides", [1] * len(kernel)), np.int64)
    dilations = np.array(node.attributes.get_ints("dilations", [1] * len(kernel)), np.int64)
    reach = (np.array(kernel, np.int64) - 1) * dilations + 1
    if target < _COMPUTED_PADS or (strides <= reach).all():
        return None
    sizes = g.Slice(g.dims(x), [2], [2 + len(kernel)], [0])
    steps = g.Div(g.Add(sizes, strides - 1), strides)
    total = g.Sub(g.Add(g.Mul(g.Sub(steps, 1), strides), reach), sizes)
    total = g.Where(g.Less(total, 0), np.zeros(len(kernel), np.int64), total)
    half, none = g.Div(total, 2), np.zeros(2, np.int64)
    before, after = (half, g.Sub(total, half))[:: 1 if side == "SAME_UPPER" else -1]
    return sizes, g.Concat(none, before, none, after, axis=0)


def _without_pads(node: ir.Node) -> dict[str, ir.Attr]:
    return {k: a for k, a in node.attributes.items() if k not in ("auto_pad", "pads", "ceil_mode")}


def padded_convolution(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Pad with zeros, or the zero point of integers, and convolve without pads; None for all other convolutions."""
    x, weight = node.inputs[0], node.inputs[3 if node.op_type == "QLinearConv" else 1]
    dims = known_dims(weight) if weight is not None else None
    kernel = node.attributes.get_ints("kernel_shape") or [d for d in (dims or ())[2:] if isinstance(d, int)]
    if dims is None or len(kernel) != len(dims) - 2:
        return None
    found = _same_pads(g, node, kernel, target)
    if found is None:
        return None
    zero = {"QLinearConv": 2, "ConvInteger": 2}.get(node.op_type)
    point = node.inputs[zero] if zero is not None and len(node.inputs) > zero else None
    padded = g.Pad(x, found[1]) if point is None else g.Pad(x, found[1], point)
    return [g.node(node.op_type, [padded, *node.inputs[1:]], _without_pads(node))]


def padded_pool(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Pad with what does not count, and pool without pads; None for all other pools."""
    kernel = node.attributes.get_ints("kernel_shape") or ()
    found = _same_pads(g, node, kernel, target)
    if found is None:
        return None
    sizes, pads = found
    kept, x = _without_pads(node), node.inputs[0]
    assert x is not None
    dtype = g.dtype(x)
    if node.op_type == "MaxPool":
        lowest = -np.inf if dtype.is_floating_point() else np.iinfo(dtype.numpy()).min
        return [g.node("MaxPool", [g.Pad(x, pads, g.const(np.array(lowest, dtype.numpy()), dtype))], kept)]
    pooled = g.node(node.op_type, [g.Pad(x, pads)], kept)
    if node.op_type == "LpPool" or node.attributes.get_int("count_include_pad", 0) != 0:
        return [pooled]
    # The mean is of the elements that are there alone.
    ones = g.Expand(g.const(1.0, dtype), g.Concat(np.ones(2, np.int64), sizes, axis=0))
    return [g.Div(pooled, g.node("AveragePool", [g.Pad(ones, pads)], kept))]


FORMS: Mapping[str, Adapter] = {
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), padded_pool),
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv"), padded_convolution),
}
"""Operators with windows that are padded to the `same` sizes and have gaps between them, as onnxruntime takes them."""
