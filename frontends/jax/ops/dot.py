"""Matrix products: batch axes are moved to the front, summed axes are merged into one, then ONNX's MatMul is used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph
from convert.graph.values import constant

from ..rules import stablehlo_op
from ..sizes import number, of_dim
from ..types import FEW_BITS, ResultType
from .shape import reshape_node


@stablehlo_op("dot_general")
def dot_general(g, x, y, *, dot_dimension_numbers, result, algorithm=None):
    """Return the product: first the batch axes, then the remaining axes of the first operand, then those of the
    second.
    """
    if algorithm is not None and "tf32" in str(algorithm).lower():
        raise Unsupported("an algorithm in TF32, which rounds what it multiplies")
    batch = dot_dimension_numbers["lhs_batching_dimensions"], dot_dimension_numbers["rhs_batching_dimensions"]
    summed = dot_dimension_numbers["lhs_contracting_dimensions"], dot_dimension_numbers["rhs_contracting_dimensions"]
    return contracted(g, x, y, batch, summed, result)


@stablehlo_op("dot")
def dot(g, x, y, *, result):
    return contracted(g, x, y, ([], []), ([g.rank(x) - 1], [0]), result)


@stablehlo_op("einsum")
def einsum(g, x, y, *, einsum_config, result):
    return _einsum(g, [x, y], einsum_config, result)


@stablehlo_op("unary_einsum")
def unary_einsum(g, x, *, einsum_config, result):
    return _einsum(g, [x], einsum_config, result)


def _einsum(g: Graph, operands: list[ir.Value], equation: str, result: ResultType) -> ir.Value:
    """Return ONNX's Einsum, in int32 for integers of few bits."""
    dtype = ir.DataType.INT32 if result.dtype in FEW_BITS else result.dtype
    found = g.Einsum(*(v if v.dtype == dtype else g.Cast(v, to=dtype) for v in operands), equation=equation)
    return found if dtype == result.dtype else g.Cast(found, to=result.dtype)


GROUPS = stablehlo_op.limit("chlo.ragged_dot", "groups whose sizes differ between the elements of a batch")


@stablehlo_op("chlo.ragged_dot")
def ragged_dot(g, x, y, group_sizes, *, ragged_dot_dimension_numbers, result):
    """Return the product in which each group of rows has its own matrix, or its own sum of products.

    A group keeps its rows and sets the others to 0. Groups lie along a new first axis, which is summed with the
    matrices' axis of groups. If the rows are summed, it becomes the first axis of the result.
    """
    n = ragged_dot_dimension_numbers
    batch = n["lhs_batching_dimensions"], n["rhs_batching_dimensions"]
    summed = n["lhs_contracting_dimensions"], n["rhs_contracting_dimensions"]
    (rows,) = n["lhs_ragged_dimensions"]
    if rows in batch[0]:
        return contracted(g, x, y, batch, summed, result)
    if g.rank(group_sizes) != 1:
        raise Unsupported(GROUPS)
    grouped = _grouped(g, x, rows, group_sizes)
    moved = [[a + 1 for a in axes] for axes in (batch[0], summed[0])]
    if rows not in summed[0]:
        groups = [*summed[1], *n["rhs_group_dimensions"]]
        return contracted(g, grouped, y, (moved[0], batch[1]), ([*moved[1], 0], groups), result)
    other = g.Unsqueeze(y, [0])
    dims = [g.shape(group_sizes)[0], *g.shape(y)]
    shape = g.Concat(g.Shape(group_sizes), g.const(np.ones(g.rank(y), np.int64)), axis=0)
    other = g.facts(g.Expand(other, shape), shape=dims)
    right = [[a + 1 for a in axes] for axes in (batch[1], summed[1])]
    return contracted(g, grouped, other, ([0, *moved[0]], [0, *right[0]]), (moved[1], right[1]), result)


