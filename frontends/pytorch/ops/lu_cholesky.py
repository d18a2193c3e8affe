"""Factorisations of matrices in float64: LU with pivots, and Cholesky."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.factor import lower_root, lu, unpacked
from convert.numerics.matrices import swapped, wide

from ..common.sizes import size, vector
from ..common.values import cast, floating
from ..rules import torch_op

NO_PIVOTS = np.zeros(0, np.int32)


def narrow(g: Graph, x: ir.Value, like_: ir.Value) -> ir.Value:
    """x in the dtype of `like_`."""
    return cast(g, x, g.dtype(floating(g, like_)))


def zeros(g: Graph, x: ir.Value, dtype: torch.dtype) -> ir.Value:
    """One number for each matrix: what LAPACK reports as info where nothing is wrong."""
    lead = [size(g, x, d) for d in range(g.rank(x) - 2)]
    zero = cast(g, g.const(0), dtype)
    return g.Expand(zero, vector(g, lead)) if lead else zero


# -- LU ---------------------------------------------------------------------------------------------------------------


def pivots_of(g: Graph, pivots: list[ir.Value]) -> ir.Value:
    """As LAPACK writes them: int32, counted from 1."""
    return g.Cast(g.Add(g.Concat(*pivots, axis=-1), 1), to=ir.DataType.INT32) if pivots else g.const(NO_PIVOTS)


def pivots_from(g: Graph, pivots: ir.Value) -> list[ir.Value]:
    """The other way round."""
    count = g.shape(pivots)[-1]
    if not isinstance(count, int):
        raise Unsupported("pivots of an unknown number")
    moved = g.Sub(cast(g, pivots, torch.int64), 1)
    return [g.Gather(moved, np.array([k]), axis=-1) for k in range(count)]


@torch_op("linalg_lu_factor")
def linalg_lu_factor(g, x, *, pivot=True):
    return linalg_lu_factor_ex(g, x, pivot=pivot)[:2]


@torch_op("linalg_lu_factor_ex")
def linalg_lu_factor_ex(g, x, *, pivot=True, check_errors=False):
    _need_pivots(pivot)
    a, pivots = lu(g, wide(g, x))
    return [narrow(g, a, x), pivots_of(g, pivots), zeros(g, x, torch.int32)]


@torch_op("linalg_lu")
def linalg_lu(g, x, *, pivot=True):
    _need_pivots(pivot)
    a, pivots = lu(g, wide(g, x))
    return [narrow(g, v, x) for v in unpacked(g, a, pivots)]


@torch_op("lu_unpack")
def lu_unpack(g, x, pivots, unpack_data=True, unpack_pivots=True):
    return [narrow(g, v, x) for v in unpacked(g, wide(g, x), pivots_from(g, pivots))]


def _need_pivots(pivot: bool) -> None:
    if not pivot:
        raise Unsupported("LU without pivots, which PyTorch does not have on the CPU either")


# -- Cholesky ---------------------------------------------------------------------------------------------------------


@torch_op("linalg_cholesky_ex")
def linalg_cholesky_ex(g, x, *, upper=False, check_errors=False):
    root = narrow(g, lower_root(g, wide(g, x), upper), x)
    return [swapped(g, root) if upper else root, zeros(g, x, torch.int32)]


@torch_op("linalg_cholesky")
def linalg_cholesky(g, x, *, upper=False):
    return linalg_cholesky_ex(g, x, upper=upper)[0]


@torch_op("cholesky")
def cholesky(g, x, upper=False):
    return linalg_cholesky(g, x, upper=upper)
