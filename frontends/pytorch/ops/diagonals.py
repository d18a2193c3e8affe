"""Diagonals of matrices, and windows along a dim."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ..common.sizes import arange, axis_of, size
from ..common.values import as_value
from ..rules import torch_op
from .shape import flatten, movedim


@torch_op("diagonal", "diagonal_copy", "linalg_diagonal")
def diagonal(g, x, offset=0, dim1=0, dim2=1):
    """diagonal by flat indices i · columns + i + offset of the last two dims."""
    a, b = axis_of(g, x, dim1), axis_of(g, x, dim2)
    perm = [i for i in range(g.rank(x)) if i not in (a, b)] + [a, b]
    flat = flatten(g, g.Transpose(x, perm=perm), -2, -1)
    return g.Gather(flat, _diagonal_indices(g, size(g, x, a), size(g, x, b), offset), axis=g.rank(x) - 2)


def _diagonal_indices(g: Graph, rows: int | ir.Value, columns: int | ir.Value, offset: int) -> ir.Value:
    """Return the flat indices of a diagonal in a matrix."""
    below = max(-offset, 0)
    if isinstance(rows, int) and isinstance(columns, int):
        length = max(min(rows - below, columns - max(offset, 0)), 0)
        return g.const(max(offset, 0) + below * columns + np.arange(length, dtype=np.int64) * (columns + 1))
    rows, columns = (g.const(n) if isinstance(n, int) else n for n in (rows, columns))
    length = g.Max(g.Min(g.Sub(rows, below), g.Sub(columns, max(offset, 0))), 0)
    first = g.Add(g.Mul(columns, below), max(offset, 0))
    return g.Add(g.Mul(arange(g, length), g.Add(columns, 1)), first)


@torch_op("diag_embed")
def diag_embed(g, x, offset=0, dim1=-2, dim2=-1):
    rank = g.rank(x) + 1
    padded = _padded_diagonal(g, x, offset)
    column = arange(g, size(g, padded, -1))
    on = g.Equal(g.Sub(column, g.Unsqueeze(column, [1])), offset)
    row = g.Unsqueeze(padded, [rank - 2 if offset >= 0 else rank - 1])
    spread = g.Where(on, row, as_value(g, 0, g.dtype(x)))
    a, b = (d + rank if d < 0 else d for d in (dim1, dim2))
    rest = iter(range(rank - 2))
    return g.Transpose(spread, perm=[rank - 2 if i == a else rank - 1 if i == b else next(rest) for i in range(rank)])


def _padded_diagonal(g: Graph, x: ir.Value, offset: int) -> ir.Value:
    if offset == 0:
        return x
    rank = g.rank(x)
    pads = [0] * (rank - 1) + [abs(offset)] + [0] * rank
    return g.Pad(x, pads, as_value(g, 0, g.dtype(x)))


@torch_op("diag")
def diag(g, x, diagonal=0):
    return diag_embed(g, x, diagonal) if g.rank(x) == 1 else globals()["diagonal"](g, x, diagonal)


@torch_op("unfold", "unfold_copy")
def unfold(g, x, dimension, size, step):
    axis = axis_of(g, x, dimension)
    if g.rank(x) == 0:
        return g.Reshape(x, [1])
    length = g.shape(x)[axis]
    inside = np.arange(size, dtype=np.int64)
    if isinstance(length, int):
        windows = np.arange((length - size) // step + 1, dtype=np.int64)[:, None] * step + inside
    else:
        last = g.Squeeze(g.Shape(x, start=axis, end=axis + 1), [0])
        windows = g.Add(g.Unsqueeze(g.Range(0, g.Sub(last, size - 1), step), [1]), inside)
    return movedim(g, g.Gather(x, windows, axis=axis), axis + 1, -1)
