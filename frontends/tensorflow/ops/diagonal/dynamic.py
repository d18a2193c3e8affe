"""Single diagonals of matrices of dynamic size: positions are compared, because they cannot be tabulated."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ...common.lazy_reshape import int64


def has_dynamic_dims(g: Graph, x: ir.Value, count: int) -> bool:
    """Return whether one of the last `count` dims of `x` is dynamic."""
    return not all(isinstance(d, int) for d in g.shape(x)[-count:])


def extract_diagonal(g: Graph, x: ir.Value, k: int) -> ir.Value:
    """Return the `k`th diagonal of the matrices in `x`."""
    rows, columns = _dim_size(g, x, -2), _dim_size(g, x, -1)
    length = g.Min(g.Add(rows, np.int64(min(k, 0))), g.Sub(columns, np.int64(max(k, 0))))
    steps = g.Range(0, length, 1)
    places = g.Add(g.Mul(g.Add(steps, np.int64(max(-k, 0))), columns), g.Add(steps, np.int64(max(k, 0))))
    outer = g.shape(x)[:-2]
    flat = g.Reshape(x, np.array([*[0] * len(outer), -1], np.int64))
    height, width = g.shape(x)[-2:]
    return g.facts(g.Gather(flat, places, axis=-1), shape=[*outer, height if k == 0 and height == width else None])


def diagonal_matrix(
    g: Graph, x: ir.Value, k: int, rows: ir.Value | None, columns: ir.Value | None, padding: ir.Value
) -> ir.Value:
    """Return matrices with `x` as their `k`th diagonal and `padding` elsewhere; None is the least size that holds
    it.
    """
    length = _dim_size(g, x, -1)
    least = [g.Add(length, np.int64(max(-k, 0))), g.Add(length, np.int64(max(k, 0)))]
    if rows is None and columns is None:
        least = [g.Add(length, np.int64(abs(k)))] * 2
    sizes = [
        low if size is None else g.Squeeze(int64(g, size)) for size, low in zip((rows, columns), least, strict=True)
    ]
    on, values = _spread_diagonal(g, x, k, *sizes)
    square = rows is None and columns is None and k == 0
    size = g.shape(x)[-1] if square else None
    return g.facts(g.Where(on, values, padding), shape=[*g.shape(x)[:-1], size, size])


def set_diagonal(g: Graph, x: ir.Value, diagonal: ir.Value, k: int) -> ir.Value:
    """Return `x` with its `k`th diagonal replaced."""
    on, values = _spread_diagonal(g, diagonal, k, _dim_size(g, x, -2), _dim_size(g, x, -1))
    return g.facts(g.Where(on, values, x), shape=g.shape(x))


def _spread_diagonal(
    g: Graph, diagonal: ir.Value, k: int, rows: ir.Value, columns: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return where the `k`th diagonal is, [rows, columns], and its elements there, with arbitrary values around
    them.
    """
    i, j = g.Unsqueeze(g.Range(0, rows, 1), [1]), g.Range(0, columns, 1)
    last = g.Max(g.Sub(_dim_size(g, diagonal, -1), np.int64(1)), np.int64(0))
    places = g.Min(g.Min(i, j), last)
    return g.Equal(g.Sub(j, i), np.int64(k)), g.Gather(diagonal, places, axis=-1)


def _dim_size(g: Graph, x: ir.Value, axis: int) -> ir.Value:
    axis += g.rank(x)
    return g.Squeeze(g.Shape(x, start=axis, end=axis + 1), [0])
