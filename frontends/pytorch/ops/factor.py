"""Factorisations of matrices in float64, unrolled over their columns: LU with pivots, and Cholesky."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import aten
from ..sizes import size, vector
from ..values import cast, floating, like

LARGEST = 64
"""Matrices of more columns are refused: the graph would get some twenty nodes for each."""


NO_PIVOTS = np.zeros(0, np.int32)


def sides(g: Graph, x: ir.Value) -> tuple[int, int]:
    """Rows and columns. Raises `Unsupported` where they are not known or too many."""
    rows, columns = g.shape(x)[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise Unsupported("a factorisation of a matrix of unknown size")
    if min(rows, columns) > LARGEST:
        raise Unsupported(f"a factorisation of a matrix of {rows} x {columns}; {LARGEST} is the most that is unrolled")
    return rows, columns


def wide(g: Graph, x: ir.Value) -> ir.Value:
    """x in float64."""
    return cast(g, x, ir.DataType.DOUBLE)


def narrow(g: Graph, x: ir.Value, like_: ir.Value) -> ir.Value:
    """x in the dtype of `like_`."""
    return cast(g, x, g.dtype(floating(g, like_)))


def column(g: Graph, x: ir.Value, k: int) -> ir.Value:
    """[..., rows, 1]."""
    return g.Gather(x, np.array([k]), axis=-1)


def row(g: Graph, x: ir.Value, k: int) -> ir.Value:
    """[..., 1, columns]."""
    return g.Gather(x, np.array([k]), axis=-2)


def identity(g: Graph, x: ir.Value, n: int, columns: int | None = None) -> ir.Value:
    """An identity (or the first of its columns) in each matrix of the batch of x, float64."""
    eye = np.eye(n, n if columns is None else columns)
    lead = [size(g, x, d) for d in range(g.rank(x) - 2)]
    return g.Expand(eye, vector(g, [*lead, *eye.shape])) if lead else g.const(eye)


def zeros(g: Graph, x: ir.Value, dtype: torch.dtype) -> ir.Value:
    """One number for each matrix: what LAPACK reports as info where nothing is wrong."""
    lead = [size(g, x, d) for d in range(g.rank(x) - 2)]
    zero = cast(g, g.const(0), dtype)
    return g.Expand(zero, vector(g, lead)) if lead else zero


def triangle(g: Graph, x: ir.Value, upper: bool, unit: bool = False) -> ir.Value:
    """The triangle of x, with ones in the diagonal if `unit`."""
    if not unit:
        return g.Trilu(x, 0, upper=int(upper))
    rows, columns = g.shape(x)[-2:]
    return g.Add(g.Trilu(x, 1 if upper else -1, upper=int(upper)), np.eye(rows, columns))


# -- LU ---------------------------------------------------------------------------------------------------------------


def lu(g: Graph, a: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
    """L (below the diagonal, which is of ones) and U in one matrix, and the row swapped with each: [..., 1]."""
    rows, columns = sides(g, a)
    numbers = np.arange(rows)[:, None]
    pivots = []
    for k in range(min(rows, columns)):
        below = g.Where(numbers >= k, g.Abs(column(g, a, k)), like(g, -1.0, a))
        pivot = g.ArgMax(below, axis=-2)
        pivots.append(g.Squeeze(pivot, [-1]))
        order = g.Where(numbers == k, pivot, g.Where(g.Equal(g.const(numbers), pivot), g.const(k), g.const(numbers)))
        a = g.GatherElements(a, g.Expand(order, g.dims(a)), axis=-2)
        first, here = row(g, a, k), column(g, a, k)
        head = column(g, first, k)
        quotient = g.Div(here, g.Where(g.Equal(head, like(g, 0.0, a)), like(g, 1.0, a), head))
        factors = g.Where(numbers > k, quotient, like(g, 0.0, a))
        beyond = (np.arange(columns) > k)[None]
        a = g.Sub(a, g.Mul(factors, g.Where(beyond, first, like(g, 0.0, a))))
        a = g.Where((numbers > k) & (np.arange(columns) == k)[None], factors, a)
    return a, pivots


def permuted(g: Graph, b: ir.Value, pivots: list[ir.Value], back: bool = False) -> ir.Value:
    """The rows of b after the swaps, or before them."""
    numbers = np.arange(int(g.shape(b)[-2]))[:, None]
    steps = list(enumerate(pivots))
    for k, place in reversed(steps) if back else steps:
        pivot = g.Unsqueeze(place, [-1])
        order = g.Where(numbers == k, pivot, g.Where(g.Equal(g.const(numbers), pivot), g.const(k), g.const(numbers)))
        b = g.GatherElements(b, g.Expand(order, g.dims(b)), axis=-2)
    return b


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


@aten("linalg_lu_factor")
def linalg_lu_factor(g, x, *, pivot=True):
    return linalg_lu_factor_ex(g, x, pivot=pivot)[:2]


@aten("linalg_lu_factor_ex")
def linalg_lu_factor_ex(g, x, *, pivot=True, check_errors=False):
    _need_pivots(pivot)
    a, pivots = lu(g, wide(g, x))
    return [narrow(g, a, x), pivots_of(g, pivots), zeros(g, x, torch.int32)]


@aten("linalg_lu")
def linalg_lu(g, x, *, pivot=True):
    _need_pivots(pivot)
    a, pivots = lu(g, wide(g, x))
    return [narrow(g, v, x) for v in _unpacked(g, a, pivots)]


@aten("lu_unpack")
def lu_unpack(g, x, pivots, unpack_data=True, unpack_pivots=True):
    return [narrow(g, v, x) for v in _unpacked(g, wide(g, x), pivots_from(g, pivots))]


def _need_pivots(pivot: bool) -> None:
    if not pivot:
        raise Unsupported("LU without pivots, which PyTorch does not have on the CPU either")


def _unpacked(g: Graph, a: ir.Value, pivots: list[ir.Value]) -> list[ir.Value]:
    rows, columns = sides(g, a)
    least = min(rows, columns)
    left = g.Slice(a, [0], [least], [-1])
    permutation = permuted(g, identity(g, a, rows), pivots, back=True)
    return [permutation, triangle(g, left, False, unit=True), triangle(g, g.Slice(a, [0], [least], [-2]), True)]


# -- Cholesky ---------------------------------------------------------------------------------------------------------


def lower_root(g: Graph, a: ir.Value, upper: bool = False) -> ir.Value:
    """The lower triangular L with L Lᵀ = a, of which one triangle is read."""
    n, _ = sides(g, a)
    if upper:
        a = _swapped(g, a)
    numbers = np.arange(n)[:, None]
    done = []
    for k in range(n):
        here = column(g, a, k)
        root = g.Sqrt(row(g, here, k))
        current = g.Where(numbers >= k, g.Div(here, root), like(g, 0.0, a))
        done.append(current)
        a = g.Sub(a, g.Mul(current, _swapped(g, current)))
    return g.Concat(*done, axis=-1) if done else a


def _swapped(g: Graph, x: ir.Value) -> ir.Value:
    rank = g.rank(x)
    return g.Transpose(x, perm=[*range(rank - 2), rank - 1, rank - 2])


@aten("linalg_cholesky_ex")
def linalg_cholesky_ex(g, x, *, upper=False, check_errors=False):
    root = narrow(g, lower_root(g, wide(g, x), upper), x)
    return [_swapped(g, root) if upper else root, zeros(g, x, torch.int32)]


@aten("linalg_cholesky")
def linalg_cholesky(g, x, *, upper=False):
    return linalg_cholesky_ex(g, x, upper=upper)[0]


@aten("cholesky")
def cholesky(g, x, upper=False):
    return linalg_cholesky(g, x, upper=upper)
