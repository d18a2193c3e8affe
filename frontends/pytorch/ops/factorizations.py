"""Factorizations of matrices in float64, and what follows from them: systems, inverses, determinants, spectra."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.bunch_kaufman import ldl, solve_by_ldl
from convert.numerics.factor import cholesky_factor, lu, unpack_lu
from convert.numerics.matrices import (
    cast_to_float64,
    column,
    identity_matrix,
    matrix_shape,
    mirror_lower_triangle,
    transpose_matrix,
    triangle,
)
from convert.numerics.reflections import apply_all_reflections, householder_reflections
from convert.numerics.solve import broadcast_batch, sign_and_log_det, solve_by_lu, solve_triangular, solve_with_factors
from convert.numerics.spectral import complete_basis, singular_values, symmetric_eigen

from ..common.sizes import reshape, size, times, vector
from ..common.values import as_value, cast, cast_to_floating, constant_like
from ..rules import torch_op

# -- LU with pivots, Cholesky -----------------------------------------------------------------------------------------


NO_PIVOTS = np.zeros(0, np.int32)


def cast_like(g: Graph, x: ir.Value, like_: ir.Value) -> ir.Value:
    """Return x in the dtype of `like_`."""
    return cast(g, x, g.dtype(cast_to_floating(g, like_)))


def zeros_per_matrix(g: Graph, x: ir.Value, dtype: torch.dtype) -> ir.Value:
    """Return one number per matrix: LAPACK's info if nothing is wrong."""
    lead = [size(g, x, d) for d in range(g.rank(x) - 2)]
    zero = cast(g, g.const(0), dtype)
    return g.Expand(zero, vector(g, lead)) if lead else zero


def number_of_first(g: Graph, bad: ir.Value) -> ir.Value:
    """Return LAPACK's info: the number of the first true entry of [..., n] booleans, counted from 1, or 0 (int32)."""
    bad = g.Cast(bad, to=ir.DataType.INT32)
    first = g.Add(g.ArgMax(bad, axis=-1, keepdims=0), 1)
    return g.Mul(g.Cast(first, to=ir.DataType.INT32), g.ReduceMax(bad, [-1], keepdims=0))


# -- LU ---------------------------------------------------------------------------------------------------------------


def lapack_pivots(g: Graph, pivots: list[ir.Value]) -> ir.Value:
    """Return pivots as LAPACK writes them: int32, counted from 1."""
    return g.Cast(g.Add(g.Concat(*pivots, axis=-1), 1), to=ir.DataType.INT32) if pivots else g.const(NO_PIVOTS)


def pivots_from_lapack(g: Graph, pivots: ir.Value) -> list[ir.Value]:
    """Return pivots from LAPACK's form."""
    count = g.shape(pivots)[-1]
    if not isinstance(count, int):
        raise Unsupported("pivots of an unknown number")
    moved = g.Sub(cast(g, pivots, torch.int64), 1)
    return [g.Gather(moved, np.array([k]), axis=-1) for k in range(count)]


def first_pivot_of_zero(g: Graph, factors: ir.Value) -> ir.Value:
    """Return LAPACK's info of each factored matrix: the number of the first zero pivot, counted from 1, or 0."""
    count = min(matrix_shape(g, factors))
    if not count:
        return zeros_per_matrix(g, factors, torch.int32)
    pivots = torch_op.apply(g, "diagonal", [factors, 0, -2, -1])
    zero = g.Cast(g.Equal(pivots, constant_like(g, 0.0, pivots)), to=ir.DataType.INT32)
    numbers = g.Mul(zero, g.const(np.arange(count, 0, -1), ir.DataType.INT32))  # the first has the largest
    largest = g.ReduceMax(numbers, [-1], keepdims=0)
    first = g.Sub(g.const(count + 1, ir.DataType.INT32), largest)
    return g.Where(g.Equal(largest, g.const(0, ir.DataType.INT32)), largest, first)


@torch_op("linalg_lu_factor")
def linalg_lu_factor(g, x, *, pivot=True):
    return linalg_lu_factor_ex(g, x, pivot=pivot)[:2]


@torch_op("linalg_lu_factor_ex")
def linalg_lu_factor_ex(g, x, *, pivot=True, check_errors=False):
    _require_pivot(pivot)
    a, pivots = lu(g, cast_to_float64(g, x))
    return [cast_like(g, a, x), lapack_pivots(g, pivots), first_pivot_of_zero(g, a)]


@torch_op("linalg_lu")
def linalg_lu(g, x, *, pivot=True):
    _require_pivot(pivot)
    a, pivots = lu(g, cast_to_float64(g, x))
    return [cast_like(g, v, x) for v in unpack_lu(g, a, pivots)]


