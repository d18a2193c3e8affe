"""Singular values, eigenvalues of symmetric matrices, and what follows from them, by Jacobi's rotations in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ..rules import aten
from ..sizes import vector
from ..values import as_value, like
from .factor import identity, narrow, sides, wide
from .reflections import orthogonal, reflections
from .shape import transpose

_SWEEPS = 14
"""Jacobi's method converges quadratically: some eight sweeps are enough for float64 in practice."""


def singular(g: Graph, a: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """U [..., m, k], the singular values [..., k] in descending order and V [..., n, k], k the lesser of m and n.

    One-sided rotations (Hestenes, 1958) make the columns orthogonal. The sign of each pair of vectors is free.
    """
    rows, columns = sides(g, a)
    if rows < columns:
        v, values, u = singular(g, transpose(g, a, -2, -1))
        return u, values, v
    if columns == 0:
        return a, g.ReduceSum(a, [-2], keepdims=0), identity(g, a, 0)
    turned, basis = _orthogonalised(g, a, columns)
    values = g.Sqrt(g.ReduceSum(g.Mul(turned, turned), [-2], keepdims=0))
    values, order = g.TopK(values, vector(g, columns), axis=-1, outputs=2)
    order = g.Unsqueeze(order, [-2])
    turned = g.GatherElements(turned, g.Expand(order, g.dims(turned)), axis=-1)
    basis = g.GatherElements(basis, g.Expand(order, g.dims(basis)), axis=-1)
    scale = g.Unsqueeze(values, [-2])
    return g.Div(turned, g.Where(g.Equal(scale, like(g, 0.0, a)), like(g, 1.0, a), scale)), values, basis


def _orthogonalised(g: Graph, a: ir.Value, n: int) -> tuple[ir.Value, ir.Value]:
    """a V with orthogonal columns, and the orthogonal V: one rotation a round, all pairs of columns in turn."""
    basis = identity(g, a, n)
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
    """Cosine and sine of the rotation that makes two columns orthogonal."""
    zero, one = like(g, 0.0, p), like(g, 1.0, p)
    alpha, beta, gamma = (g.ReduceSum(g.Mul(a, b), g.const(np.array([-2]))) for a, b in ((p, p), (q, q), (p, q)))
    done = g.Equal(gamma, zero)
    zeta = g.Div(g.Sub(beta, alpha), g.Where(done, one, g.Mul(like(g, 2.0, p), gamma)))
    sign = g.Where(g.Less(zeta, zero), g.Neg(one), one)
    tangent = g.Div(sign, g.Add(g.Abs(zeta), g.Sqrt(g.Add(one, g.Mul(zeta, zeta)))))
    cos = g.Reciprocal(g.Sqrt(g.Add(one, g.Mul(tangent, tangent))))
    return g.Where(done, one, cos), g.Where(done, zero, g.Mul(cos, tangent))


def completed(g: Graph, u: ir.Value, full: bool) -> ir.Value:
    """u with columns of zeros replaced, and if `full` with further ones, so that all are orthonormal."""
    rows, columns = sides(g, u)
    if columns == 0:
        return identity(g, u, rows, rows if full else 0)
    r, vectors, factors = reflections(g, u)
    width = rows if full else columns
    q = orthogonal(g, identity(g, u, rows, width), vectors, factors)
    diagonal = g.ReduceSum(g.Mul(g.Slice(r, [0], [columns], [-2]), np.eye(columns)), [-2])
    signs = g.Where(g.Less(diagonal, like(g, 0.0, u)), like(g, -1.0, u), like(g, 1.0, u))
    if width > columns:
        signs = g.Pad(signs, [0] * (2 * g.rank(u) - 1) + [width - columns], like(g, 1.0, u))
    return g.Mul(q, signs)


@aten("_linalg_svd")
def _linalg_svd(g, A, full_matrices=False, compute_uv=True, *, driver=None):
    u, values, v = singular(g, wide(g, A))
    if not compute_uv:
        empty = g.const(np.zeros(0, g.dtype(narrow(g, values, A)).numpy()))
        return [empty, narrow(g, values, A), empty]
    u, v = (completed(g, x, full_matrices) for x in (u, v))
    return [narrow(g, u, A), narrow(g, values, A), narrow(g, transpose(g, v, -2, -1), A)]


@aten("linalg_svd")
def linalg_svd(g, A, full_matrices=True, *, driver=None):
    return _linalg_svd(g, A, full_matrices)


@aten("linalg_svdvals")
def linalg_svdvals(g, A, *, driver=None):
    return narrow(g, singular(g, wide(g, A))[1], A)


@aten("svd")
def svd(g, x, some=True, compute_uv=True):
    """The second matrix is V itself, not transposed."""
    u, values, v = singular(g, wide(g, x))
    rows, columns = sides(g, x)
    if not compute_uv:
        u, v = (g.Mul(identity(g, x, n), like(g, 0.0, values)) for n in (rows, columns))
    else:
        u, v = (completed(g, m, not some) for m in (u, v))
    return [narrow(g, u, x), narrow(g, values, x), narrow(g, v, x)]


# -- symmetric --------------------------------------------------------------------------------------------------------


def symmetric(g: Graph, a: ir.Value, upper: bool = False) -> tuple[ir.Value, ir.Value]:
    """Eigenvalues in ascending order and eigenvectors, of which one triangle is read.

    Moved by more than its norm, the matrix is positive, and its singular values are its eigenvalues.
    """
    other = transpose(g, g.Trilu(a, 1 if upper else -1, upper=int(upper)), -2, -1)
    a = g.Add(g.Trilu(a, 0, upper=int(upper)), other)
    n, _ = sides(g, a)
    shift = g.Sqrt(g.ReduceSum(g.Mul(a, a), [-2, -1]))
    shift = g.Add(g.Mul(shift, like(g, 1.0009765625, a)), like(g, 1e-300, a))
    _, values, vectors = singular(g, g.Add(a, g.Mul(shift, np.eye(n))))
    values = g.Sub(values, g.Squeeze(shift, [-1]))
    back = [[-1], [np.iinfo(np.int64).min], [-1], [-1]]
    return g.Slice(values, *back), g.Slice(vectors, *back)


@aten("_linalg_eigh")
def _linalg_eigh(g, A, UPLO="L", compute_v=True):
    values, vectors = symmetric(g, wide(g, A), UPLO.upper() == "U")
    return [narrow(g, values, A), narrow(g, vectors, A) if compute_v else None]


@aten("linalg_eigh")
def linalg_eigh(g, A, UPLO="L"):
    return _linalg_eigh(g, A, UPLO)


@aten("linalg_eigvalsh")
def linalg_eigvalsh(g, A, UPLO="L"):
    return _linalg_eigh(g, A, UPLO)[0]


# -- what follows -----------------------------------------------------------------------------------------------------


@aten("linalg_pinv", "linalg_pinv.atol_rtol_tensor", "linalg_pinv.atol_rtol_float")
def linalg_pinv(g, x, *, atol=None, rtol=None, hermitian=False):
    """V S⁺ Uᵀ, with singular values up to max(atol, rtol times the largest) taken for zero."""
    rows, columns = sides(g, x)
    eps = float(np.finfo(g.dtype(x).numpy()).eps)
    default = eps * max(rows, columns)
    if rtol is None:
        rtol = (
            default
            if atol is None
            else g.Where(
                g.Greater(as_value(g, atol, ir.DataType.DOUBLE), g.const(0.0, ir.DataType.DOUBLE)),
                g.const(0.0, ir.DataType.DOUBLE),
                g.const(default, ir.DataType.DOUBLE),
            )
        )
    u, values, v = singular(g, wide(g, _mirrored(g, x) if hermitian else x))
    relative, absolute = (_limit(g, t) for t in (rtol, 0.0 if atol is None else atol))
    largest = g.ReduceMax(values, [-1])
    least = g.Max(absolute, g.Mul(relative, largest))
    inverse = g.Where(g.Greater(values, least), g.Reciprocal(values), like(g, 0.0, values))
    return narrow(g, g.MatMul(g.Mul(v, g.Unsqueeze(inverse, [-2])), transpose(g, u, -2, -1)), x)


def _limit(g: Graph, value: Any) -> ir.Value:
    """A tolerance with a last dim to broadcast along the singular values."""
    limit = as_value(g, value, ir.DataType.DOUBLE)
    return g.Unsqueeze(limit, [-1]) if g.rank(limit) else limit


def _mirrored(g: Graph, x: ir.Value) -> ir.Value:
    return g.Add(g.Trilu(x, 0, upper=0), transpose(g, g.Trilu(x, -1, upper=0), -2, -1))


@aten("linalg_pinv.rcond_tensor")
def linalg_pinv_rcond_tensor(g, x, rcond, hermitian=False):
    return linalg_pinv(g, x, atol=0.0, rtol=rcond, hermitian=hermitian)


@aten("linalg_pinv.default")
def linalg_pinv_rcond(g, x, rcond=1e-15, hermitian=False):
    return linalg_pinv(g, x, atol=0.0, rtol=rcond, hermitian=hermitian)


@aten("pinverse")
def pinverse(g, x, rcond=1e-15):
    return linalg_pinv(g, x, atol=0.0, rtol=rcond)


@aten("linalg_matrix_exp", "matrix_exp")
def linalg_matrix_exp(g, x):
    """Taylor's series of the matrix halved until its norm is small, then squared as often."""
    a = wide(g, x)
    n, _ = sides(g, a)
    norm = g.ReduceMax(g.ReduceSum(g.Abs(a), [-2], keepdims=0), keepdims=0)
    halvings = g.Max(g.Ceil(g.Div(g.Log(g.Max(norm, like(g, 1e-300, a))), like(g, math.log(2), a))), like(g, 0.0, a))
    small = g.Div(a, g.Pow(like(g, 2.0, a), halvings))
    out = term = identity(g, a, n)
    for k in range(1, 19):
        term = g.Div(g.MatMul(term, small), like(g, float(k), a))
        out = g.Add(out, term)
    body = g.body("loop")
    body.input("iteration", ir.DataType.INT64, [])
    again = body.input("condition", ir.DataType.BOOL, [])
    state = body.input("state", g.dtype(a), g.shape(a))
    body.output(body.Identity(again), body.unique("again"))
    body.output(body.MatMul(state, state), body.unique("result"))
    squared = g.Loop(g.Cast(halvings, to=ir.DataType.INT64), g.const(True), out, body=body)
    return narrow(g, g.facts(squared, g.dtype(a), g.shape(a)), x)


aten.gap(
    "eigenvalues of a matrix that is not symmetric are complex, and ONNX has no complex linear algebra",
    "linalg_eig",
    "linalg_eigvals",
    "_linalg_eigvals",
)
aten.gap(
    "a symmetric indefinite factorisation (Bunch and Kaufman) branches on the data at every column",
    "linalg_ldl_factor_ex",
    "linalg_ldl_factor",
    "linalg_ldl_solve",
)
