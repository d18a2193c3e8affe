"""Factorizations of float64 matrices, unrolled over their columns: LU with pivots, and Cholesky."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.numerics.matrices import column, identity_matrix, matrix_shape, row, transpose_matrix, triangle
from convert.numerics.series import constant_like


def lu(g: Graph, a: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
    """Return L (below its unit diagonal) and U in one matrix, and the row swapped with each row: [..., 1]."""
    rows, columns = matrix_shape(g, a)
    dims, numbers = g.shape(a), np.arange(rows)[:, None]
    pivots = []
    for k in range(min(rows, columns)):
        below = g.Where(numbers >= k, g.Abs(column(g, a, k)), constant_like(g, -1.0, a))
        pivot = g.ArgMax(below, axis=-2)
        pivots.append(g.Squeeze(pivot, [-1]))
        order = g.Where(numbers == k, pivot, g.Where(g.Equal(g.const(numbers), pivot), g.const(k), g.const(numbers)))
        a = g.GatherElements(a, g.Expand(order, g.dims(a)), axis=-2)
        first, here = row(g, a, k), column(g, a, k)
        head = column(g, first, k)
        quotient = g.Div(here, g.Where(g.Equal(head, constant_like(g, 0.0, a)), constant_like(g, 1.0, a), head))
        factors = g.Where(numbers > k, quotient, constant_like(g, 0.0, a))
        beyond = (np.arange(columns) > k)[None]
        a = g.Sub(a, g.Mul(factors, g.Where(beyond, first, constant_like(g, 0.0, a))))
        a = g.Where((numbers > k) & (np.arange(columns) == k)[None], factors, a)
    return g.facts(a, shape=dims), pivots


def permute_rows(g: Graph, b: ir.Value, pivots: list[ir.Value], back: bool = False) -> ir.Value:
    """Return the rows of b after the swaps, or, with `back`, before them."""
    rows = g.shape(b)[-2]
    assert isinstance(rows, int), "as many rows as there are pivots"
    numbers = np.arange(rows)[:, None]
    steps = list(enumerate(pivots))
    for k, place in reversed(steps) if back else steps:
        pivot = g.Unsqueeze(place, [-1])
        order = g.Where(numbers == k, pivot, g.Where(g.Equal(g.const(numbers), pivot), g.const(k), g.const(numbers)))
        b = g.GatherElements(b, g.Expand(order, g.dims(b)), axis=-2)
    return b


def unpack_lu(g: Graph, a: ir.Value, pivots: list[ir.Value]) -> list[ir.Value]:
    """Return the permutation, the lower factor with a unit diagonal, and the upper factor."""
    rows, columns = matrix_shape(g, a)
    least = min(rows, columns)
    left = g.Slice(a, [0], [least], [-1])
    permutation = permute_rows(g, identity_matrix(g, a, rows), pivots, back=True)
    return [permutation, triangle(g, left, False, unit=True), triangle(g, g.Slice(a, [0], [least], [-2]), True)]


def cholesky_factor(g: Graph, a: ir.Value, upper: bool = False) -> ir.Value:
    """Return the lower triangular L with L Lᵀ = a. Only one triangle of a is read."""
    n, _ = matrix_shape(g, a)
    if upper:
        a = transpose_matrix(g, a)
    numbers = np.arange(n)[:, None]
    done = []
    for k in range(n):
        here = column(g, a, k)
        root = g.Sqrt(row(g, here, k))
        current = g.Where(numbers >= k, g.Div(here, root), constant_like(g, 0.0, a))
        done.append(current)
        a = g.Sub(a, g.Mul(current, transpose_matrix(g, current)))
    return g.Concat(*done, axis=-1) if done else a