@torch_op("lu_unpack")
def lu_unpack(g, x, pivots, unpack_data=True, unpack_pivots=True):
    return [cast_like(g, v, x) for v in unpack_lu(g, cast_to_float64(g, x), pivots_from_lapack(g, pivots))]


def _require_pivot(pivot: bool) -> None:
    if not pivot:
        raise Unsupported("LU without pivots, which PyTorch does not have on the CPU either")


# -- Cholesky ---------------------------------------------------------------------------------------------------------


@torch_op("linalg_cholesky_ex")
def linalg_cholesky_ex(g, x, *, upper=False, check_errors=False):
    """Return the factor, and the number of the first pivot that is not positive, counted from 1, or 0."""
    wide = cholesky_factor(g, cast_to_float64(g, x), upper)
    pivots = torch_op.apply(g, "diagonal", [wide, 0, -2, -1])
    info = number_of_first(g, g.Not(g.Greater(pivots, constant_like(g, 0.0, pivots))))
    root = cast_like(g, wide, x)
    return [transpose_matrix(g, root) if upper else root, info]


@torch_op("linalg_cholesky")
def linalg_cholesky(g, x, *, upper=False):
    return linalg_cholesky_ex(g, x, upper=upper)[0]


@torch_op("cholesky")
def cholesky(g, x, upper=False):
    return linalg_cholesky(g, x, upper=upper)


# -- orthogonal factors, by Householder reflections -------------------------------------------------------------------


@torch_op("linalg_qr")
def linalg_qr(g, A, mode="reduced"):
    a = cast_to_float64(g, A)
    rows, columns = matrix_shape(g, a)
    r, vectors, factors = householder_reflections(g, a)
    width = rows if mode == "complete" else min(rows, columns)
    r = cast_like(g, triangle(g, g.Slice(r, [0], [width], [-2]), True), A)
    if mode == "r":
        return [g.const(np.zeros(0, g.dtype(r).numpy())), r]
    return [cast_like(g, apply_all_reflections(g, identity_matrix(g, a, rows, width), vectors, factors), A), r]


@torch_op("qr")
def qr(g, x, some=True):
    return linalg_qr(g, x, "reduced" if some else "complete")


@torch_op("geqrf")
def geqrf(g, x):
    r, vectors, factors = householder_reflections(g, cast_to_float64(g, x))
    if not vectors:
        return [x, g.ReduceSum(x, [-2], keepdims=0)]
    below = g.Trilu(g.Concat(*vectors, axis=-1), -1, upper=0)
    rows, columns = matrix_shape(g, x)
    if columns > rows:
        below = g.Pad(below, [0] * (2 * g.rank(x) - 1) + [columns - rows], constant_like(g, 0.0, below))
    tau = g.Squeeze(g.Concat(*factors, axis=-1), [-2])
    return [cast_like(g, g.Add(triangle(g, r, True), below), x), cast_like(g, tau, x)]


def _stored_reflections(g: Graph, x: ir.Value, tau: ir.Value) -> tuple[list[ir.Value], list[ir.Value]]:
    """Return the reflections that geqrf's results describe."""
    count = g.shape(tau)[-1]
    rows, _ = matrix_shape(g, x)
    if not isinstance(count, int):
        raise Unsupported("reflections of an unknown number")
    if count == 0:
        return [], []
    below = g.Slice(cast_to_float64(g, x), [0], [count], [-1])
    unit = g.Add(g.Trilu(below, -1, upper=0), np.eye(rows, count))
    factors = cast_to_float64(g, tau)
    lead = [size(g, tau, d) for d in range(g.rank(tau) - 1)]
    chosen = [g.Gather(factors, np.array([k]), axis=-1) for k in range(count)]
    return [column(g, unit, k) for k in range(count)], [reshape(g, f, [*lead, 1, 1]) for f in chosen]


@torch_op("linalg_householder_product", "orgqr")
def linalg_householder_product(g, x, tau):
    rows, columns = matrix_shape(g, x)
    vectors, factors = _stored_reflections(g, x, tau)
    return cast_like(g, apply_all_reflections(g, identity_matrix(g, x, rows, columns), vectors, factors), x)


@torch_op("ormqr")
def ormqr(g, x, tau, other, left=True, transpose=False):
    """Return the product Q·other, Qᵀ·other, other·Q or other·Qᵀ."""
    vectors, factors = _stored_reflections(g, x, tau)
    start = cast_to_float64(g, other) if left else transpose_matrix(g, cast_to_float64(g, other))
    if transpose == left:
        # Reflections are symmetric, so the transposed product applies the first one first.
        vectors, factors = vectors[::-1], factors[::-1]
    out = apply_all_reflections(g, start, vectors, factors)
    return cast_like(g, out if left else transpose_matrix(g, out), x)


