"""Writes pools whose windows lie further apart than they reach, padded so that sizes stay the `same`, with a Pad.

What `auto_pad` puts around such a pool is less than nothing where the last window reaches over fewer elements than
lie between two, and onnxruntime (1.32) ends there with "padding values must be non-negative".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.passes.opset.adapters import Adapter

_COMPUTED_PADS = 11
"""The opset that made the pads of Pad an input."""


def padded_pool(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """A pool with SAME_UPPER or SAME_LOWER over [batch, channels, *spatial]; None for all others."""
    side = node.attributes.get_string("auto_pad", "NOTSET")
    x = node.inputs[0]
    if side not in ("SAME_UPPER", "SAME_LOWER") or x is None or x.shape is None or len(node.outputs) > 1:
        return None
    kernel = np.array(node.attributes.get_ints("kernel_shape"), np.int64)
    strides = np.array(node.attributes.get_ints("strides", [1] * len(kernel)), np.int64)
    reach = (kernel - 1) * np.array(node.attributes.get_ints("dilations", [1] * len(kernel)), np.int64) + 1
    if target < _COMPUTED_PADS or (strides <= reach).all():
        return None
    sizes = g.Slice(g.dims(x), [2], [2 + len(kernel)], [0])
    steps = g.Div(g.Add(sizes, strides - 1), strides)
    total = g.Sub(g.Add(g.Mul(g.Sub(steps, 1), strides), reach), sizes)
    total = g.Where(g.Less(total, 0), np.zeros(len(kernel), np.int64), total)
    half, none = g.Div(total, 2), np.zeros(2, np.int64)
    before, after = (half, g.Sub(total, half))[:: 1 if side == "SAME_UPPER" else -1]
    pads = g.Concat(none, before, none, after, axis=0)
    kept = {k: a for k, a in node.attributes.items() if k not in ("auto_pad", "pads", "ceil_mode")}
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


FORMS: Mapping[str, Adapter] = {"MaxPool": padded_pool, "AveragePool": padded_pool, "LpPool": padded_pool}
