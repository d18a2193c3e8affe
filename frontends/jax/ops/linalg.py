"""Matrix decompositions in float64: StableHLO's own, and LAPACK's, which JAX calls on a CPU."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics import factor
from convert.numerics.matrices import cast_to_float64, column, identity_matrix, matrix_shape, transpose_matrix
from convert.numerics.reflections import apply_all_reflections, householder_reflections
from convert.numerics.solve import solve_triangular, solve_with_factors
from convert.numerics.spectral import complete_basis, singular_values, symmetric_eigen

from ..rules import stablehlo_op
from ..types import ResultType


def _back(g: Graph, value: ir.Value, result: ResultType) -> ir.Value:
    """A value in the dtype of a result."""
    return value if value.dtype == result.dtype else g.Cast(value, to=result.dtype)


def _done(g: Graph, result: ResultType, a: ir.Value) -> ir.Value:
    """Return LAPACK's info of a successful factorization: 0 for each matrix of `a`."""
    if None in result.dims:
        return g.Expand(g.const(0, result.dtype), g.Shape(a, start=0, end=-2))
    return g.const(ir.Tensor(np.zeros([d or 0 for d in result.dims], result.dtype.numpy()), dtype=result.dtype))


@stablehlo_op("cholesky")
def cholesky(g, a, *, result, lower=False):
    """Return the factor in the requested triangle, as XLA reads it; the other triangle is 0 here."""
    found = factor.cholesky_factor(g, cast_to_float64(g, a), upper=not lower)
    return _back(g, found if lower else transpose_matrix(g, found), result)


@stablehlo_op("triangular_solve")
def triangular_solve(g, a, b, *, left_side, lower, unit_diagonal, transpose_a, result):
    """Return X with op(A) X = B, or with X op(A) = B, which is the transposed system."""
    a, b = cast_to_float64(g, a), cast_to_float64(g, b)
    upper = not lower
    turned = transpose_a in ("TRANSPOSE", "ADJOINT")
    if turned == left_side:  # if A is on the right, it is transposed once more
        a, upper = transpose_matrix(g, a), not upper
    right = b if left_side else transpose_matrix(g, b)
    found = solve_triangular(g, a, right, upper, unit_diagonal)
    return _back(g, found if left_side else transpose_matrix(g, found), result)


@stablehlo_op("@lapack_spotrf_ffi", "@lapack_dpotrf_ffi")
def potrf(g, a, *, uplo, results):
    """Return the Cholesky factor and LAPACK's `info`: 0, or 1 if there is no factor, which is NaN then."""
    lower = chr(uplo) == "L"
    found = factor.cholesky_factor(g, cast_to_float64(g, a), upper=not lower)
    broken = g.IsNaN(g.ReduceSum(found, [-2, -1], keepdims=0))
    found = found if lower else transpose_matrix(g, found)
    return [_back(g, found, results[0]), g.Cast(broken, to=results[1].dtype)]


@stablehlo_op("@lapack_strsm_ffi", "@lapack_dtrsm_ffi")
def trsm(g, a, b, *, side, uplo, diag, trans_x, result):
    return triangular_solve(
        g, a, b, left_side=chr(side) == "L", lower=chr(uplo) == "L", unit_diagonal=chr(diag) == "U",
        transpose_a="NO_TRANSPOSE" if chr(trans_x) == "N" else "TRANSPOSE", result=result,
    )  # fmt: skip


@stablehlo_op("@lapack_sgetrf_ffi", "@lapack_dgetrf_ffi")
def getrf(g, a, *, results):
    """Return L and U in one matrix, and the swapped rows, counted from 1."""
    packed, pivots = factor.lu(g, cast_to_float64(g, a))
    places = g.Add(g.Cast(g.Concat(*pivots, axis=-1), to=ir.DataType.INT64), g.const(1, ir.DataType.INT64))
    return [_back(g, packed, results[0]), _back(g, places, results[1]), _done(g, results[2], a)]


@stablehlo_op("@lapack_sgeqrf_ffi", "@lapack_dgeqrf_ffi")
def geqrf(g, a, *, results):
    """Return R with the Householder vectors below its diagonal, and their factors."""
    wide = cast_to_float64(g, a)
    rows, columns = matrix_shape(g, wide)
    upper, vectors, factors = householder_reflections(g, wide)
    packed = g.Trilu(upper, 0, upper=1)
    for k, vector in enumerate(vectors):
        below = (np.arange(rows)[:, None] > k) & (np.arange(columns)[None] == k)
        packed = g.Where(below, vector, packed)
    taus = g.Squeeze(g.Concat(*factors, axis=-1), [-2])
    return [_back(g, packed, results[0]), _back(g, taus, results[1])]


