"""Counts of integers, segment reductions, and histograms."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.sizes import arange, size, vector
from ..common.values import as_value, cast, constant_like, highest, lowest
from ..rules import torch_op
from .shape import END


@torch_op("bincount")
def bincount(g, x, weights=None, minlength=0):
    """Return how often each integer from 0 on occurs in x, or the sum of its weights."""
    least = vector(g, minlength)
    dtype = torch.int64 if weights is None else torch.float32 if weights.dtype == ir.DataType.FLOAT else torch.float64
    if g.shape(x) == (0,) or list(g.shape(x)) == [0]:
        return g.Expand(as_value(g, 0, dtype), least)
    x = cast(g, x, torch.int64)
    count = g.Max(g.Add(g.ReduceMax(x), 1), least)
    share = g.Expand(as_value(g, 1, dtype), g.dims(x)) if weights is None else cast(g, weights, dtype)
    return g.ScatterElements(g.Expand(as_value(g, 0, dtype), count), x, share, axis=0, reduction="add")


_REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd"}


def reduce_segments(
    g: Graph,
    data: ir.Value,
    reduce: str,
    lengths: ir.Value | None,
    offsets: ir.Value | None,
    axis: int,
    initial: float | None,
) -> ir.Value:
    """Reduce segments of `axis`; their bounds are given for each position of the dims before it, [.., segments]."""
    neutral = {"sum": 0, "mean": 0, "max": lowest(g.dtype(data)), "min": highest(g.dtype(data)), "prod": 1}[reduce]
    if lengths is None:
        start, end = g.Slice(offsets, [0], [-1], [axis]), g.Slice(offsets, [1], [END], [axis])
    else:
        end = g.CumSum(lengths, axis)
        start = g.Sub(end, lengths)
    place = cast(g, arange(g, size(g, data, axis)), g.dtype(start))
    inside = [g.GreaterOrEqual(place, g.Unsqueeze(start, [axis + 1])), g.Less(place, g.Unsqueeze(end, [axis + 1]))]
    behind = [*range(axis + 2, g.rank(data) + 1)]
    member = g.Unsqueeze(g.And(*inside), behind) if behind else g.And(*inside)
    chosen = g.Where(member, g.Unsqueeze(data, [axis]), constant_like(g, neutral, data))
    out = g.node(_REDUCTIONS[reduce], [chosen, g.const([axis + 1])], {"keepdims": 0})
    if initial is not None:
        combine = {"max": g.Max, "min": g.Min, "prod": g.Mul}.get(reduce, g.Add)
        out = combine(out, constant_like(g, initial, out))
    if reduce != "mean":
        return out
    count = g.Cast(g.Sub(end, start), to=g.dtype(out))
    count = g.Unsqueeze(count, [a - 1 for a in behind]) if behind else count
    alone = g.And(g.Equal(count, constant_like(g, 0, out)), g.const(initial is not None))
    return g.Where(alone, out, g.Div(out, count))


# -- histograms -------------------------------------------------------------------------------------------------------


@torch_op("histogramdd", "histogramdd.int_bins")
def histogramdd(g, x, bins, range=None, weight=None, density=False):
    """Counts in equal boxes, over the range of each coordinate unless one is given."""
    from .search import bin_edges_of

    dims = g.shape(x)[-1]
    if not isinstance(dims, int):
        raise Unsupported("histogramdd of points of an unknown number of coordinates")
    numbers = [bins] * dims if isinstance(bins, int) else list(bins)
    edges = []
    for i, count in enumerate(numbers):
        limits = None if range is None else range[2 * i : 2 * i + 2]
        edges.append(bin_edges_of(g, g.Reshape(g.Gather(x, i, axis=-1), [-1]), count, limits))
    return [*_histogram_counts(g, x, edges, weight, density)]


@torch_op("histogramdd.TensorList_bins")
def histogramdd_between(g, x, bins, range=None, weight=None, density=False):
    return [*_histogram_counts(g, x, list(bins), weight, density)]


def _histogram_counts(
    g: Graph, x: ir.Value, edges: list[ir.Value], weight: ir.Value | None, density: bool
) -> tuple[ir.Value, list[ir.Value]]:
    """Return counts of the points [.., coordinates] between the edges; points outside go to an extra box."""
    from .search import bin_index_of

    numbers = [size(g, e, 0) for e in edges]
    if not all(isinstance(n, int) for n in numbers):
        raise Unsupported("a histogram with an unknown number of edges")
    shape = [n - 1 for n in numbers]
    if 0 in g.shape(x):
        return g.Expand(constant_like(g, float("nan") if density else 0, x), shape), edges
    place, valid = g.const(0), g.const(True)
    for i, (e, n) in enumerate(zip(edges, shape, strict=True)):
        flat = g.Reshape(g.Gather(x, i, axis=-1), [-1])
        found = bin_index_of(g, flat, e)
        inside = g.And(g.GreaterOrEqual(flat, g.Gather(e, 0, axis=0)), g.LessOrEqual(flat, g.Gather(e, n, axis=0)))
        valid = g.And(valid, g.And(inside, g.And(g.GreaterOrEqual(found, 0), g.Less(found, n))))
        place = g.Add(g.Mul(place, n), found)
    total = int(np.prod(shape))
    place = g.Where(valid, place, total)
    one = g.Expand(constant_like(g, 1, x), g.dims(place)) if weight is None else g.Reshape(weight, [-1])
    sums = g.ScatterElements(g.Expand(constant_like(g, 0, x), [total + 1]), place, one, axis=0, reduction="add")
    counts = g.Reshape(g.Slice(sums, [0], [total], [0]), shape)
    if density:
        counts = g.Div(counts, g.ReduceSum(counts, keepdims=0))
        for i, (e, n) in enumerate(zip(edges, shape, strict=True)):
            width = g.Sub(g.Slice(e, [1], [n + 1], [0]), g.Slice(e, [0], [n], [0]))
            behind = [1 + k for k, _ in enumerate(shape[i + 1 :])]
            counts = g.Div(counts, g.Unsqueeze(width, behind) if behind else width)
    return counts, edges
