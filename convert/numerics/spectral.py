"""Singular values, and eigenvalues of symmetric matrices, by Jacobi rotations in float64."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.numerics.matrices import identity_matrix, matrix_shape, transpose_matrix
from convert.numerics.reflections import apply_all_reflections, householder_reflections
from convert.numerics.series import constant_like

_SWEEPS = 14
"""Jacobi's method converges quadratically: about eight sweeps are enough for float64 in practice."""


def singular_values(g: Graph, a: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return U [..., m, k], the singular values [..., k] in descending order, and V [..., n, k]; k is min(m, n).

    One-sided rotations (Hestenes, 1958) make the columns orthogonal. The sign of each pair of vectors is arbitrary.
    """
    rows, columns = matrix_shape(g, a)
    if rows < columns:
        v, values, u = singular_values(g, transpose_matrix(g, a))
        return u, values, v
    if columns == 0:
        return a, g.ReduceSum(a, [-2], keepdims=0), identity_matrix(g, a, 0)
    turned, basis = _orthogonalize_columns(g, a, columns)
    values = g.Sqrt(g.ReduceSum(g.Mul(turned, turned), [-2], keepdims=0))
    values, order = g.TopK(values, np.array([columns]), axis=-1, outputs=2)
    order = g.Unsqueeze(order, [-2])
    # Inference does not find the dims of a GatherElements by indices with an unknown batch.
    turned, basis = (
        g.facts(g.GatherElements(x, g.Expand(order, g.dims(x)), axis=-1), g.dtype(x), g.shape(x))
        for x in (turned, basis)
    )
    scale = g.Unsqueeze(values, [-2])
    return (
        g.Div(turned, g.Where(g.Equal(scale, constant_like(g, 0.0, a)), constant_like(g, 1.0, a), scale)),
        values,
        basis,
    )


def _orthogonalize_columns(g: Graph, a: ir.Value, n: int) -> tuple[ir.Value, ir.Value]:
    """Return a V with orthogonal columns, and the orthogonal V.

    Each iteration of a Loop does one rotation, over all pairs of columns.
    """
    basis = identity_matrix(g, a, n)
    pairs = np.array([(p, q) for p in range(n) for q in range(p + 1, n)] * _SWEEPS, dtype=np.int64)
    if not len(pairs):
        return a, basis
    table = g.const(pairs)
    body = g.body("loop")
    number = body.input("iteration", ir.DataType.INT64, [])
    again = body.input("condition", ir.DataType.BOOL, [])
    x, v = (body.input("state", g.dtype(a), g.shape(value)) for value in (a, basis))
    pair = body.Gather(table, number, axis=0)
    first, second = (body.Gather(pair, g.const(np.array([i])), axis=0) for i in (0, 1))
    cos, sin = _rotation(body, *(body.Gather(x, i, axis=-1) for i in (first, second)))
    numbers = g.const(np.arange(n))
    here = [body.Cast(body.Equal(numbers, i), to=ir.DataType.DOUBLE) for i in (first, second)]
    body.output(body.Identity(again), body.unique("again"))
    for value in (x, v):
        p, q = (body.Gather(value, i, axis=-1) for i in (first, second))
        less = body.Sub(body.Sub(body.Mul(cos, p), body.Mul(sin, q)), p)
        more = body.Sub(body.Add(body.Mul(sin, p), body.Mul(cos, q)), q)
        change = body.Add(body.Mul(less, here[0]), body.Mul(more, here[1]))
        body.output(body.Add(value, change), body.unique("result"))
    found = g.Loop(len(pairs), g.const(True), a, basis, body=body, outputs=2)
    return g.facts(found[0], g.dtype(a), g.shape(a)), g.facts(found[1], g.dtype(a), g.shape(basis))


def _rotation(g: Graph, p: ir.Value, q: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return cosine and sine of the rotation that makes two columns orthogonal."""
    zero, one = constant_like(g, 0.0, p), constant_like(g, 1.0, p)
    alpha, beta, gamma = (g.ReduceSum(g.Mul(a, b), g.const(np.array([-2]))) for a, b in ((p, p), (q, q), (p, q)))
    done = g.Equal(gamma, zero)
    zeta = g.Div(g.Sub(beta, alpha), g.Where(done, one, g.Mul(constant_like(g, 2.0, p), gamma)))
    sign = g.Where(g.Less(zeta, zero), g.Neg(one), one)
    tangent = g.Div(sign, g.Add(g.Abs(zeta), g.Sqrt(g.Add(one, g.Mul(zeta, zeta)))))
    cos = g.Reciprocal(g.Sqrt(g.Add(one, g.Mul(tangent, tangent))))
    return g.Where(done, one, cos), g.Where(done, zero, g.Mul(cos, tangent))


def complete_basis(g: Graph, u: ir.Value, full: bool) -> ir.Value:
    """Return u with zero columns replaced and, if `full`, more columns appended, so that all are orthonormal."""
    rows, columns = matrix_shape(g, u)
    if columns == 0:
        return identity_matrix(g, u, rows, rows if full else 0)
    r, vectors, factors = householder_reflections(g, u)
    width = rows if full else columns
    q = apply_all_reflections(g, identity_matrix(g, u, rows, width), vectors, factors)
    diagonal = g.ReduceSum(g.Mul(g.Slice(r, [0], [columns], [-2]), np.eye(columns)), [-2])
    signs = g.Where(g.Less(diagonal, constant_like(g, 0.0, u)), constant_like(g, -1.0, u), constant_like(g, 1.0, u))
    if width > columns:
        signs = g.Pad(signs, [0] * (2 * g.rank(u) - 1) + [width - columns], constant_like(g, 1.0, u))
    return g.Mul(q, signs)


def symmetric_eigen(g: Graph, a: ir.Value, upper: bool = False) -> tuple[ir.Value, ir.Value]:
    """Return the eigenvalues in ascending order, and the eigenvectors. Only one triangle is read.

    The matrix is shifted by more than its norm. Then it is positive definite, and its singular values are its
    eigenvalues.
    """
    other = transpose_matrix(g, g.Trilu(a, 1 if upper else -1, upper=int(upper)))
    a = g.Add(g.Trilu(a, 0, upper=int(upper)), other)
    n, _ = matrix_shape(g, a)
    shift = g.Sqrt(g.ReduceSum(g.Mul(a, a), [-2, -1]))
    shift = g.Add(g.Mul(shift, constant_like(g, 1.0009765625, a)), constant_like(g, 1e-300, a))
    _, values, vectors = singular_values(g, g.Add(a, g.Mul(shift, np.eye(n))))
    values = g.Sub(values, g.Squeeze(shift, [-1]))
    back = [[-1], [np.iinfo(np.int64).min], [-1], [-1]]
    return g.Slice(values, *back), g.Slice(vectors, *back)
