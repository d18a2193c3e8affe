"""Orthogonal factors of matrices, by Householder's reflections."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.matrices import column, identity, sides, swapped, triangle, wide
from convert.numerics.reflections import orthogonal, reflections

from ..common.sizes import reshape, size
from ..common.values import like
from ..rules import torch_op
from .lu_cholesky import narrow


@torch_op("linalg_qr")
def linalg_qr(g, A, mode="reduced"):
    a = wide(g, A)
    rows, columns = sides(g, a)
    r, vectors, factors = reflections(g, a)
    width = rows if mode == "complete" else min(rows, columns)
    r = narrow(g, triangle(g, g.Slice(r, [0], [width], [-2]), True), A)
    if mode == "r":
        return [g.const(np.zeros(0, g.dtype(r).numpy())), r]
    return [narrow(g, orthogonal(g, identity(g, a, rows, width), vectors, factors), A), r]


@torch_op("qr")
def qr(g, x, some=True):
    return linalg_qr(g, x, "reduced" if some else "complete")


@torch_op("geqrf")
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


@torch_op("linalg_householder_product", "orgqr")
def linalg_householder_product(g, x, tau):
    rows, columns = sides(g, x)
    vectors, factors = _stored(g, x, tau)
    return narrow(g, orthogonal(g, identity(g, x, rows, columns), vectors, factors), x)


@torch_op("ormqr")
def ormqr(g, x, tau, other, left=True, transpose=False):
    """Q other, Qᵀ other, other Q or other Qᵀ."""
    vectors, factors = _stored(g, x, tau)
    start = wide(g, other) if left else swapped(g, wide(g, other))
    if transpose == left:
        # Reflections are symmetric: the transposed product applies the first one first.
        vectors, factors = vectors[::-1], factors[::-1]
    out = orthogonal(g, start, vectors, factors)
    return narrow(g, out if left else swapped(g, out), x)
