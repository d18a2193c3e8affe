"""Orthogonal matrix factors, by Householder reflections."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.matrices import cast_to_float64, column, identity_matrix, matrix_shape, transpose_matrix, triangle
from convert.numerics.reflections import apply_all_reflections, householder_reflections

from ..common.sizes import reshape, size
from ..common.values import constant_like
from ..rules import torch_op
from .lu_cholesky import cast_like


@torch_op("linalg_qr")
def linalg_qr(g, A, mode="reduced"):
    a = cast_to_float64(g, A)
    rows, columns = matrix_shape(g, a)
    r, vectors, factors = householder_reflections(g, a)
    width = rows if mode == "complete" else min(rows, columns)
    r = cast_like(g, triangle(g, g.Slice(r, [0], [width], [-2]), True), A)
    if mode == "r":
        return [g.const(np.zeros(0, g.dtype(r).numpy())), r]
    return [cast_like(g, apply_all_reflections(g, identity_matrix(g, a, rows, width), vectors, factors), A), r]


@torch_op("qr")
def qr(g, x, some=True):
    return linalg_qr(g, x, "reduced" if some else "complete")


@torch_op("geqrf")
def geqrf(g, x):
    r, vectors, factors = householder_reflections(g, cast_to_float64(g, x))
    if not vectors:
        return [x, g.ReduceSum(x, [-2], keepdims=0)]
    below = g.Trilu(g.Concat(*vectors, axis=-1), -1, upper=0)
    rows, columns = matrix_shape(g, x)
    if columns > rows:
        below = g.Pad(below, [0] * (2 * g.rank(x) - 1) + [columns - rows], constant_like(g, 0.0, below))
    tau = g.Squeeze(g.Concat(*factors, axis=-1), [-2])
    return [cast_like(g, g.Add(triangle(g, r, True), below), x), cast_like(g, tau, x)]


def _stored_reflections(g: Graph, x: ir.Value, tau: ir.Value) -> tuple[list[ir.Value], list[ir.Value]]:
    """Return the reflections that geqrf's results describe."""
    count = g.shape(tau)[-1]
    rows, _ = matrix_shape(g, x)
    if not isinstance(count, int):
        raise Unsupported("reflections of an unknown number")
    if count == 0:
        return [], []
    below = g.Slice(cast_to_float64(g, x), [0], [count], [-1])
    unit = g.Add(g.Trilu(below, -1, upper=0), np.eye(rows, count))
    factors = cast_to_float64(g, tau)
    lead = [size(g, tau, d) for d in range(g.rank(tau) - 1)]
    chosen = [g.Gather(factors, np.array([k]), axis=-1) for k in range(count)]
    return [column(g, unit, k) for k in range(count)], [reshape(g, f, [*lead, 1, 1]) for f in chosen]


@torch_op("linalg_householder_product", "orgqr")
def linalg_householder_product(g, x, tau):
    rows, columns = matrix_shape(g, x)
    vectors, factors = _stored_reflections(g, x, tau)
    return cast_like(g, apply_all_reflections(g, identity_matrix(g, x, rows, columns), vectors, factors), x)


@torch_op("ormqr")
def ormqr(g, x, tau, other, left=True, transpose=False):
    """Return the product Q·other, Qᵀ·other, other·Q or other·Qᵀ."""
    vectors, factors = _stored_reflections(g, x, tau)
    start = cast_to_float64(g, other) if left else transpose_matrix(g, cast_to_float64(g, other))
    if transpose == left:
        # Reflections are symmetric, so the transposed product applies the first one first.
        vectors, factors = vectors[::-1], factors[::-1]
    out = apply_all_reflections(g, start, vectors, factors)
    return cast_like(g, out if left else transpose_matrix(g, out), x)
