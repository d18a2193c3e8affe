"""Systems of linear equations, inverses and determinants, from the factorisations."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import aten
from ..sizes import size, vector
from ..values import like
from .factor import (
    column,
    identity,
    lu,
    narrow,
    permuted,
    pivots_from,
    row,
    sides,
    wide,
    zeros,
)
from .shape import transpose


def swap(g: Graph, x: ir.Value) -> ir.Value:
    """Each matrix transposed."""
    return transpose(g, x, -2, -1)


def substituted(g: Graph, a: ir.Value, b: ir.Value, upper: bool, unit: bool = False) -> ir.Value:
    """The x with a x = b for a triangular a, whose other triangle is not read."""
    n, _ = sides(g, a)
    numbers = np.arange(n)[:, None]
    solved: dict[int, ir.Value] = {}
    for k in range(n - 1, -1, -1) if upper else range(n):
        here = row(g, b, k)
        value = here if unit else g.Div(here, row(g, column(g, a, k), k))
        solved[k] = value
        ahead = numbers < k if upper else numbers > k
        if ahead.any():
            b = g.Sub(b, g.Mul(g.Where(ahead, column(g, a, k), like(g, 0.0, a)), value))
    return g.Concat(*(solved[k] for k in range(n)), axis=-2) if n else b


def solved(g: Graph, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value, list[ir.Value]]:
    """The x with a x = b, and the factors and pivots of a."""
    factors, pivots = lu(g, a)
    return _by_lu(g, factors, pivots, b), factors, pivots


def _by_lu(g: Graph, factors: ir.Value, pivots: list[ir.Value], b: ir.Value, adjoint: bool = False) -> ir.Value:
    b = _matching(g, factors, b)
    if adjoint:
        turned = transpose(g, factors, -2, -1)
        out = substituted(g, turned, b, upper=False)
        return permuted(g, substituted(g, turned, out, upper=True, unit=True), pivots, back=True)
    out = substituted(g, factors, permuted(g, b, pivots), upper=False, unit=True)
    return substituted(g, factors, out, upper=True)


def _matching(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value:
    """b broadcast to the batch of a."""
    if g.shape(a)[:-2] == g.shape(b)[:-2]:
        return b
    n = size(g, a, -1)
    lead = g.Shape(g.MatMul(a, b))
    shape = g.Concat(g.Slice(lead, [0], [-2], [0]), vector(g, [n, size(g, b, -1)]), axis=0)
    return g.Expand(b, shape)


@aten("linalg_solve_triangular")
def linalg_solve_triangular(g, A, B, *, upper, left=True, unitriangular=False):
    a, b = wide(g, A), wide(g, B)
    if not left:
        a, b, upper = transpose(g, a, -2, -1), transpose(g, b, -2, -1), not upper
    out = substituted(g, a, _matching(g, a, b), upper, unitriangular)
    return narrow(g, out if left else transpose(g, out, -2, -1), A)


@aten("triangular_solve")
def triangular_solve(g, x, A, upper=True, transpose=False, unitriangular=False):
    a = swap(g, wide(g, A)) if transpose else wide(g, A)
    out = substituted(g, a, _matching(g, a, wide(g, x)), upper != transpose, unitriangular)
    return [narrow(g, out, x), A]


@aten("linalg_inv", "inverse")
def linalg_inv(g, A):
    a = wide(g, A)
    return narrow(g, solved(g, a, identity(g, a, sides(g, a)[0]))[0], A)


@aten("linalg_inv_ex")
def linalg_inv_ex(g, A, *, check_errors=False):
    return [linalg_inv(g, A), zeros(g, A, torch.int32)]


@aten("_linalg_solve_ex")
def _linalg_solve_ex(g, A, B, *, left=True, check_errors=False):
    """The factors, which PyTorch keeps for gradients (it takes those of the transposed matrix), are left out."""
    a, b = wide(g, A), wide(g, B)
    a = a if left else swap(g, a)
    lone = g.rank(B) == 1 or (g.rank(A) - 1 == g.rank(B) and g.shape(A)[:-1] == g.shape(B))
    b = g.Unsqueeze(b, [-1]) if lone else b if left else swap(g, b)
    out = solved(g, a, b)[0]
    out = g.Squeeze(out, [-1]) if lone else out if left else swap(g, out)
    return [narrow(g, out, A), None, None, zeros(g, A, torch.int32)]


@aten("linalg_solve_ex")
def linalg_solve_ex(g, A, B, *, left=True, check_errors=False):
    return [_linalg_solve_ex(g, A, B, left=left)[0], zeros(g, A, torch.int32)]


@aten("linalg_solve")
def linalg_solve(g, A, B, *, left=True):
    return _linalg_solve_ex(g, A, B, left=left)[0]


@aten("linalg_lu_solve")
def linalg_lu_solve(g, LU, pivots, B, *, left=True, adjoint=False):
    b = wide(g, B) if left else swap(g, wide(g, B))
    out = _by_lu(g, wide(g, LU), pivots_from(g, pivots), b, adjoint if left else not adjoint)
    return narrow(g, out if left else swap(g, out), LU)


@aten("lu_solve")
def lu_solve(g, x, LU_data, LU_pivots):
    return linalg_lu_solve(g, LU_data, LU_pivots, x)


@aten("cholesky_solve")
def cholesky_solve(g, x, input2, upper=False):
    """The solution for the matrix whose root is input2."""
    a = wide(g, input2)
    lower = swap(g, a) if upper else a
    b = _matching(g, lower, wide(g, x))
    return narrow(g, substituted(g, swap(g, lower), substituted(g, lower, b, False), True), x)


@aten("cholesky_inverse")
def cholesky_inverse(g, x, upper=False):
    a = wide(g, x)
    return cholesky_solve(g, narrow(g, identity(g, a, sides(g, a)[0]), x), x, upper)


@aten("linalg_tensorinv")
def linalg_tensorinv(g, x, ind=2):
    dims = list(g.shape(x))
    if not all(isinstance(d, int) for d in dims):
        raise Unsupported("tensorinv of a tensor of unknown size")
    matrix = g.Reshape(x, [math.prod(dims[:ind]), math.prod(dims[ind:])])
    return g.Reshape(linalg_inv(g, matrix), [*dims[ind:], *dims[:ind]])


# -- determinants -----------------------------------------------------------------------------------------------------


def _sign_and_log(g: Graph, factors: ir.Value, pivots: list[ir.Value]) -> tuple[ir.Value, ir.Value]:
    n, _ = sides(g, factors)
    if not n:
        none = zeros(g, factors, torch.float64)
        return g.Add(none, like(g, 1.0, none)), none
    diagonal = g.ReduceSum(g.Mul(factors, np.eye(n)), [-1], keepdims=0)
    swapped = g.Cast(g.Not(g.Equal(g.Concat(*pivots, axis=-1), np.arange(n))), to=ir.DataType.INT64)
    odd = g.Cast(g.Mod(g.ReduceSum(swapped, [-1], keepdims=0), 2), to=ir.DataType.DOUBLE)
    turn = g.Sub(like(g, 1.0, odd), g.Mul(like(g, 2.0, odd), odd))
    sign = g.Mul(turn, g.ReduceProd(g.Sign(diagonal), [-1], keepdims=0))
    return sign, g.ReduceSum(g.Log(g.Abs(diagonal)), [-1], keepdims=0)


@aten("_linalg_slogdet")
def _linalg_slogdet(g, A):
    factors, pivots = lu(g, wide(g, A))
    sign, log = _sign_and_log(g, factors, pivots)
    return [narrow(g, sign, A), narrow(g, log, A), None, None]


@aten("linalg_slogdet", "slogdet")
def linalg_slogdet(g, A):
    return _linalg_slogdet(g, A)[:2]


@aten("logdet")
def logdet(g, x):
    sign, log = _sign_and_log(g, *lu(g, wide(g, x)))
    return narrow(g, g.Where(g.Less(sign, like(g, 0.0, sign)), like(g, math.nan, log), log), x)


@aten("_linalg_det")
def _linalg_det(g, A):
    factors, pivots = lu(g, wide(g, A))
    sign, log = _sign_and_log(g, factors, pivots)
    return [narrow(g, g.Mul(sign, g.Exp(log)), A), None, None]
