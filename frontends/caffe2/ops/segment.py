"""Rows in segments: embedding bags of recommenders, and operators on lengths."""

from __future__ import annotations

import json

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.metadata import RANGE_KEY
from convert.graph.values import known_dims
from convert.rules import Rule

from ..rules import caffe2_op
from .shape import cast_to_int64


def segment_places(g: Graph, lengths: ir.Value, count: ir.Value) -> ir.Value:
    """Return the index of the segment that each of `count` rows belongs to, int64."""
    ends = g.CumSum(cast_to_int64(g, lengths), 0)
    places = g.Unsqueeze(g.Range(0, count, 1), [1])
    behind = g.Cast(g.LessOrEqual(g.Unsqueeze(ends, [0]), places), to=ir.DataType.INT64)
    return g.ReduceSum(behind, [1], keepdims=0)


def _note_partition(lengths: ir.Value, rows: ir.Value) -> None:
    """Record on an input of lengths that their sum is the number of `rows`; the runtime accepts no others."""
    sizes = known_dims(rows)
    size = sizes[0] if sizes else None
    if lengths.is_graph_input() and size is not None:
        lengths.metadata_props.setdefault(RANGE_KEY, json.dumps([0, size, "partition"]))


def sum_segments(g: Graph, rows: ir.Value, lengths: ir.Value) -> ir.Value:
    """Return the sum of the rows of each segment."""
    places = segment_places(g, lengths, _row_count(g, rows))
    return _add_to(g, rows, places, g.Shape(lengths, end=1))


def _row_count(g: Graph, rows: ir.Value) -> ir.Value:
    return g.Squeeze(g.Shape(rows, end=1), [0])


def _add_to(g: Graph, rows: ir.Value, places: ir.Value, count: ir.Value) -> ir.Value:
    """Return `count` rows of zeros with `rows` added at their indices."""
    shape = g.Concat(count, g.Shape(rows, start=1), axis=0) if g.rank(rows) > 1 else count
    zeros = g.Expand(_filled(g, rows, 0), shape)
    return g.ScatterND(zeros, g.Unsqueeze(places, [1]), rows, reduction="add")


def _filled(g: Graph, rows: ir.Value, number: float) -> ir.Value:
    """Return a number as a single element with the rank and the dtype of the rows."""
    dtype = g.dtype(rows)
    if np.isinf(number) and not dtype.is_floating_point():
        raise Unsupported(f"segments of {dtype.name.lower()}, which has no infinity")
    return g.const(np.full([1] * g.rank(rows), number, dtype.numpy()))


def _beside(g: Graph, numbers: ir.Value, rows: ir.Value) -> ir.Value:
    """Return one number per row, shaped to broadcast against the rows."""
    behind = list(range(1, g.rank(rows)))
    return g.Unsqueeze(numbers, behind) if behind else numbers


def _reduced(g: Graph, rows: ir.Value, lengths: ir.Value, mean: bool) -> ir.Value:
    total = sum_segments(g, rows, lengths)
    if not mean:
        return total
    count = g.Cast(g.Max(cast_to_int64(g, lengths), 1), to=g.dtype(rows))
    return g.Div(total, _beside(g, count, total))


def segment_rule(mean: bool, sparse: bool, weighted: bool) -> Rule:
    """Return the rule for sums or means of segments given by lengths; with `sparse`, rows are looked up first."""

    def rule(g: Graph, x: ir.Value, *others: ir.Value) -> ir.Value:
        weights = others[0] if weighted else None
        *indices, lengths = others[1:] if weighted else others
        _note_partition(lengths, indices[0] if sparse else x)
        rows = g.Gather(x, indices[0], axis=0) if sparse else x
        rows = rows if weights is None else g.Mul(rows, _beside(g, weights, rows))
        return _reduced(g, rows, lengths, mean)

    return rule


caffe2_op("LengthsSum")(segment_rule(False, False, False))
caffe2_op("LengthsMean")(segment_rule(True, False, False))
caffe2_op("LengthsWeightedSum")(segment_rule(False, False, True))
caffe2_op("SparseLengthsSum")(segment_rule(False, True, False))
caffe2_op("SparseLengthsMean")(segment_rule(True, True, False))
caffe2_op("SparseLengthsWeightedSum")(segment_rule(False, True, True))


@caffe2_op("LengthsMax")
def lengths_max(g: Graph, x: ir.Value, lengths: ir.Value) -> ir.Value:
    """LengthsMax: the maximum of the rows of each segment, 0 for an empty one."""
    _note_partition(lengths, x)
    places = segment_places(g, lengths, _row_count(g, x))
    shape = g.Concat(g.Shape(lengths, end=1), g.Shape(x, start=1), axis=0)
    lowest = g.Expand(_filled(g, x, -np.inf), shape)
    found = g.ScatterND(lowest, g.Unsqueeze(places, [1]), x, reduction="max")
    empty = _beside(g, g.Equal(cast_to_int64(g, lengths), 0), found)
    return g.Where(empty, g.const(np.array(0, g.dtype(x).numpy())), found)


