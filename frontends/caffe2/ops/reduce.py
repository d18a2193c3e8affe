"""Reductions, sorting and counting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.rules import Rule

from ..rules import caffe2_op


def reduction_rule(operator: str) -> Rule:
    """A rule for a reduction over `axes`, all of them where none are named."""

    def rule(g: Graph, x: ir.Value, *, axes: Sequence[int] = (), keepdims: int = 1) -> ir.Value:
        return g.node(operator, [x, list(axes) or list(range(g.rank(x)))], {"keepdims": keepdims})

    return rule


caffe2_op.same(
    reduction_rule,
    ReduceSum="ReduceSum", ReduceMean="ReduceMean", ReduceMax="ReduceMax", ReduceMin="ReduceMin", ReduceL1="ReduceL1",
    ReduceL2="ReduceL2",
)  # fmt: skip


def extremum_rule(operator: str) -> Rule:
    """A rule for the place of the largest or smallest element, the first of equal ones."""

    def rule(g: Graph, x: ir.Value, *, axis: int = -1, keepdims: int = 1) -> ir.Value:
        return g.node(operator, [x], {"axis": axis, "keepdims": keepdims})

    return rule


caffe2_op.same(extremum_rule, ArgMax="ArgMax", ArgMin="ArgMin")


@caffe2_op("TopK")
def top_k(g: Graph, x: ir.Value, count: ir.Value | None = None, *, k: int = 0, axis: int = -1) -> list[ir.Value]:
    return g.TopK(x, [k] if count is None else count, axis=axis, outputs=2)


@caffe2_op("SumElements")
def sum_elements(g: Graph, x: ir.Value, *, average: int = 0) -> ir.Value:
    return g.ReduceMean(x, keepdims=0) if average else g.ReduceSum(x, keepdims=0)


@caffe2_op("SumSqrElements")
def sum_of_squares(g: Graph, x: ir.Value, *, average: int = 0) -> ir.Value:
    return sum_elements(g, g.Mul(x, x), average=average)


@caffe2_op("Moments")
def moments(g: Graph, x: ir.Value, *, axes: Sequence[int] = (), keepdims: int = 1) -> list[ir.Value]:
    """Mean and variance."""
    over = list(axes) or list(range(g.rank(x)))
    centred = g.Sub(x, g.ReduceMean(x, over))
    variance = g.ReduceMean(g.Mul(centred, centred), over, keepdims=keepdims)
    return [g.ReduceMean(x, over, keepdims=keepdims), variance]


@caffe2_op("Range")
def arange(g: Graph, *bounds: ir.Value) -> ir.Value:
    """stop; start, stop; or start, stop, step. Of integers with a negative step the runtime loses the last.

    Of float32, Caffe2 counts the steps in float32 (utility_ops.h), ONNX's runtimes in float64.
    """
    first = bounds[0]
    zero, one = (np.array(n, g.dtype(first).numpy()) for n in (0, 1))
    scalars = [g.Reshape(b, g.const(np.zeros(0, np.int64))) for b in bounds]
    step = g.static(bounds[2]) if len(bounds) == 3 else one
    if not g.dtype(first).is_floating_point() and (step is None or step.ravel()[0] < 0):
        raise Unsupported("a Range of integers with a negative step, or one computed at run time")
    start, stop = (zero, scalars[0]) if len(bounds) == 1 else scalars[:2]
    by = scalars[2] if len(bounds) == 3 else one
    if g.dtype(first) != ir.DataType.FLOAT:
        return g.Range(start, stop, by)
    count = g.Cast(g.Ceil(g.Div(g.Sub(stop, start), by)), to=ir.DataType.INT64)
    return g.Add(start, g.Mul(g.Cast(g.Range(0, count, 1), to=ir.DataType.FLOAT), by))
