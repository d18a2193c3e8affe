"""Searching values among others (bucketize, searchsorted, isin); counts of integers, segment reductions, histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.sizes import arange, size, vector
from ..common.values import as_value, cast, constant_like, highest, lowest, promote_operands, torch_dtype
from ..rules import torch_op
from .create import linspace
from .shape import END, flatten

# -- searches ---------------------------------------------------------------------------------------------------------


def _count_below(g: Graph, values: ir.Value, edges: ir.Value, right: bool, out_int32: bool) -> ir.Value:
    """Return how many of the sorted `edges` (last dim) come before each value (whose last dim is 1); all of them for
    NaN.
    """
    if not _is_sorted(g.static(edges)):
        count = _halved(g, values, edges, right)
        return cast(g, count, torch.int32) if out_int32 else count
    below = g.Not(g.Greater(edges, values) if right else g.GreaterOrEqual(edges, values))
    count = g.ReduceSum(g.Cast(below, to=ir.DataType.INT64), [-1], keepdims=0)
    return cast(g, count, torch.int32) if out_int32 else count


def _is_sorted(edges: np.ndarray | None) -> bool:
    """Return whether edges are known to be sorted; computed ones may have NaN, or no order."""
    return edges is not None and bool((edges[..., 1:] >= edges[..., :-1]).all()) and bool((edges == edges).all())


def _halved(g: Graph, values: ir.Value, edges: ir.Value, right: bool) -> ir.Value:
    """Return what `_count_below` returns, by bisection, as PyTorch does (aten/src/ATen/native/Bucketization.cpp).

    If `edges` are unsorted, or have NaN, the result depends on the order of comparisons. Iterations are unrolled for a
    known length.
    """
    length = size(g, edges, -1)
    values = g.Squeeze(values, [-1])
    if g.rank(edges) > 1:
        edges = g.Squeeze(edges, [-2])
    ends = [g.Expand(v, g.dims(values)) for v in (g.const(0), as_value(g, length, torch.int64))]
    if isinstance(length, int):
        for _ in range(length.bit_length()):
            ends = _half(g, values, edges, right, ends, g.const(length - 1))
        return ends[0]
    bits = g.Div(g.Log(g.Add(g.Cast(length, to=ir.DataType.DOUBLE), 0.5)), math.log(2))
    rounds = g.Add(g.Cast(g.Floor(bits), to=ir.DataType.INT64), 1)  # one iteration for each bit of the length
    body = g.body("halving")
    body.input("iteration", ir.DataType.INT64, [])
    again = body.input("condition", ir.DataType.BOOL, [])
    inner = [body.input("end", ir.DataType.INT64, g.shape(values)) for _ in ends]
    body.output(body.Identity(again), body.unique("again"))
    for end in _half(body, values, edges, right, inner, body.Sub(length, 1)):
        body.output(end, body.unique("end"))
    found = g.Loop(rounds, None, *ends, body=body, outputs=2)[0]
    return g.facts(found, ir.DataType.INT64, g.shape(values))


def _half(
    g: Graph, values: ir.Value, edges: ir.Value, right: bool, ends: Sequence[ir.Value], last: ir.Value
) -> list[ir.Value]:
    """Return the half of the edges between `ends` that contains each value; finished ones stay. last: the last edge."""
    low, high = ends
    middle = g.Div(g.Add(low, high), g.const(2))
    at = g.Min(middle, last)
    edge = g.Gather(edges, at) if g.rank(edges) == 1 else g.GatherElements(edges, at, axis=-1)
    before = g.Not(g.Greater(edge, values) if right else g.GreaterOrEqual(edge, values))
    before = g.And(before, g.Less(low, high))
    return [g.Where(before, g.Add(middle, g.const(1)), low), g.Where(before, high, middle)]


@torch_op("bucketize")
def bucketize(g, x, boundaries, *, out_int32=False, right=False):
    if not isinstance(x, ir.Value):
        x = as_value(g, x, g.dtype(boundaries))
    values, edges = promote_operands(g, g.Unsqueeze(x, [g.rank(x)]), boundaries)
    return _count_below(g, values, edges, right, out_int32)


@torch_op("searchsorted")
def searchsorted(g, sorted_sequence, x, *, out_int32=False, right=False, side=None, sorter=None):
    right = side == "right" if side is not None else right
    edges = sorted_sequence if sorter is None else g.GatherElements(sorted_sequence, sorter, axis=-1)
    values = x if isinstance(x, ir.Value) else as_value(g, x, g.dtype(edges))
    values = g.Unsqueeze(values, [g.rank(values)])
    if g.rank(edges) > 1:
        edges = g.Unsqueeze(edges, [g.rank(edges) - 1])
    values, edges = promote_operands(g, values, edges)
    return _count_below(g, values, edges, right, out_int32)


@torch_op("isin")
def isin(g, elements, test_elements, *, assume_unique=False, invert=False):
    values, tests = promote_operands(g, elements, test_elements)
    same = g.Equal(g.Unsqueeze(values, [g.rank(values)]), flatten(g, tests))
    found = g.ReduceMax(g.Cast(same, to=ir.DataType.INT32), [-1], keepdims=0)
    found = g.Greater(found, constant_like(g, 0, found))  # without elements the maximum is the least integer
    return g.Not(found) if invert else found


@torch_op("histc")
def histc(g, x, bins=100, min=0, max=0):
    """Return the number of elements in each of equal parts of [min, max], or of the range of x if min equals max."""
    flat = flatten(g, x)
    if min == max:
        low, high = g.ReduceMin(flat, keepdims=0), g.ReduceMax(flat, keepdims=0)
        same = g.Equal(low, high)
        low, high = (g.Where(same, g.Add(v, constant_like(g, by, x)), v) for v, by in ((low, -1), (high, 1)))
    else:
        low, high = constant_like(g, min, x), constant_like(g, max, x)
    place = g.Mul(g.Div(g.Sub(flat, low), g.Sub(high, low)), constant_like(g, bins, x))
    place = g.Min(g.Cast(g.Floor(place), to=ir.DataType.INT64), bins - 1)
    inside = g.And(g.GreaterOrEqual(flat, low), g.LessOrEqual(flat, high))
    place = g.Where(inside, place, bins)
    counts = g.ScatterElements(
        g.Expand(constant_like(g, 0, x), [bins + 1]),
        place,
        g.Expand(constant_like(g, 1, x), g.dims(flat)),
        axis=0,
        reduction="add",
    )
    return g.Slice(counts, [0], [bins], [0])


@torch_op("histogram")
def histogram(g, x, bins, *, range=None, weight=None, density=False):
    """Counts, or sums of weights, of the elements between adjacent edges, the last one included."""
    flat = flatten(g, x)
    edges = bins if isinstance(bins, ir.Value) else bin_edges_of(g, flat, bins, range)
    count = size(g, edges, 0)
    if not isinstance(count, int):
        raise Unsupported("a histogram with an unknown number of edges")
    if 0 in g.shape(x):
        return [g.Expand(constant_like(g, float("nan") if density else 0, x), [count - 1]), edges]
    place = g.Add(bin_index_of(g, flat, edges), 1)
    share = g.Expand(constant_like(g, 1, x), g.dims(flat)) if weight is None else flatten(g, weight)
    sums = g.ScatterElements(g.Expand(constant_like(g, 0, x), [count + 1]), place, share, axis=0, reduction="add")
    sums = g.Slice(sums, [1], [count], [0])
    if density:
        widths = g.Sub(g.Slice(edges, [1], [count], [0]), g.Slice(edges, [0], [count - 1], [0]))
        sums = g.Div(g.Div(sums, g.ReduceSum(sums, keepdims=0)), widths)
    return [sums, edges]


def bin_edges_of(g: Graph, flat: ir.Value, bins: int, limits: Any) -> ir.Value:
    """Return `bins` + 1 equidistant edges, from the minimum to the maximum unless `limits` are given."""
    if limits is None and list(g.shape(flat)) == [0]:
        limits = (0.0, 1.0)
    low, high = limits or (g.ReduceMin(flat, keepdims=0), g.ReduceMax(flat, keepdims=0))
    if limits is None or low == high:
        low, high = (as_value(g, v, g.dtype(flat)) for v in (low, high))
        same = g.Equal(low, high)
        low, high = (g.Where(same, g.Add(v, constant_like(g, by, flat)), v) for v, by in ((low, -0.5), (high, 0.5)))
    return linspace(g, low, high, bins + 1, dtype=torch_dtype(g, flat))


def _upper_bound(g: Graph, x: ir.Value, edges: ir.Value, count: int) -> ir.Value:
    """Return how many edges are before the first that is above x, by bisection as in PyTorch, also for unsorted
    edges.
    """
    first = g.Expand(g.const(0), g.Shape(x))
    length = g.Expand(g.const(count), g.Shape(x))
    for _ in range(count.bit_length()):
        half = g.Div(length, 2)
        middle = g.Min(g.Add(first, half), g.const(count - 1))
        left = g.Or(g.Less(x, g.Gather(edges, middle, axis=0)), g.Equal(length, 0))
        first = g.Where(left, first, g.Add(middle, 1))
        length = g.Where(left, half, g.Sub(g.Sub(length, half), 1))
    return first


def bin_index_of(g: Graph, flat: ir.Value, edges: ir.Value) -> ir.Value:
    """Return the interval of each element, counted from 0: -1 before the first edge, one too many after the last."""
    count = size(g, edges, 0)
    if isinstance(count, int):
        place = _upper_bound(g, flat, edges, count)
    else:
        place = _count_below(g, g.Unsqueeze(flat, [1]), edges, True, False)
    last = g.Gather(edges, count - 1, axis=0)
    return g.Sub(g.Where(g.Equal(flat, last), g.const(count - 1), place), 1)


# -- counts, segment reductions, histograms ---------------------------------------------------------------------------


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
