"""Factorisations of matrices in float64, unrolled over their columns: LU with pivots, Cholesky, QR by reflections."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import aten
from ..sizes import reshape, size, vector
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


# -- QR ---------------------------------------------------------------------------------------------------------------


def reflections(g: Graph, a: ir.Value) -> tuple[ir.Value, list[ir.Value], list[ir.Value]]:
    """R, and Householder's vectors [..., rows, 1] with their factors [..., 1, 1], as LAPACK's geqrf has them."""
    rows, columns = sides(g, a)
    numbers = np.arange(rows)[:, None]
    vectors, factors = [], []
    zero, one = like(g, 0.0, a), like(g, 1.0, a)
    for k in range(min(rows, columns)):
        here = column(g, a, k)
        head = row(g, here, k)
        below = g.Where(numbers > k, here, zero)
        rest = g.ReduceSum(g.Mul(below, below), [-2])
        flat = g.Equal(rest, zero)
        length = g.Sqrt(g.Add(g.Mul(head, head), rest))
        beta = g.Where(g.Less(head, zero), length, g.Neg(length))
        factor = g.Where(flat, zero, g.Div(g.Sub(beta, head), g.Where(flat, one, beta)))
        vector_ = g.Div(below, g.Where(flat, one, g.Sub(head, beta)))
        vector_ = g.Add(vector_, (numbers == k).astype(np.float64))
        a = reflected(g, a, vector_, factor)
        vectors.append(vector_)
        factors.append(factor)
    return a, vectors, factors


def reflected(g: Graph, a: ir.Value, v: ir.Value, factor: ir.Value) -> ir.Value:
    """(1 - factor v vᵀ) a."""
    return g.Sub(a, g.Mul(g.Mul(factor, v), g.MatMul(_swapped(g, v), a)))


def orthogonal(g: Graph, start: ir.Value, vectors: list[ir.Value], factors: list[ir.Value]) -> ir.Value:
    """All reflections applied to `start`, the last first."""
    for v, factor in zip(reversed(vectors), reversed(factors), strict=True):
        start = reflected(g, start, v, factor)
    return start


@aten("linalg_qr")
def linalg_qr(g, A, mode="reduced"):
    a = wide(g, A)
    rows, columns = sides(g, a)
    r, vectors, factors = reflections(g, a)
    width = rows if mode == "complete" else min(rows, columns)
    r = narrow(g, triangle(g, g.Slice(r, [0], [width], [-2]), True), A)
    if mode == "r":
        return [g.const(np.zeros(0, g.dtype(r).numpy())), r]
    return [narrow(g, orthogonal(g, identity(g, a, rows, width), vectors, factors), A), r]


@aten("qr")
def qr(g, x, some=True):
    return linalg_qr(g, x, "reduced" if some else "complete")


@aten("geqrf")
def geqrf(g, x):
    r, vectors, factors = reflections(g, wide(g, x))
    if not vectors:
        return [x, g.ReduceSum(x, [-2], keepdims=0)]
    below = g.Trilu(g.Concat(*vectors, axis=-1), -1, upper=0)
    rows, columns = sides(g, x)
    if columns > rows:
        below = g.Pad(below, [0] * (2 * g.rank(x) - 1) + [columns - rows], like(g, 0.0, below))
    tau = g.Squeeze(g.Concat(*factors, axis=-1), [-2])
    return [narrow(g, g.Add(triangle(g, r, True), below), x), narrow(g, tau, x)]


def _stored(g: Graph, x: ir.Value, tau: ir.Value) -> tuple[list[ir.Value], list[ir.Value]]:
    """The reflections that geqrf's results describe."""
    count = g.shape(tau)[-1]
    rows, _ = sides(g, x)
    if not isinstance(count, int):
        raise Unsupported("reflections of an unknown number")
    if count == 0:
        return [], []
    below = g.Slice(wide(g, x), [0], [count], [-1])
    unit = g.Add(g.Trilu(below, -1, upper=0), np.eye(rows, count))
    factors = wide(g, tau)
    lead = [size(g, tau, d) for d in range(g.rank(tau) - 1)]
    chosen = [g.Gather(factors, np.array([k]), axis=-1) for k in range(count)]
    return [column(g, unit, k) for k in range(count)], [reshape(g, f, [*lead, 1, 1]) for f in chosen]


@aten("linalg_householder_product", "orgqr")
def linalg_householder_product(g, x, tau):
    rows, columns = sides(g, x)
    vectors, factors = _stored(g, x, tau)
    return narrow(g, orthogonal(g, identity(g, x, rows, columns), vectors, factors), x)


@aten("ormqr")
def ormqr(g, x, tau, other, left=True, transpose=False):
    """Q other, Qᵀ other, other Q or other Qᵀ."""
    vectors, factors = _stored(g, x, tau)
    start = wide(g, other) if left else _swapped(g, wide(g, other))
    if transpose == left:
        # Reflections are symmetric: the transposed product applies the first one first.
        vectors, factors = vectors[::-1], factors[::-1]
    out = orthogonal(g, start, vectors, factors)
    return narrow(g, out if left else _swapped(g, out), x)