# -- indefinite symmetric matrices, by Bunch and Kaufman; all numbers are real, so Hermitian means symmetric ----------


@torch_op("linalg_ldl_factor_ex")
def linalg_ldl_factor_ex(g, x, *, hermitian=False, check_errors=False):
    """Return the factors, LAPACK's pivots, and the number of the first all-zero column, counted from 1, or 0."""
    factors, pivots, missing = ldl(g, cast_to_float64(g, x))
    empty = matrix_shape(g, x)[0] == 0
    info = zeros_per_matrix(g, x, torch.int32) if empty else number_of_first(g, missing)
    return [cast_like(g, factors, x), g.Cast(pivots, to=ir.DataType.INT32), info]


@torch_op("linalg_ldl_factor")
def linalg_ldl_factor(g, x, *, hermitian=False):
    return linalg_ldl_factor_ex(g, x, hermitian=hermitian)[:2]


@torch_op("linalg_ldl_solve")
def linalg_ldl_solve(g, LD, pivots, B, *, hermitian=False):
    out = solve_by_ldl(g, cast_to_float64(g, LD), cast(g, pivots, torch.int64), cast_to_float64(g, B))
    return cast_like(g, out, B)


# -- systems of linear equations, inverses and determinants -----------------------------------------------------------


@torch_op("linalg_solve_triangular")
def linalg_solve_triangular(g, A, B, *, upper, left=True, unitriangular=False):
    a, b = cast_to_float64(g, A), cast_to_float64(g, B)
    if not left:
        a, b, upper = transpose_matrix(g, a), transpose_matrix(g, b), not upper
    out = solve_triangular(g, a, broadcast_batch(g, a, b), upper, unitriangular)
    return cast_like(g, out if left else transpose_matrix(g, out), A)


@torch_op("triangular_solve")
def triangular_solve(g, x, A, upper=True, transpose=False, unitriangular=False):
    a = transpose_matrix(g, cast_to_float64(g, A)) if transpose else cast_to_float64(g, A)
    out = solve_triangular(g, a, broadcast_batch(g, a, cast_to_float64(g, x)), upper != transpose, unitriangular)
    return [cast_like(g, out, x), A]


@torch_op("linalg_inv", "inverse")
def linalg_inv(g, A):
    return linalg_inv_ex(g, A)[0]


@torch_op("linalg_inv_ex")
def linalg_inv_ex(g, A, *, check_errors=False):
    a = cast_to_float64(g, A)
    out, factors, _ = solve_with_factors(g, a, identity_matrix(g, a, matrix_shape(g, a)[0]))
    return [cast_like(g, out, A), first_pivot_of_zero(g, factors)]


@torch_op("_linalg_solve_ex")
def _linalg_solve_ex(g, A, B, *, left=True, check_errors=False):
    """Return the solution without the factors of the transposed matrix, which PyTorch keeps for gradients."""
    a, b = cast_to_float64(g, A), cast_to_float64(g, B)
    a = a if left else transpose_matrix(g, a)
    lone = g.rank(B) == 1 or (g.rank(A) - 1 == g.rank(B) and g.shape(A)[:-1] == g.shape(B))
    b = g.Unsqueeze(b, [-1]) if lone else b if left else transpose_matrix(g, b)
    out, factors, _ = solve_with_factors(g, a, b)
    out = g.Squeeze(out, [-1]) if lone else out if left else transpose_matrix(g, out)
    return [cast_like(g, out, A), None, None, first_pivot_of_zero(g, factors)]


@torch_op("linalg_solve_ex")
def linalg_solve_ex(g, A, B, *, left=True, check_errors=False):
    out, _, _, info = _linalg_solve_ex(g, A, B, left=left)
    return [out, info]


@torch_op("linalg_solve")
def linalg_solve(g, A, B, *, left=True):
    return _linalg_solve_ex(g, A, B, left=left)[0]


@torch_op("linalg_lu_solve")
def linalg_lu_solve(g, LU, pivots, B, *, left=True, adjoint=False):
    b = cast_to_float64(g, B) if left else transpose_matrix(g, cast_to_float64(g, B))
    out = solve_by_lu(g, cast_to_float64(g, LU), pivots_from_lapack(g, pivots), b, adjoint if left else not adjoint)
    return cast_like(g, out if left else transpose_matrix(g, out), LU)