def _fused_rows(g: Graph, fused: ir.Value, indices: ir.Value) -> ir.Value:
    """Return rows of bytes, each followed by its scale and bias as two float32, as float32."""
    table = g.static(fused)
    if table is None or table.dtype != np.uint8 or table.ndim != 2:
        raise Unsupported("fused rows of bytes that are computed")
    tail = np.ascontiguousarray(table[:, -8:]).view(np.float32)
    codes = g.Gather(g.const(np.ascontiguousarray(table[:, :-8])), indices, axis=0)
    scale, bias = (g.Gather(g.const(np.ascontiguousarray(tail[:, i : i + 1])), indices, axis=0) for i in (0, 1))
    return g.Add(g.Mul(g.Cast(codes, to=ir.DataType.FLOAT), scale), bias)


def fused_segment_rule(mean: bool, weighted: bool) -> Rule:
    """Return the rule for bags of rows stored in 8 bits."""

    def rule(g: Graph, fused: ir.Value, *others: ir.Value) -> ir.Value:
        indices, lengths = others[-2:]
        _note_partition(lengths, indices)
        rows = _fused_rows(g, fused, indices)
        rows = g.Mul(rows, _beside(g, others[0], rows)) if weighted else rows
        return _reduced(g, rows, lengths, mean)

    return rule


caffe2_op("SparseLengthsSumFused8BitRowwise")(fused_segment_rule(False, False))
caffe2_op("SparseLengthsMeanFused8BitRowwise")(fused_segment_rule(True, False))
caffe2_op("SparseLengthsWeightedSumFused8BitRowwise")(fused_segment_rule(False, True))


@caffe2_op("UnsortedSegmentSum")
def unsorted_segment_sum(g: Graph, x: ir.Value, places: ir.Value, *, num_segments: int = -1) -> ir.Value:
    """UnsortedSegmentSum; without `num_segments`, the largest index determines the number of segments."""
    places = cast_to_int64(g, places)
    greatest = g.ReduceMax(places, keepdims=1) if num_segments < 0 else None
    count = g.const(np.array([num_segments], np.int64)) if greatest is None else g.Reshape(g.Add(greatest, 1), [1])
    return _add_to(g, x, places, count)


@caffe2_op("SortedSegmentSum")
def sorted_segment_sum(g: Graph, x: ir.Value, places: ir.Value) -> ir.Value:
    return unsorted_segment_sum(g, x, places)


@caffe2_op("LengthsToSegmentIds")
def lengths_to_segment_ids(g: Graph, lengths: ir.Value) -> ir.Value:
    places = segment_places(g, lengths, g.ReduceSum(cast_to_int64(g, lengths), keepdims=0))
    return g.Cast(places, to=ir.DataType.INT32)


@caffe2_op("LengthsToRanges")
def lengths_to_ranges(g: Graph, lengths: ir.Value) -> ir.Value:
    """LengthsToRanges: the start of each segment, and its length."""
    starts = g.Sub(g.CumSum(lengths, 0), lengths)
    return g.Concat(g.Unsqueeze(starts, [1]), g.Unsqueeze(lengths, [1]), axis=1)


@caffe2_op("LengthsToOffsets")
def lengths_to_offsets(g: Graph, lengths: ir.Value, *, include_last_offset: int = 0) -> ir.Value:
    ends = g.CumSum(lengths, 0)
    zero = g.const(np.zeros(1, g.dtype(lengths).numpy()))
    return g.Concat(zero, ends, axis=0) if include_last_offset else g.Sub(ends, lengths)


@caffe2_op("PackSegments")
def pack_segments(
    g: Graph, lengths: ir.Value, x: ir.Value, *, max_length: int = -1, pad_minf: int = 0,
    return_presence_mask: int = 0,
) -> list[ir.Value]:  # fmt: skip
    """PackSegments: [segment, position, ...] with each segment as a row, padded with zeros (or -inf); and a mask."""
    _note_partition(lengths, x)
    counts = cast_to_int64(g, lengths)
    longest = g.const(np.array(max_length, np.int64)) if max_length > 0 else g.ReduceMax(counts, keepdims=0)
    starts = g.Unsqueeze(g.Sub(g.CumSum(counts, 0), counts), [1])
    steps = g.Unsqueeze(g.Range(0, longest, 1), [0])
    filled = g.Less(steps, g.Unsqueeze(counts, [1]))
    padding = _filled(g, x, -np.inf if pad_minf else 0)
    behind = g.Expand(padding, g.Concat([1], g.Shape(x, start=1), axis=0) if g.rank(x) > 1 else [1])
    rows = g.Concat(x, behind, axis=0)
    packed = g.Gather(rows, g.Where(filled, g.Add(starts, steps), _row_count(g, x)), axis=0)
    return [packed, filled]
