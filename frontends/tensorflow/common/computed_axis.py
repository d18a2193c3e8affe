"""Operators along an axis that is known at run time only: the tensor is viewed as [outer, size, inner] around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from . import shape_values
from .lazy_reshape import int64

MIDDLE = 1
"""The axis of a view along which its operator works."""


@dataclass(frozen=True)
class AxisView:
    """`whole` is [outer, size, inner]; `before` and `behind` are vectors of the dims on either side of the axis."""

    whole: ir.Value
    before: ir.Value
    behind: ir.Value


def view_around(g: Graph, x: ir.Value, axis: ir.Value) -> AxisView:
    """Return a view of `x`, of known rank, around `axis`, an integer or a vector of one."""
    rank, dims = g.rank(x), g.Shape(x)
    place = place_of(g, axis, rank)
    after = g.Add(place, [1])
    before, size = g.Slice(dims, [0], place), g.Slice(dims, place, after)
    behind = g.Slice(dims, after, [rank])
    # Some runtimes do not define the product of no dims.
    outer, inner = (g.ReduceProd(g.Concat([1], part, axis=0), [0], keepdims=1) for part in (before, behind))
    whole = g.Reshape(x, g.Concat(outer, size, inner, axis=0), allowzero=1)
    return AxisView(g.facts(whole, g.dtype(x), [None] * 3), before, behind)


def place_of(g: Graph, axis: ir.Value, rank: int) -> ir.Value:
    """Return an axis as a non-negative vector of one element."""
    place = int64(g, g.Reshape(axis, [1]))
    return g.Where(g.Less(place, [0]), g.Add(place, [rank]), place)


def restore(g: Graph, view: AxisView, y: ir.Value, middle: ir.Value | None, rank: int) -> ir.Value:
    """Return `y` with the outer dims of `view` around the dims in the vector `middle`; None means no dims
    between them.
    """
    parts = [view.before, view.behind] if middle is None else [view.before, middle, view.behind]
    return g.facts(g.Reshape(y, g.Concat(*parts, axis=0), allowzero=1), g.dtype(y), [None] * rank)


def along_axis(g: Graph, x: ir.Value, axis: ir.Value, build: Callable[[ir.Value, int], ir.Value]) -> ir.Value:
    """Return `build(x, axis)` if the axis is known, else the result on the view; it has the rank of `x`."""
    if shape_values.is_known(axis):
        return build(x, shape_values.integer(axis, "axis"))
    view = view_around(g, x, axis)
    y = build(view.whole, MIDDLE)
    return restore(g, view, y, g.Shape(y, start=MIDDLE, end=MIDDLE + 1), g.rank(x))


def permuted(g: Graph, x: ir.Value, perm: ir.Value) -> ir.Value:
    """Return `x` with its axes permuted by a run-time permutation, as a gather by memory positions."""
    rank, dims = g.rank(x), g.Shape(x)
    if rank < 2:
        return x
    ends = [g.ReduceProd(g.Concat([1], g.Slice(dims, [i + 1], [rank]), axis=0), [0], keepdims=1) for i in range(rank)]
    order = int64(g, perm)
    sizes, steps = g.Gather(dims, order), g.Gather(g.Concat(*ends, axis=0), order)
    places: ir.Value | None = None
    for i in range(rank):
        size, step = (g.Gather(part, g.const(np.array(i, np.int64))) for part in (sizes, steps))
        own = g.Mul(g.Range(0, size, 1), step)
        own = g.Unsqueeze(own, np.arange(1, rank - i, dtype=np.int64)) if i < rank - 1 else own
        places = own if places is None else g.Add(places, own)
    return g.facts(g.Gather(g.Reshape(x, [-1]), places, axis=0), g.dtype(x), [None] * rank)
