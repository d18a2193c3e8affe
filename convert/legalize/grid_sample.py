"""GridSample written out: gathers the neighbouring elements of each point."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph


def grid_sample(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """GridSample: [N, C, spatial…] at the points [N, out…, axes], which list the last axis first."""
    x, grid = node.inputs
    assert x is not None
    assert grid is not None
    rank = g.rank(x) - 2
    mode = node.attributes.get_string("mode", "linear").removeprefix("bi")
    edge = node.attributes.get_string("padding_mode", "zeros")
    corners = bool(node.attributes.get_int("align_corners", 0))
    if mode not in ("linear", "nearest", "cubic"):
        raise Unsupported(f"mode={mode!r}")
    dtype = g.dtype(x)
    kind = ir.DataType.DOUBLE if dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT
    points = g.Cast(grid, to=kind)
    dims = g.dims(x)
    lengths = [g.Gather(dims, np.int64(2 + i), axis=0) for i in range(rank)]
    sizes = [g.Cast(n, to=kind) for n in lengths]
    where = []
    for i in range(rank):
        p = g.Gather(points, np.int64(rank - 1 - i), axis=-1)
        where.append(_unnormalized(g, p, sizes[i], corners))
    if edge != "zeros" and mode != "cubic":
        where = [_moved_inside(g, w, n, edge, corners) for w, n in zip(where, sizes, strict=True)]
    flat = g.Reshape(x, np.array([0, 0, -1]))
    total: ir.Value | None = None
    for terms in itertools.product(*(_terms(g, w, mode) for w in where)):
        weight, index, inside = None, None, None
        for (place, share), n, length in zip(terms, sizes, lengths, strict=True):
            if mode == "cubic" and edge != "zeros":
                place = _moved_inside(g, place, n, edge, corners)
            ok = g.And(g.Not(g.Less(place, g.const(0.0, kind))), g.Less(place, n))
            inside = ok if inside is None else g.And(inside, ok)
            near = g.Max(g.Min(place, g.Sub(n, g.const(1.0, kind))), g.const(0.0, kind))
            number = g.Cast(near, to=ir.DataType.INT64)
            index = number if index is None else g.Add(g.Mul(index, length), number)
            weight = share if weight is None or share is None else g.Mul(weight, share)
        assert index is not None
        picked = _picked(g, x, flat, index)
        picked = picked if dtype == kind else g.Cast(picked, to=kind)
        picked = g.Where(g.Unsqueeze(inside, [1]), picked, g.const(0.0, kind))
        part = picked if weight is None else g.Mul(picked, g.Unsqueeze(weight, [1]))
        total = part if total is None else g.Add(total, part)
    assert total is not None
    return [total if dtype == kind else g.Cast(total, to=dtype)]


def _unnormalized(g: Graph, p: ir.Value, n: ir.Value, corners: bool) -> ir.Value:
    """Return the positions of points in [-1, 1] among `n` elements.

    With `corners`, -1 and 1 are the centres of the outermost elements, otherwise their outer edges.
    """
    kind = g.dtype(p)
    one, two = g.const(1.0, kind), g.const(2.0, kind)
    if corners:
        return g.Mul(g.Div(g.Add(p, one), two), g.Sub(n, one))
    return g.Div(g.Sub(g.Mul(g.Add(p, one), n), one), two)


def _moved_inside(g: Graph, w: ir.Value, n: ir.Value, edge: str, corners: bool) -> ir.Value:
    """Return positions beyond an edge moved to the edge, or reflected as often as needed."""
    kind = g.dtype(w)
    zero, one, two = (g.const(v, kind) for v in (0.0, 1.0, 2.0))
    last = g.Sub(n, one)
    if edge == "reflection":
        low = zero if corners else g.const(-0.5, kind)
        span = last if corners else n
        far = g.Abs(g.Sub(w, low))
        # With one element and aligned corners the span is zero; every position is that element.
        period = g.Max(g.Mul(span, two), g.const(np.finfo(np.float32).tiny, kind))
        rest = g.Sub(far, g.Mul(g.Floor(g.Div(far, period)), period))
        w = g.Add(g.Min(rest, g.Sub(period, rest)), low)
    return g.Max(g.Min(w, last), zero)


def _terms(g: Graph, w: ir.Value, mode: str) -> list[tuple[ir.Value, ir.Value | None]]:
    """Return the neighbours along one axis with their weights; None means a weight of 1."""
    kind = g.dtype(w)
    one = g.const(1.0, kind)
    if mode == "nearest":
        return [(g.Round(w), None)]
    low = g.Floor(w)
    t = g.Sub(w, low)
    if mode == "linear":
        return [(low, g.Sub(one, t)), (g.Add(low, one), t)]

    def near(d: ir.Value) -> ir.Value:
        """Return the cubic weight of a neighbour at distance d up to 1: (a + 2) d³ - (a + 3) d² + 1 with a = -0.75."""
        inner = g.Sub(g.Mul(d, g.const(1.25, kind)), g.const(2.25, kind))
        return g.Add(g.Mul(g.Mul(inner, d), d), one)

    def far(d: ir.Value) -> ir.Value:
        """Return the cubic weight of a neighbour at distance d from 1 to 2: a d³ - 5 a d² + 8 a d - 4 a with a =
        -0.75.
        """
        inner = g.Add(g.Mul(d, g.const(-0.75, kind)), g.const(3.75, kind))
        inner = g.Sub(g.Mul(inner, d), g.const(6.0, kind))
        return g.Add(g.Mul(inner, d), g.const(3.0, kind))

    rest = g.Sub(one, t)
    shares = (far(g.Add(t, one)), near(t), near(rest), far(g.Add(rest, one)))
    return [(g.Add(low, g.const(float(k), kind)), s) for k, s in zip((-1, 0, 1, 2), shares, strict=True)]


def _picked(g: Graph, x: ir.Value, flat: ir.Value, index: ir.Value) -> ir.Value:
    """Return [N, C, out…] gathered from [N, C, all] by [N, out…]."""
    row = g.Reshape(index, np.array([0, 1, -1]))
    shape = g.Concat(g.Slice(g.dims(flat), [0], [2], [0]), np.array([1]), axis=0)
    wide = g.Expand(row, shape)
    found = g.GatherElements(flat, wide, axis=2)
    dims = g.Concat(g.Slice(g.dims(x), [0], [2], [0]), g.Slice(g.dims(index), [1], [99], [0]), axis=0)
    return g.Reshape(found, dims)
