"""Reductions over a list of axes that may be empty, such as all axes but the last of a vector.

ONNX takes an empty list of axes for all axes. `Graph.node` therefore rejects one; use `reduce_dims` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from convert.graph.builder import Graph


def reduce_dims(g: Graph, operator: str, x: ir.Value, axes: Sequence[int], *, keepdims: int = 1) -> ir.Value:
    """Return the reduction `operator` (such as "ReduceL2") of `x` over `axes`.

    Without axes, each element is reduced alone.
    """
    if len(axes):
        reduced: ir.Value = g.node(operator, [x, list(axes)], {"keepdims": keepdims})
        return reduced
    return _OF_ONE[operator](g, x)


def _itself(g: Graph, x: ir.Value) -> ir.Value:
    return x


def _absolute(g: Graph, x: ir.Value) -> ir.Value:
    found: ir.Value = g.Abs(x)
    return found


_OF_ONE: dict[str, Callable[[Graph, ir.Value], ir.Value]] = {
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceLogSumExp"), _itself),
    **dict.fromkeys(("ReduceL1", "ReduceL2"), _absolute),
}
"""The result of each reduction for a single element."""
