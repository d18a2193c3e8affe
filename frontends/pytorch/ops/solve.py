"""Systems of linear equations, inverses and determinants, from the factorisations."""

from __future__ import annotations

import math

import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.factor import lu
from convert.numerics.matrices import identity, sides, wide
from convert.numerics.solve import by_lu, matching, sign_and_log, solved, substituted

from ..common.values import like
from ..rules import torch_op
from .lu_cholesky import narrow, pivots_from, zeros
from .shape import transpose


def swap(g: Graph, x: ir.Value) -> ir.Value:
    """Each matrix transposed."""
    return transpose(g, x, -2, -1)


@torch_op("linalg_solve_triangular")
def linalg_solve_triangular(g, A, B, *, upper, left=True, unitriangular=False):
    a, b = wide(g, A), wide(g, B)
    if not left:
        a, b, upper = transpose(g, a, -2, -1), transpose(g, b, -2, -1), not upper
    out = substituted(g, a, matching(g, a, b), upper, unitriangular)
    return narrow(g, out if left else transpose(g, out, -2, -1), A)


@torch_op("triangular_solve")
def triangular_solve(g, x, A, upper=True, transpose=False, unitriangular=False):
    a = swap(g, wide(g, A)) if transpose else wide(g, A)
    out = substituted(g, a, matching(g, a, wide(g, x)), upper != transpose, unitriangular)
    return [narrow(g, out, x), A]


@torch_op("linalg_inv", "inverse")
def linalg_inv(g, A):
    a = wide(g, A)
    return narrow(g, solved(g, a, identity(g, a, sides(g, a)[0]))[0], A)


@torch_op("linalg_inv_ex")
def linalg_inv_ex(g, A, *, check_errors=False):
    return [linalg_inv(g, A), zeros(g, A, torch.int32)]


@torch_op("_linalg_solve_ex")
def _linalg_solve_ex(g, A, B, *, left=True, check_errors=False):
    """The factors, which PyTorch keeps for gradients (it takes those of the transposed matrix), are left out."""
    a, b = wide(g, A), wide(g, B)
    a = a if left else swap(g, a)
    lone = g.rank(B) == 1 or (g.rank(A) - 1 == g.rank(B) and g.shape(A)[:-1] == g.shape(B))
    b = g.Unsqueeze(b, [-1]) if lone else b if left else swap(g, b)
    out = solved(g, a, b)[0]
    out = g.Squeeze(out, [-1]) if lone else out if left else swap(g, out)
    return [narrow(g, out, A), None, None, zeros(g, A, torch.int32)]


@torch_op("linalg_solve_ex")
def linalg_solve_ex(g, A, B, *, left=True, check_errors=False):
    return [_linalg_solve_ex(g, A, B, left=left)[0], zeros(g, A, torch.int32)]


@torch_op("linalg_solve")
def linalg_solve(g, A, B, *, left=True):
    return _linalg_solve_ex(g, A, B, left=left)[0]


@torch_op("linalg_lu_solve")
def linalg_lu_solve(g, LU, pivots, B, *, left=True, adjoint=False):
    b = wide(g, B) if left else swap(g, wide(g, B))
    out = by_lu(g, wide(g, LU), pivots_from(g, pivots), b, adjoint if left else not adjoint)
    return narrow(g, out if left else swap(g, out), LU)


@torch_op("lu_solve")
def lu_solve(g, x, LU_data, LU_pivots):
    return linalg_lu_solve(g, LU_data, LU_pivots, x)


@torch_op("cholesky_solve")
def cholesky_solve(g, x, input2, upper=False):
    """The solution for the matrix whose root is input2."""
    a = wide(g, input2)
    lower = swap(g, a) if upper else a
    b = matching(g, lower, wide(g, x))
    return narrow(g, substituted(g, swap(g, lower), substituted(g, lower, b, False), True), x)


@torch_op("cholesky_inverse")
def cholesky_inverse(g, x, upper=False):
    a = wide(g, x)
    return cholesky_solve(g, narrow(g, identity(g, a, sides(g, a)[0]), x), x, upper)


@torch_op("linalg_tensorinv")
def linalg_tensorinv(g, x, ind=2):
    dims = list(g.shape(x))
    if not all(isinstance(d, int) for d in dims):
        raise Unsupported("tensorinv of a tensor of unknown size")
    matrix = g.Reshape(x, [math.prod(dims[:ind]), math.prod(dims[ind:])])
    return g.Reshape(linalg_inv(g, matrix), [*dims[ind:], *dims[:ind]])


# -- determinants -----------------------------------------------------------------------------------------------------


def _sign_and_log(g: Graph, factors: ir.Value, pivots: list[ir.Value]) -> tuple[ir.Value, ir.Value]:
    if sides(g, factors)[0]:
        return sign_and_log(g, factors, pivots)
    none = zeros(g, factors, torch.float64)
    return g.Add(none, like(g, 1.0, none)), none


@torch_op("_linalg_slogdet")
def _linalg_slogdet(g, A):
    factors, pivots = lu(g, wide(g, A))
    sign, log = _sign_and_log(g, factors, pivots)
    return [narrow(g, sign, A), narrow(g, log, A), None, None]


@torch_op("linalg_slogdet", "slogdet")
def linalg_slogdet(g, A):
    return _linalg_slogdet(g, A)[:2]


@torch_op("logdet")
def logdet(g, x):
    sign, log = _sign_and_log(g, *lu(g, wide(g, x)))
    return narrow(g, g.Where(g.Less(sign, like(g, 0.0, sign)), like(g, math.nan, log), log), x)


@torch_op("_linalg_det")
def _linalg_det(g, A):
    factors, pivots = lu(g, wide(g, A))
    sign, log = _sign_and_log(g, factors, pivots)
    return [narrow(g, g.Mul(sign, g.Exp(log)), A), None, None]
