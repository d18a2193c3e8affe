"""Sampling at run-time coordinates: grids, overlapping patches, embedding bags."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.sizes import arange, axis_of, size, vector
from ..common.values import cast, constant_like, highest, lowest
from ..rules import torch_op
from .reduce import vector_norm
from .search import reduce_segments
from .shape import END, flatten

_MODES = ("linear", "nearest", "cubic")
_PADDINGS = ("zeros", "border", "reflection")


@torch_op("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(g, x, grid, interpolation_mode, padding_mode, align_corners):
    return g.GridSample(
        x,
        grid,
        mode=_MODES[interpolation_mode],
        padding_mode=_PADDINGS[padding_mode],
        align_corners=int(align_corners),
    )


@torch_op("col2im")
def col2im(g, x, output_size, kernel_size, dilation, padding, stride):
    lone = g.rank(x) == 2
    x = g.Unsqueeze(x, [0]) if lone else x
    pads = list(padding) * 2
    out = g.Col2Im(x, vector(g, output_size), kernel_size, dilations=dilation, pads=pads, strides=stride)
    return g.Squeeze(out, [0]) if lone else out


@torch_op("embedding_bag.padding_idx")
def embedding_bag_padded(
    g,
    weight,
    indices,
    offsets,
    scale_grad_by_freq,
    mode,
    sparse,
    per_sample_weights,
    include_last_offset,
    padding_idx,
):
    """`padding_idx` may be negative here."""
    if padding_idx is not None and padding_idx < 0:
        rows = size(g, weight, 0)
        if not isinstance(rows, int):
            raise Unsupported("padding_idx counted from the end of an unknown number of rows")
        padding_idx += rows
    padding_idx = -1 if padding_idx is None else padding_idx
    return embedding_bag(
        g, weight, indices, offsets, False, mode, False, per_sample_weights, include_last_offset, padding_idx
    )


@torch_op("embedding_renorm")
def embedding_renorm(g, weight, indices, max_norm, norm_type):
    """Return the weight with the looked-up rows limited to a norm of max_norm."""
    length = vector_norm(g, weight, norm_type, [1], True)
    limit = constant_like(g, max_norm, weight)
    scale = g.Div(limit, g.Add(length, constant_like(g, 1e-7, weight)))
    places = flatten(g, indices)
    none = g.Expand(g.const(0), g.Shape(weight, start=0, end=1))
    used = g.ScatterElements(none, places, g.Expand(g.const(1), g.Shape(places)), axis=0)
    used = g.And(g.Cast(g.Unsqueeze(used, [1]), to=ir.DataType.BOOL), g.Greater(length, limit))
    return g.Where(used, g.Mul(weight, scale), weight)


@torch_op("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    g,
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=-1,
):
    """Sum (mode 0), mean (1) or maximum (2) of the rows of each bag; rows at `padding_idx` are ignored."""
    length = None if include_last_offset else _equal_length(g, indices, offsets)
    if length is not None:
        return [_reduce_equal_bags(g, weight, indices, length, mode, per_sample_weights, padding_idx), None, None, None]
    starts = cast(g, offsets, ir.DataType.INT64)
    if include_last_offset:
        starts = g.Slice(starts, [0], [-1], [0])
    places = arange(g, size(g, indices, 0))
    begun = g.Cast(g.GreaterOrEqual(g.Unsqueeze(places, [1]), g.Unsqueeze(starts, [0])), to=ir.DataType.INT64)
    bags = g.Sub(g.ReduceSum(begun, [1]), 1)
    rows = g.Gather(weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = g.Mul(rows, g.Unsqueeze(per_sample_weights, [1]))
    shape = g.Concat(g.Shape(starts), vector(g, size(g, weight, 1)), axis=0)
    counted = None
    if padding_idx is not None and padding_idx >= 0:
        counted = g.Not(g.Equal(g.Unsqueeze(cast(g, indices, ir.DataType.INT64), [1]), padding_idx))
    return [_reduce_bags(g, rows, bags, shape, counted, mode), None, None, None]


def _equal_length(g: Graph, indices: ir.Value, offsets: ir.Value) -> int | None:
    """Return the length of the bags if all have the same, as `F.embedding_bag` creates for two-dim indices."""
    count, known = g.shape(indices)[0], g.static(offsets)
    if known is not None:
        length = count // len(known) if isinstance(count, int) and len(known) else 0
        return length if length and np.array_equal(known, np.arange(0, count, length)) else None
    made, flat = offsets.producer(), indices.producer()
    if made is None or flat is None or (made.op_type, flat.op_type) != ("Range", "Reshape"):
        return None
    start, step = g.static(made.inputs[0]), g.static(made.inputs[2])
    sized = made.inputs[1].producer() if made.inputs[1] is not None else None
    if start is None or step is None or int(start) or sized is None or sized.op_type != "Size":
        return None
    whole = sized.inputs[0]
    if whole is None or whole is not flat.inputs[0]:
        return None
    return int(step) if g.rank(whole) == 2 and g.shape(whole)[1] == int(step) else None


def _reduce_equal_bags(
    g: Graph,
    weight: ir.Value,
    indices: ir.Value,
    length: int,
    mode: int,
    per_sample_weights: ir.Value | None,
    padding_idx: int | None,
) -> ir.Value:
    """Return the bags as a dim of their own, reduced in the ordinary way."""
    table = g.Reshape(indices, [-1, length])
    rows = g.Gather(weight, table, axis=0)
    if per_sample_weights is not None:
        rows = g.Mul(rows, g.Reshape(per_sample_weights, [-1, length, 1]))
    if padding_idx is None or padding_idx < 0:
        return g.ReduceMax(rows, [1], keepdims=0) if mode == 2 else _REDUCED[mode](g, rows)
    counted = g.Not(g.Equal(g.Unsqueeze(table, [2]), g.const(padding_idx, g.dtype(table))))
    zero = constant_like(g, 0, rows)
    counts = g.ReduceSum(g.Cast(counted, to=g.dtype(rows)), [1], keepdims=0)
    empty = g.Equal(counts, zero)
    if mode == 2:
        most = g.ReduceMax(g.Where(counted, rows, constant_like(g, lowest(g.dtype(rows)), rows)), [1], keepdims=0)
        return g.Where(empty, zero, most)
    out = g.ReduceSum(g.Where(counted, rows, zero), [1], keepdims=0)
    return out if mode == 0 else g.Div(out, g.Where(empty, constant_like(g, 1, rows), counts))


_REDUCED = (lambda g, x: g.ReduceSum(x, [1], keepdims=0), lambda g, x: g.ReduceMean(x, [1], keepdims=0))


def _reduce_bags(
    g: Graph, rows: ir.Value, bags: ir.Value, shape: ir.Value, counted: ir.Value | None, mode: int
) -> ir.Value:
    dtype = g.dtype(rows)
    ones = g.Expand(constant_like(g, 1, rows), g.dims(bags))
    ones = ones if counted is None else g.Mul(ones, g.Cast(counted, to=dtype))
    heads = g.Concat(g.Slice(shape, [0], [1], [0]), [1], axis=0)
    counts = g.ScatterND(g.Expand(constant_like(g, 0, rows), heads), bags, ones, reduction="add")
    empty = g.Equal(counts, constant_like(g, 0, rows))
    if mode == 2:
        least = constant_like(g, lowest(dtype), rows)
        kept = rows if counted is None else g.Where(counted, rows, least)
        out = g.ScatterND(g.Expand(least, shape), bags, kept, reduction="max")
        return g.Where(empty, constant_like(g, 0, rows), out)
    kept = rows if counted is None else g.Where(counted, rows, constant_like(g, 0, rows))
    out = g.ScatterND(g.Expand(constant_like(g, 0, rows), shape), bags, kept, reduction="add")
    return out if mode == 0 else g.Div(out, g.Where(empty, constant_like(g, 1, rows), counts))


@torch_op("segment_reduce")
def segment_reduce(g, data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Rows reduced by segments, given by lengths or offsets; the mean of no rows is NaN."""
    given = offsets if lengths is None else lengths
    if given is None or indices is not None:
        raise Unsupported("segment_reduce by indices, which PyTorch does not have either")
    if g.rank(given) != 1:
        return reduce_segments(g, data, reduce, lengths, offsets, axis_of(g, data, axis), initial)
    given = cast(g, given, ir.DataType.INT64)
    ends = g.CumSum(given, 0) if offsets is None else g.Slice(given, [1], [END], [0])
    before = g.Cast(g.GreaterOrEqual(g.Unsqueeze(arange(g, size(g, data, 0)), [1]), ends), to=ir.DataType.INT64)
    segments = g.ReduceSum(before, [1])
    # Rows after the last segment go to an additional one, which is dropped.
    shape = g.Concat(g.Add(g.Shape(ends), 1), g.Slice(g.dims(data), [1], [END], [0]), axis=0)
    dtype = g.dtype(data)
    start = {"max": lowest(dtype), "min": highest(dtype), "prod": 1}.get(reduce, 0) if initial is None else initial
    how = {"max": "max", "min": "min", "prod": "mul"}.get(reduce, "add")
    out = g.ScatterND(g.Expand(constant_like(g, start, data), shape), segments, data, reduction=how)
    out = g.Slice(out, [0], [-1], [0])
    if reduce != "mean":
        return out
    ones = g.Expand(constant_like(g, 1, data), g.dims(data))
    counts = g.ScatterND(g.Expand(constant_like(g, 0, data), shape), segments, ones, reduction="add")
    counts = g.Slice(counts, [0], [-1], [0])
    none = constant_like(g, math.nan, data) if initial is None else out
    return g.Where(g.Equal(counts, constant_like(g, 0, data)), none, g.Div(out, counts))
