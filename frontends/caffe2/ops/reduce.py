"""Reductions, sorting and counting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.reductions import reduce_dims
from convert.rules import Rule

from ..rules import caffe2_op


def reduction_rule(operator: str) -> Rule:
    """Return the rule of a reduction over `axes`; over all axes if none are named."""

    def rule(g: Graph, x: ir.Value, *, axes: Sequence[int] = (), keepdims: int = 1) -> ir.Value:
        return g.node(operator, [x, list(axes) or list(range(g.rank(x)))], {"keepdims": keepdims})

    return rule


caffe2_op.same(
    reduction_rule,
    ReduceSum="ReduceSum", ReduceMean="ReduceMean", ReduceMax="ReduceMax", ReduceMin="ReduceMin", ReduceL1="ReduceL1",
    ReduceL2="ReduceL2",
)  # fmt: skip


def extremum_rule(operator: str) -> Rule:
    """Return the rule for the index of the largest or smallest element, the first of equal ones."""

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
    """Range of stop; start, stop; or start, stop, step. For integers with a negative step the runtime loses the last
    element.

    For float32, Caffe2 counts the steps in float32 (utility_ops.h), ONNX's runtimes in float64.
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


def front_or_back_rule(operator: str, front: bool) -> Rule:
    """Return the rule of a reduction over the first or the last `num_reduce_dim` dims."""

    def rule(g: Graph, x: ir.Value, lengths: ir.Value | None = None, *, num_reduce_dim: int = 1) -> ir.Value:
        if lengths is not None:
            raise Unsupported("the input lengths: a row or column that ends before the others")
        rank = g.rank(x)
        axes = range(num_reduce_dim) if front else range(rank - num_reduce_dim, rank)
        return reduce_dims(g, operator, x, axes, keepdims=0)

    return rule


for _name in ("Sum", "Mean", "Max"):
    caffe2_op(f"ReduceFront{_name}")(front_or_back_rule(f"Reduce{_name}", True))
    caffe2_op(f"ReduceBack{_name}")(front_or_back_rule(f"Reduce{_name}", False))


@caffe2_op("RowwiseMax")
def rowwise_max(g: Graph, x: ir.Value) -> ir.Value:
    """RowwiseMax: the maximum of each row of [N, rows, columns]."""
    return g.ReduceMax(x, [2], keepdims=0)


@caffe2_op("ColwiseMax")
def colwise_max(g: Graph, x: ir.Value) -> ir.Value:
    """ColwiseMax: the maximum of each column of [N, rows, columns]."""
    return g.ReduceMax(x, [1], keepdims=0)


@caffe2_op("ReduceTailSum")
def reduce_tail_sum(g: Graph, x: ir.Value) -> ir.Value:
    """ReduceTailSum: the sum of each row over all of its dims."""
    return _sum_of_rows(g, x)


@caffe2_op("DotProduct")
def dot_product(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    """DotProduct of each row with its counterpart."""
    return _sum_of_rows(g, g.Mul(x, y))


@caffe2_op("SquaredL2Distance")
def squared_distance(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    """SquaredL2Distance: half the squared distance of each row from its counterpart."""
    difference = g.Sub(x, y)
    return g.Mul(_sum_of_rows(g, g.Mul(difference, difference)), 0.5)


@caffe2_op("L1Distance")
def absolute_distance(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    return _sum_of_rows(g, g.Abs(g.Sub(x, y)))


@caffe2_op("CosineSimilarity")
def cosine_similarity(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    """CosineSimilarity; squared lengths below 1e-12 are replaced by 1e-12 (distance_op.cc)."""
    least = g.const(np.array(1e-12, g.dtype(x).numpy()))
    squares = [g.Max(_sum_of_rows(g, g.Mul(v, v)), least) for v in (x, y)]
    return g.Div(dot_product(g, x, y), g.Mul(*(g.Sqrt(v) for v in squares)))


def _sum_of_rows(g: Graph, x: ir.Value) -> ir.Value:
    """Return the sum over all dims but the first."""
    return x if g.rank(x) == 1 else g.ReduceSum(x, list(range(1, g.rank(x))), keepdims=0)
