"""Orthogonal factors of float64 matrices, by Householder reflections."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.numerics.matrices import column, matrix_shape, row, transpose_matrix
from convert.numerics.series import constant_like


def householder_reflections(g: Graph, a: ir.Value) -> tuple[ir.Value, list[ir.Value], list[ir.Value]]:
    """Return R, and Householder vectors [..., rows, 1] with their factors [..., 1, 1], as LAPACK's geqrf."""
    rows, columns = matrix_shape(g, a)
    numbers = np.arange(rows)[:, None]
    vectors, factors = [], []
    zero, one = constant_like(g, 0.0, a), constant_like(g, 1.0, a)
    for k in range(min(rows, columns)):
        here = column(g, a, k)
        head = row(g, here, k)
        below = g.Where(numbers > k, here, zero)
        rest = g.ReduceSum(g.Mul(below, below), [-2])
        flat = g.Equal(rest, zero)
        length = g.Sqrt(g.Add(g.Mul(head, head), rest))
        beta = g.Where(g.Less(head, zero), length, g.Neg(length))
        factor = g.Where(flat, zero, g.Div(g.Sub(beta, head), g.Where(flat, one, beta)))
        vector_ = g.Div(below, g.Where(flat, one, g.Sub(head, beta)))
        vector_ = g.Add(vector_, (numbers == k).astype(np.float64))
        a = apply_reflection(g, a, vector_, factor)
        vectors.append(vector_)
        factors.append(factor)
    return a, vectors, factors


def apply_reflection(g: Graph, a: ir.Value, v: ir.Value, factor: ir.Value) -> ir.Value:
    """Return (1 - factor v vᵀ) a."""
    return g.Sub(a, g.Mul(g.Mul(factor, v), g.MatMul(transpose_matrix(g, v), a)))


def apply_all_reflections(g: Graph, start: ir.Value, vectors: list[ir.Value], factors: list[ir.Value]) -> ir.Value:
    """Return `start` after all reflections, the last one first."""
    for v, factor in zip(reversed(vectors), reversed(factors), strict=True):
        start = apply_reflection(g, start, v, factor)
    return start
