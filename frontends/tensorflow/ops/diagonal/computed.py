"""Diagonals with run-time numbers, or of matrices with run-time sizes: indices are computed instead of tabulated.

Element (i, j) of a matrix is on diagonal j - i, at index min(i, j). In a tensor with the diagonals from `high` down to
`low`, [.., high - low + 1, longest], shorter ones are aligned at one end (matrix_diag_op.cc).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ...common.lazy_reshape import int64

_ZERO, _ONE = np.int64(0), np.int64(1)


@dataclass(frozen=True)
class Band:
    """The diagonals from `high` down to `low`, int64 scalars, of matrices of `rows` by `columns`."""

    low: ir.Value
    high: ir.Value
    rows: ir.Value
    columns: ir.Value
    align: str

    def longest(self, g: Graph) -> ir.Value:
        """Return the length of the longest diagonal."""
        return g.Min(g.Add(self.rows, g.Min(self.high, _ZERO)), g.Sub(self.columns, g.Max(self.low, _ZERO)))

    def start(self, g: Graph, k: ir.Value) -> ir.Value:
        """Return the index at which the `k`th diagonal begins in its row."""
        above, below = self.align.startswith("RIGHT"), self.align.endswith("RIGHT")
        lacking = g.Sub(self.longest(g), self.lengths(g, k))
        if above and below:
            return lacking
        is_right = g.GreaterOrEqual(k, _ZERO) if above else g.Less(k, _ZERO)
        return g.Where(is_right, lacking, _ZERO) if above or below else g.const(_ZERO)

    def lengths(self, g: Graph, k: ir.Value) -> ir.Value:
        """Return the length of the `k`th diagonal."""
        return g.Min(g.Add(self.rows, g.Min(k, _ZERO)), g.Sub(self.columns, g.Max(k, _ZERO)))


def offsets(g: Graph, k: ir.Value) -> tuple[ir.Value, ir.Value, bool]:
    """Return the lowest and the highest diagonal as scalars, and whether `k` can select only one."""
    dims = g.shape(k)
    wide = g.Reshape(int64(g, k), [-1])
    low, high = (g.Gather(wide, np.int64(i)) for i in (0, -1))
    return low, high, not dims or dims[0] == 1


def size_of(g: Graph, x: ir.Value, axis: int) -> ir.Value:
    """Return a dim as an int64 scalar."""
    axis %= g.rank(x)
    return g.Squeeze(g.Shape(x, start=axis, end=axis + 1), [0])


def extract_band(g: Graph, x: ir.Value, k: ir.Value, padding: ir.Value, align: str) -> ir.Value:
    """Return the diagonals of the matrices in `x`, [.., diagonals, longest]; a single one has no dim for diagonals."""
    low, high, alone = offsets(g, k)
    band = Band(low, high, size_of(g, x, -2), size_of(g, x, -1), align)
    numbers = g.Unsqueeze(g.Range(high, g.Sub(low, _ONE), -1), [1])
    places = g.Sub(g.Range(0, band.longest(g), 1), band.start(g, numbers))
    there = g.And(g.GreaterOrEqual(places, _ZERO), g.Less(places, band.lengths(g, numbers)))
    row, column = g.Sub(places, g.Min(numbers, _ZERO)), g.Add(places, g.Max(numbers, _ZERO))
    flat = g.Where(there, g.Add(g.Mul(row, band.columns), column), _ZERO)
    outer = g.shape(x)[:-2]
    whole = g.Reshape(x, g.Concat(g.Shape(x, start=0, end=len(outer)), [-1], axis=0))
    y = g.Where(there, g.Gather(whole, flat, axis=-1), padding)
    if alone:
        return g.facts(g.Squeeze(y, [-2]), g.dtype(x), [*outer, None])
    y = g.facts(y, g.dtype(x), [*outer, None, None])
    if g.static(k) is not None:
        return y
    # If both numbers are equal, TensorFlow's result has one dim less.
    several = g.Reshape(g.Not(g.Equal(low, high)), [1])
    kept = g.Concat(*([np.ones(len(outer), bool)] if outer else []), several, np.ones(1, bool), axis=0)
    return g.Reshape(y, g.Compress(g.Shape(y), kept, axis=0))


def band_matrix(
    g: Graph, x: ir.Value, k: ir.Value, sizes: Sequence[ir.Value], padding: ir.Value, align: str
) -> ir.Value:
    """Return matrices with the diagonals in `x` and `padding` elsewhere; a size of -1 means the least that holds
    them.
    """
    low, high, alone = offsets(g, k)
    length = size_of(g, x, -1)
    least = [g.Sub(length, g.Min(high, _ZERO)), g.Add(length, g.Max(low, _ZERO))]
    given = [g.Reshape(int64(g, size), np.zeros(0, np.int64)) for size in sizes]
    open_ended = [g.Less(size, _ZERO) for size in given]
    square, most = g.And(*open_ended), g.Max(*least)
    rows, columns = (
        g.Where(square, most, g.Where(none, own, size))
        for none, own, size in zip(open_ended, least, given, strict=True)
    )
    band = Band(low, high, rows, columns, align)
    if not alone and g.static(k) is None:
        return _matrix_of_open_rank(g, x, band, padding)
    inside, values = _spread(g, x, band, alone)
    outer = g.shape(x)[: -1 if alone else -2]
    return g.facts(g.Where(inside, values, padding), g.dtype(x), [*outer, None, None])


def set_band(g: Graph, x: ir.Value, diagonal: ir.Value, k: ir.Value, align: str) -> ir.Value:
    """Return `x` with those diagonals replaced."""
    low, high, _ = offsets(g, k)
    band = Band(low, high, size_of(g, x, -2), size_of(g, x, -1), align)
    inside, values = _spread(g, diagonal, band, g.rank(diagonal) < g.rank(x))
    return g.facts(g.Where(inside, values, x), g.dtype(x), g.shape(x))


def _spread(g: Graph, diagonal: ir.Value, band: Band, alone: bool) -> tuple[ir.Value, ir.Value]:
    """Return where the band is, [rows, columns], and its elements there, with arbitrary values around them."""
    i, j = g.Unsqueeze(g.Range(0, band.rows, 1), [1]), g.Range(0, band.columns, 1)
    k = g.Sub(j, i)
    inside = g.And(g.GreaterOrEqual(k, band.low), g.LessOrEqual(k, band.high))
    # A single diagonal is used whole, for any alignment.
    place = g.Min(i, j) if alone else g.Add(g.Min(i, j), band.start(g, k))
    flat = place if alone else g.Add(g.Mul(g.Sub(band.high, k), size_of(g, diagonal, -1)), place)
    outer = g.rank(diagonal) - (1 if alone else 2)
    whole = diagonal if alone else g.Reshape(diagonal, g.Concat(g.Shape(diagonal, start=0, end=outer), [-1], axis=0))
    return inside, g.Gather(whole, g.Where(inside, flat, _ZERO), axis=-1)


def _matrix_of_open_rank(g: Graph, x: ir.Value, band: Band, padding: ir.Value) -> ir.Value:
    """Return matrices with diagonals at run-time offsets; if first and last offset are equal, `x` has no dim for
    diagonals.
    """
    rank = g.rank(x)
    count = g.Where(g.Equal(band.low, band.high), np.array([rank - 1], np.int64), np.array([rank - 2], np.int64))
    outer = g.Slice(g.Shape(x), np.zeros(1, np.int64), count, np.zeros(1, np.int64))
    diagonals = g.Add(g.Sub(band.high, band.low), _ONE)
    sizes = [g.ReduceProd(outer, [0], keepdims=1), *(g.Reshape(n, [1]) for n in (diagonals, size_of(g, x, -1)))]
    flat = g.facts(g.Reshape(x, g.Concat(*sizes, axis=0)), g.dtype(x), [None, None, None])
    inside, values = _spread(g, flat, band, False)
    found = g.Where(inside, values, padding)
    return g.Reshape(found, g.Concat(outer, *(g.Reshape(n, [1]) for n in (band.rows, band.columns)), axis=0))
