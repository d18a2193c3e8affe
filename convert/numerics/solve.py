"""Linear systems and determinants from factorizations, in float64."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.numerics.factor import lu, permute_rows
from convert.numerics.matrices import column, matrix_shape, row, transpose_matrix
from convert.numerics.series import constant_like


def solve_triangular(g: Graph, a: ir.Value, b: ir.Value, upper: bool, unit: bool = False) -> ir.Value:
    """Return x with a x = b for a triangular a, whose other triangle is not read."""
    n, _ = matrix_shape(g, a)
    numbers = np.arange(n)[:, None]
    solved: dict[int, ir.Value] = {}
    for k in range(n - 1, -1, -1) if upper else range(n):
        here = row(g, b, k)
        value = here if unit else g.Div(here, row(g, column(g, a, k), k))
        solved[k] = value
        ahead = numbers < k if upper else numbers > k
        if ahead.any():
            b = g.Sub(b, g.Mul(g.Where(ahead, column(g, a, k), constant_like(g, 0.0, a)), value))
    return g.Concat(*(solved[k] for k in range(n)), axis=-2) if n else b


def solve_with_factors(g: Graph, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value, list[ir.Value]]:
    """Return x with a x = b, and the factors and pivots of a."""
    factors, pivots = lu(g, a)
    return solve_by_lu(g, factors, pivots, b), factors, pivots


def solve_by_lu(g: Graph, factors: ir.Value, pivots: list[ir.Value], b: ir.Value, adjoint: bool = False) -> ir.Value:
    b = broadcast_batch(g, factors, b)
    if adjoint:
        turned = transpose_matrix(g, factors)
        out = solve_triangular(g, turned, b, upper=False)
        return permute_rows(g, solve_triangular(g, turned, out, upper=True, unit=True), pivots, back=True)
    out = solve_triangular(g, factors, permute_rows(g, b, pivots), upper=False, unit=True)
    return solve_triangular(g, factors, out, upper=True)


def broadcast_batch(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return b broadcast to the batch of a."""
    if g.shape(a)[:-2] == g.shape(b)[:-2]:
        return b
    lead = g.Shape(g.MatMul(a, b))
    ends = g.Concat(g.Shape(a, start=-1), g.Shape(b, start=-1), axis=0)
    shape = g.Concat(g.Slice(lead, [0], [-2], [0]), ends, axis=0)
    found = g.Expand(b, shape)
    count = max(len(g.shape(a)), len(g.shape(b))) - 2
    batch = g.shape(found)[:-2] if found.shape is not None else [None] * count
    # `solve_triangular` needs the number of rows, which shape inference drops if a batch dim is unknown
    return g.facts(found, shape=[*batch, *g.shape(b)[-2:]])


def sign_and_log_det(g: Graph, factors: ir.Value, pivots: list[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Return the sign and the log of the absolute value of a determinant.

    `factors` and `pivots` are those of a non-empty matrix.
    """
    n, _ = matrix_shape(g, factors)
    diagonal = g.ReduceSum(g.Mul(factors, np.eye(n)), [-1], keepdims=0)
    swapped = g.Cast(g.Not(g.Equal(g.Concat(*pivots, axis=-1), np.arange(n))), to=ir.DataType.INT64)
    odd = g.Cast(g.Mod(g.ReduceSum(swapped, [-1], keepdims=0), 2), to=ir.DataType.DOUBLE)
    turn = g.Sub(constant_like(g, 1.0, odd), g.Mul(constant_like(g, 2.0, odd), odd))
    signs = g.Where(g.IsNaN(diagonal), constant_like(g, 0.0, diagonal), g.Sign(diagonal))  # as in C, not in ONNX
    sign = g.Mul(turn, g.ReduceProd(signs, [-1], keepdims=0))
    return sign, g.ReduceSum(g.Log(g.Abs(diagonal)), [-1], keepdims=0)