@torch_op("lu_solve")
def lu_solve(g, x, LU_data, LU_pivots):
    return linalg_lu_solve(g, LU_data, LU_pivots, x)


@torch_op("cholesky_solve")
def cholesky_solve(g, x, input2, upper=False):
    """Return the solution for the matrix whose Cholesky factor is input2."""
    a = cast_to_float64(g, input2)
    lower = transpose_matrix(g, a) if upper else a
    b = broadcast_batch(g, lower, cast_to_float64(g, x))
    return cast_like(g, solve_triangular(g, transpose_matrix(g, lower), solve_triangular(g, lower, b, False), True), x)


@torch_op("cholesky_inverse")
def cholesky_inverse(g, x, upper=False):
    a = cast_to_float64(g, x)
    return cholesky_solve(g, cast_like(g, identity_matrix(g, a, matrix_shape(g, a)[0]), x), x, upper)


@torch_op("linalg_tensorinv")
def linalg_tensorinv(g, x, ind=2):
    dims = [size(g, x, i) for i in range(g.rank(x))]
    matrix = reshape(g, x, [times(g, *dims[:ind]), times(g, *dims[ind:])])
    return reshape(g, linalg_inv(g, matrix), [*dims[ind:], *dims[:ind]])


# -- determinants -----------------------------------------------------------------------------------------------------


def _sign_and_log(g: Graph, factors: ir.Value, pivots: list[ir.Value]) -> tuple[ir.Value, ir.Value]:
    if matrix_shape(g, factors)[0]:
        return sign_and_log_det(g, factors, pivots)
    none = zeros_per_matrix(g, factors, torch.float64)
    return g.Add(none, constant_like(g, 1.0, none)), none


@torch_op("_linalg_slogdet")
def _linalg_slogdet(g, A):
    factors, pivots = lu(g, cast_to_float64(g, A))
    sign, log = _sign_and_log(g, factors, pivots)
    return [cast_like(g, sign, A), cast_like(g, log, A), None, None]


@torch_op("linalg_slogdet", "slogdet")
def linalg_slogdet(g, A):
    return _linalg_slogdet(g, A)[:2]


@torch_op("logdet")
def logdet(g, x):
    sign, log = _sign_and_log(g, *lu(g, cast_to_float64(g, x)))
    return cast_like(g, g.Where(g.Less(sign, constant_like(g, 0.0, sign)), constant_like(g, math.nan, log), log), x)


@torch_op("_linalg_det")
def _linalg_det(g, A):
    factors, pivots = lu(g, cast_to_float64(g, A))
    sign, log = _sign_and_log(g, factors, pivots)
    return [cast_like(g, g.Mul(sign, g.Exp(log)), A), None, None]


# -- singular values and eigenvalues of symmetric matrices, by Jacobi rotations ---------------------------------------


@torch_op("_linalg_svd")
def _linalg_svd(g, A, full_matrices=False, compute_uv=True, *, driver=None):
    u, values, v = singular_values(g, cast_to_float64(g, A))
    if not compute_uv:
        empty = g.const(np.zeros(0, g.dtype(cast_like(g, values, A)).numpy()))
        return [empty, cast_like(g, values, A), empty]
    u, v = (complete_basis(g, x, full_matrices) for x in (u, v))
    return [cast_like(g, u, A), cast_like(g, values, A), cast_like(g, transpose_matrix(g, v), A)]


@torch_op("linalg_svd")
def linalg_svd(g, A, full_matrices=True, *, driver=None):
    return _linalg_svd(g, A, full_matrices)


@torch_op("linalg_svdvals")
def linalg_svdvals(g, A, *, driver=None):
    return cast_like(g, singular_values(g, cast_to_float64(g, A))[1], A)


@torch_op("svd")
def svd(g, x, some=True, compute_uv=True):
    """Return U, the singular values, and V (not transposed)."""
    u, values, v = singular_values(g, cast_to_float64(g, x))
    rows, columns = matrix_shape(g, x)
    if not compute_uv:
        u, v = (g.Mul(identity_matrix(g, x, n), constant_like(g, 0.0, values)) for n in (rows, columns))
    else:
        u, v = (complete_basis(g, m, not some) for m in (u, v))
    return [cast_like(g, u, x), cast_like(g, values, x), cast_like(g, v, x)]


# -- symmetric --------------------------------------------------------------------------------------------------------


@torch_op("_linalg_eigh")
def _linalg_eigh(g, A, UPLO="L", compute_v=True):
    values, vectors = symmetric_eigen(g, cast_to_float64(g, A), UPLO.upper() == "U")
    return [cast_like(g, values, A), cast_like(g, vectors, A) if compute_v else None]