def _grouped(g: Graph, x: ir.Value, rows: int, group_sizes: ir.Value) -> ir.Value:
    """Return `x` once for each group, along a new first axis, with 0 outside of the group's rows."""
    after = list(range(1, g.rank(x) - rows))
    ends = g.CumSum(g.Cast(group_sizes, to=ir.DataType.INT64), g.const(0, ir.DataType.INT64))
    starts = g.Sub(ends, g.Cast(group_sizes, to=ir.DataType.INT64))
    ends, starts = (g.Unsqueeze(v, list(range(1, g.rank(x) + 1))) for v in (ends, starts))
    length = g.Squeeze(g.Shape(x, start=rows, end=rows + 1), [0])
    row = g.Range(g.const(0, ir.DataType.INT64), length, g.const(1, ir.DataType.INT64))
    row = g.Unsqueeze(row, after) if after else row
    inside = g.And(g.GreaterOrEqual(row, starts), g.Less(row, ends))
    found = g.Where(inside, x, g.const(0, g.dtype(x)))
    return g.facts(found, shape=[g.shape(group_sizes)[0], *g.shape(x)])


def contracted(
    g: Graph,
    x: ir.Value,
    y: ir.Value,
    batch: tuple[Sequence[int], Sequence[int]],
    summed: tuple[Sequence[int], Sequence[int]],
    result: ResultType,
) -> ir.Value:
    """Return the product, computed in the dtype of the result (the operands' dtype or a wider one) or in int32.

    A weight times a tensor, as vmap makes of a layer of one sample, is that tensor times the weight turned round.
    """
    dtype = ir.DataType.INT32 if result.dtype in FEW_BITS else result.dtype
    x, y = (v if v.dtype == dtype else g.Cast(v, to=dtype) for v in (x, y))
    free = [[a for a in range(g.rank(v)) if a not in (*b, *s)] for v, b, s in zip((x, y), batch, summed, strict=True)]
    batch_dims = [g.shape(x)[a] for a in batch[0]]
    left, right = ([g.shape(v)[a] for a in axes] for v, axes in zip((x, y), free, strict=True))
    weight_first = constant(x) is not None and constant(y) is None and len(right) == 1
    if not batch[0] and len(left) == 1 and (weight_first or len(right) > 1):
        turned = ResultType(result.dtype, (*result.dims[1:], result.dims[0]))
        found = contracted(g, y, x, batch, (summed[1], summed[0]), turned)
        return g.Transpose(found, perm=[len(right), *range(len(right))])
    x = _in_order(g, x, [*batch[0], *free[0], *summed[0]])
    y = _in_order(g, y, [*batch[1], *summed[1], *free[1]])
    inner = [g.shape(x)[a] for a in range(len(batch[0]) + len(free[0]), g.rank(x))]
    # Without batch axes, the rows of the first operand may have any number of axes.
    rows = left if not batch[0] and len(left) > 1 else [_product(left)]
    x = _reshaped(g, x, [*batch_dims, *rows, _product(inner)])
    y = _reshaped(g, y, [*(g.shape(y)[a] for a in range(len(batch[1]))), _product(inner), _product(right)])
    found = g.MatMul(x, y)
    columns = _product(right)
    found = found if dtype == result.dtype else g.Cast(found, to=result.dtype)
    g.facts(found, result.dtype, [*batch_dims, *rows, columns])
    return _reshaped(g, found, [*batch_dims, *left, *right])


def _in_order(g: Graph, x: ir.Value, axes: list[int]) -> ir.Value:
    return x if axes == sorted(axes) else g.Transpose(x, perm=axes)


def _product(dims: Sequence[Dim]) -> Dim:
    total = number(1)
    for dim in dims:
        size = of_dim(dim)
        if size is None:
            return None
        total = total * size
    return total.dim


def _reshaped(g: Graph, x: ir.Value, dims: list[Dim]) -> ir.Value:
    old = g.shape(x)
    if list(old) == dims and None not in dims:
        return x
    return reshape_node(g, x, tuple(old), tuple(dims))
