"""Matrix factorizations in float64: LU with pivots, and Cholesky."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.factor import cholesky_factor, lu, unpack_lu
from convert.numerics.matrices import cast_to_float64, matrix_shape, transpose_matrix

from ..common.sizes import size, vector
from ..common.values import cast, cast_to_floating, constant_like
from ..rules import torch_op

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
