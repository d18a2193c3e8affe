"""Systems of linear equations, inverses and determinants, from the factorizations."""

from __future__ import annotations

import math

import onnx_ir as ir
import torch

from convert.graph import Graph
from convert.numerics.factor import lu
from convert.numerics.matrices import cast_to_float64, identity_matrix, matrix_shape
from convert.numerics.solve import broadcast_batch, sign_and_log_det, solve_by_lu, solve_triangular, solve_with_factors

from ..common.sizes import reshape, size, times
from ..common.values import constant_like
from ..rules import torch_op
from .lu_cholesky import cast_like, first_pivot_of_zero, pivots_from_lapack, zeros_per_matrix
from .shape import transpose


def transpose_matrix(g: Graph, x: ir.Value) -> ir.Value:
    """Return each matrix transposed."""
    return transpose(g, x, -2, -1)


@torch_op("linalg_solve_triangular")
def linalg_solve_triangular(g, A, B, *, upper, left=True, unitriangular=False):
    a, b = cast_to_float64(g, A), cast_to_float64(g, B)
    if not left:
        a, b, upper = transpose(g, a, -2, -1), transpose(g, b, -2, -1), not upper
    out = solve_triangular(g, a, broadcast_batch(g, a, b), upper, unitriangular)
    return cast_like(g, out if left else transpose(g, out, -2, -1), A)


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
