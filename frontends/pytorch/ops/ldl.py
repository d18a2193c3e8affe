"""Indefinite symmetric matrices: Bunch and Kaufman's factorization in float64, and systems solved with it.

Hermitian means symmetric here, because all numbers are real.
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from convert.numerics.bunch_kaufman import ldl, solve_by_ldl
from convert.numerics.matrices import cast_to_float64, matrix_shape

from ..common.values import cast
from ..rules import torch_op
from .lu_cholesky import cast_like, number_of_first, zeros_per_matrix


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