@torch_op("linalg_eigh")
def linalg_eigh(g, A, UPLO="L"):
    return _linalg_eigh(g, A, UPLO)


@torch_op("linalg_eigvalsh")
def linalg_eigvalsh(g, A, UPLO="L"):
    return _linalg_eigh(g, A, UPLO)[0]


# -- derived operators ------------------------------------------------------------------------------------------------


@torch_op("linalg_pinv", "linalg_pinv.atol_rtol_tensor", "linalg_pinv.atol_rtol_float")
def linalg_pinv(g, x, *, atol=None, rtol=None, hermitian=False):
    """Return V S⁺ Uᵀ, where singular values up to max(atol, rtol times the largest) count as zero."""
    rows, columns = matrix_shape(g, x)
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
    u, values, v = singular_values(g, cast_to_float64(g, mirror_lower_triangle(g, x) if hermitian else x))
    relative, absolute = (_tolerance(g, t) for t in (rtol, 0.0 if atol is None else atol))
    largest = g.ReduceMax(values, [-1])
    least = g.Max(absolute, g.Mul(relative, largest))
    inverse = g.Where(g.Greater(values, least), g.Reciprocal(values), constant_like(g, 0.0, values))
    return cast_like(g, g.MatMul(g.Mul(v, g.Unsqueeze(inverse, [-2])), transpose_matrix(g, u)), x)


def _tolerance(g: Graph, value: Any) -> ir.Value:
    """Return a tolerance as float64, with a last dim of 1 that broadcasts along the singular values."""
    limit = as_value(g, value, ir.DataType.DOUBLE)
    return g.Unsqueeze(limit, [-1]) if g.rank(limit) else limit


@torch_op("linalg_pinv.rcond_tensor")
def linalg_pinv_rcond_tensor(g, x, rcond, hermitian=False):
    return linalg_pinv(g, x, atol=0.0, rtol=rcond, hermitian=hermitian)


@torch_op("linalg_pinv.default")
def linalg_pinv_rcond(g, x, rcond=1e-15, hermitian=False):
    return linalg_pinv(g, x, atol=0.0, rtol=rcond, hermitian=hermitian)


@torch_op("pinverse")
def pinverse(g, x, rcond=1e-15):
    return linalg_pinv(g, x, atol=0.0, rtol=rcond)


@torch_op("linalg_matrix_exp", "matrix_exp")
def linalg_matrix_exp(g, x):
    """Halve each matrix until its norm is small, sum Taylor's series, and square the result as many times.

    A matrix with NaN or an infinity is not halved: its result is NaN, and the other matrices of its batch are
    unaffected.
    """
    a = cast_to_float64(g, x)
    n, _ = matrix_shape(g, a)
    norm = g.ReduceMax(g.ReduceSum(g.Abs(a), [-2]), [-1])
    halvings = g.Max(
        g.Ceil(g.Div(g.Log(g.Max(norm, constant_like(g, 1e-300, a))), constant_like(g, math.log(2), a))),
        constant_like(g, 0.0, a),
    )
    finite = g.Less(g.ReduceSum(g.Abs(a), [-2, -1]), constant_like(g, 1e300, a))
    halvings = g.Where(finite, halvings, constant_like(g, 0.0, a))
    small = g.Div(a, g.Pow(constant_like(g, 2.0, a), halvings))
    out = term = identity_matrix(g, a, n)
    for k in range(1, 19):
        term = g.Div(g.MatMul(term, small), constant_like(g, float(k), a))
        out = g.Add(out, term)
    body = g.body("loop")
    iteration = body.input("iteration", ir.DataType.INT64, [])
    again = body.input("condition", ir.DataType.BOOL, [])
    state = body.input("state", g.dtype(a), g.shape(a))
    body.output(body.Identity(again), body.unique("again"))
    left = body.Less(body.Cast(iteration, to=g.dtype(a)), halvings)
    body.output(body.Where(left, body.MatMul(state, state), state), body.unique("result"))
    most = g.Cast(g.Max(g.ReduceMax(halvings, keepdims=0), constant_like(g, 0.0, a)), to=ir.DataType.INT64)
    squared = g.Loop(most, g.const(True), out, body=body)
    return cast_like(g, g.facts(squared, g.dtype(a), g.shape(a)), x)


torch_op.gap(
    "eigenvalues of a matrix that is not symmetric are complex, and ONNX has no complex linear algebra",
    "linalg_eig",
    "linalg_eigvals",
    "_linalg_eigvals",
)