@stablehlo_op("@lapack_sorgqr_ffi", "@lapack_dorgqr_ffi")
def orgqr(g, packed, taus, *, result):
    """Return the orthogonal factor of the reflections that `geqrf` returns."""
    packed, taus = cast_to_float64(g, packed), cast_to_float64(g, taus)
    rows, columns = matrix_shape(g, packed)
    found = apply_all_reflections(g, identity_matrix(g, packed, rows, columns), *_reflections(g, packed, taus))
    return _back(g, found, result)


def _reflections(g: Graph, packed: ir.Value, taus: ir.Value) -> tuple[list[ir.Value], list[ir.Value]]:
    """Return the Householder vectors below the diagonal of `packed`, and their factors."""
    rows, _ = matrix_shape(g, packed)
    count = g.shape(taus)[-1]
    if not isinstance(count, int):
        raise Unsupported("a number of reflections that is not known")
    numbers = np.arange(rows)[:, None]
    one_column = g.Unsqueeze(taus, [-2])
    vectors, factors = [], []
    for k in range(count):
        below = g.Where(numbers > k, column(g, packed, k), g.const(np.zeros((), np.float64)))
        vectors.append(g.Add(below, g.const((numbers == k).astype(np.float64))))
        factors.append(column(g, one_column, k))
    return vectors, factors


@stablehlo_op("@lapack_sormqr_ffi", "@lapack_dormqr_ffi")
def ormqr(g, packed, taus, c, *, left, transpose, result):
    """Return Q C or C Q, or that for Qᵀ, with the Q of the reflections that `geqrf` returns."""
    packed, taus, c = (cast_to_float64(g, v) for v in (packed, taus, c))
    vectors, factors = _reflections(g, packed, taus)
    if transpose == left:  # Qᵀ C; from the right, C Q is (Qᵀ Cᵀ)ᵀ
        vectors, factors = vectors[::-1], factors[::-1]
    found = apply_all_reflections(g, c if left else transpose_matrix(g, c), vectors, factors)
    return _back(g, found if left else transpose_matrix(g, found), result)


@stablehlo_op("@lapack_sgtsv_ffi", "@lapack_dgtsv_ffi")
def gtsv(g, below, diagonal, above, b, *, results):
    """Return the three diagonals, the solution of the tridiagonal system, and 0.

    LAPACK overwrites the diagonals with factors; JAX uses the solution only.
    """
    size = g.shape(diagonal)[-1]
    if not isinstance(size, int):
        raise Unsupported("a system whose size is not known")
    a = g.const(np.zeros((size, size)))
    for part, offset in ((below, -1), (diagonal, 0), (above, 1)):
        a = g.Where(np.eye(size, k=offset, dtype=bool), g.Unsqueeze(cast_to_float64(g, part), [-1]), a)
    solution, _, _ = solve_with_factors(g, a, cast_to_float64(g, b))
    return [below, diagonal, above, _back(g, solution, results[3]), _done(g, results[4], b)]


@stablehlo_op("@lapack_ssyevd_ffi", "@lapack_dsyevd_ffi")
def syevd(g, a, *, mode, uplo, results):
    """Return eigenvectors, eigenvalues in ascending order, and 0; the signs of eigenvectors are arbitrary and may
    differ.
    """
    values, vectors = symmetric_eigen(g, cast_to_float64(g, a), upper=chr(uplo) == "U")
    return [_back(g, vectors, results[0]), _back(g, values, results[1]), _done(g, results[2], a)]


@stablehlo_op("@lapack_sgesdd_ffi", "@lapack_dgesdd_ffi", "@lapack_sgesvd_ffi", "@lapack_dgesvd_ffi")
def gesdd(g, a, *, mode, results):
    """Return the overwritten matrix, singular values, U, Vᵀ and 0; the signs of pairs of vectors are arbitrary and may
    differ.
    """
    wide = cast_to_float64(g, a)
    u, values, v = singular_values(g, wide)
    full = chr(mode) == "A"
    u, v = complete_basis(g, u, full), complete_basis(g, v, full)
    found = [_back(g, x, r) for x, r in zip((wide, values, u, transpose_matrix(g, v)), results, strict=False)]
    return [*found, _done(g, results[4], a)]


@stablehlo_op("@Sharding", "@SPMDFullToShardShape", "@SPMDShardToFullShape", "@LayoutConstraint",
              "@annotate_device_placement", "@xla.sdy.FuncResultSharding")  # fmt: skip
def sharding(g, x):
    """Return the operand: sharding only says on which device a tensor lies."""
    return x


@stablehlo_op("@shape_assertion")
def shape_assertion(g, *operands, error_message=""):
    """Return nothing: JAX's conditions on sizes are implied by the names of dims."""
    return []


@stablehlo_op("after_all", "create_token")
def token(g, *tokens):
    """Return a token, which orders effects; the program has none."""
    return [None]
