"""Shared by the solvers: sizes, rows, columns and triangles of matrices, and the identity matrix."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

LARGEST = 64
"""Matrices with more columns are rejected: each column needs twenty (LU) to ninety (LDL) nodes in the graph."""


def matrix_shape(g: Graph, x: ir.Value) -> tuple[int, int]:
    """Return the numbers of rows and columns. Raises `Unsupported` if they are unknown or too large."""
    rows, columns = g.shape(x)[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise Unsupported("a factorization of a matrix of unknown size")
    if min(rows, columns) > LARGEST:
        raise Unsupported(f"a factorization of a matrix of {rows} x {columns}; {LARGEST} is the most that is unrolled")
    return rows, columns


def cast_to_float64(g: Graph, x: ir.Value) -> ir.Value:
    """Return x in float64."""
    return x if x.dtype == ir.DataType.DOUBLE else g.Cast(x, to=ir.DataType.DOUBLE)


def column(g: Graph, x: ir.Value, k: int) -> ir.Value:
    """Return column k: [..., rows, 1]."""
    return g.Gather(x, np.array([k]), axis=-1)


def row(g: Graph, x: ir.Value, k: int) -> ir.Value:
    """Return row k: [..., 1, columns]."""
    return g.Gather(x, np.array([k]), axis=-2)


def transpose_matrix(g: Graph, x: ir.Value) -> ir.Value:
    """Return each matrix transposed."""
    rank = g.rank(x)
    return g.Transpose(x, perm=[*range(rank - 2), rank - 1, rank - 2])


def batch_shape(g: Graph, x: ir.Value, *tail: int) -> ir.Value:
    """Return the batch dims of x, followed by `tail`, as a shape."""
    lead = g.shape(x)[:-2]
    if all(isinstance(d, int) for d in lead):
        return g.const(np.array([*lead, *tail], dtype=np.int64))
    return g.Concat(g.Shape(x, start=0, end=len(lead)), np.array(tail, dtype=np.int64), axis=0)


def identity_matrix(g: Graph, x: ir.Value, n: int, columns: int | None = None) -> ir.Value:
    """Return a float64 identity matrix, or its first columns, for each matrix in the batch of x."""
    eye = np.eye(n, n if columns is None else columns)
    lead = g.shape(x)[:-2]
    return g.facts(g.Expand(eye, batch_shape(g, x, *eye.shape)), shape=[*lead, *eye.shape]) if lead else g.const(eye)


def triangle(g: Graph, x: ir.Value, upper: bool, unit: bool = False) -> ir.Value:
    """Return the upper or lower triangle of x, with a unit diagonal if `unit`."""
    if not unit:
        return g.Trilu(x, 0, upper=int(upper))
    return g.Add(g.Trilu(x, 1 if upper else -1, upper=int(upper)), np.eye(*matrix_shape(g, x)))


def mirror_lower_triangle(g: Graph, x: ir.Value) -> ir.Value:
    """Return the symmetric matrix with the lower triangle of x."""
    return g.Add(g.Trilu(x, 0, upper=0), transpose_matrix(g, g.Trilu(x, -1, upper=0)))
