"""Matrix products: batch axes are moved to the front, summed axes are merged into one, then ONNX's MatMul is used."""

from __future__ import annotations

from collections.abc import Sequence

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
