"""Pools of norms, written as means or sums of powers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from convert.graph import Graph
from convert.graph.windows import window_of

_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def lp_pool(g: Graph, node: ir.Node) -> Sequence[ir.Value] | None:
    """LpPool: the root of the sum of powers in each window, which is their mean times the size of the kernel.

    Padding counts as zeros. Nodes with ceil_mode are not accepted, because a mean does not count what it adds.
    """
    window = window_of(node)
    if window is None or node.attributes.get_int("ceil_mode", 0) != 0:
        return None
    kept = {name: value for name, value in node.attributes.items() if name not in ("p", "ceil_mode")}
    mean = g.node("AveragePool", [_powers(g, node)], {**kept, "count_include_pad": 1})
    return [_root(g, node, g.Mul(mean, g.const(float(math.prod(window.kernel)), g.dtype(mean))))]


def global_lp_pool(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """GlobalLpPool: the root of the sum of powers over all spatial dims."""
    powers = _powers(g, node)
    return [_root(g, node, g.ReduceSum(powers, list(range(2, g.rank(powers)))))]


def _powers(g: Graph, node: ir.Node) -> ir.Value:
    """Return |x| to the power of p; half precision, whose powers overflow, becomes float32."""
    x, p = node.inputs[0], node.attributes.get_int("p", 2)
    assert x is not None
    x = g.Cast(x, to=ir.DataType.FLOAT) if g.dtype(x) in _HALF else x
    if p == 2:
        return g.Mul(x, x)
    return g.Abs(x) if p == 1 else g.Pow(g.Abs(x), g.const(float(p), g.dtype(x)))


def _root(g: Graph, node: ir.Node, total: ir.Value) -> ir.Value:
    x, p = node.inputs[0], node.attributes.get_int("p", 2)
    assert x is not None
    if p != 1:
        total = g.Sqrt(total) if p == 2 else g.Pow(total, g.const(1 / p, g.dtype(total)))
    return g.Cast(total, to=g.dtype(x)) if g.dtype(x) in _HALF else total
