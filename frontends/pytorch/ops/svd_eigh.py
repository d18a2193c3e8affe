"""Operators on singular values, eigenvalues of symmetric matrices, and what derives from them: Jacobi rotations in
float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.numerics.matrices import cast_to_float64, identity_matrix, matrix_shape, mirror_lower_triangle
from convert.numerics.spectral import complete_basis, singular_values, symmetric_eigen

from ..common.values import as_value, constant_like
from ..rules import torch_op
from .lu_cholesky import cast_like
from .shape import transpose


@torch_op("_linalg_svd")
def _linalg_svd(g, A, full_matrices=False, compute_uv=True, *, driver=None):
    u, values, v = singular_values(g, cast_to_float64(g, A))
    if not compute_uv:
        empty = g.const(np.zeros(0, g.dtype(cast_like(g, values, A)).numpy()))
        return [empty, cast_like(g, values, A), empty]
    u, v = (complete_basis(g, x, full_matrices) for x in (u, v))
    return [cast_like(g, u, A), cast_like(g, values, A), cast_like(g, transpose(g, v, -2, -1), A)]


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
    return cast_like(g, g.MatMul(g.Mul(v, g.Unsqueeze(inverse, [-2])), transpose(g, u, -2, -1)), x)


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
