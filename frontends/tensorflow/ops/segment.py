"""Segment sums, counts, unique values, and partitioning and stitching by index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common import shape_values
from ..common.half_precision import BFLOAT16, in_float32
from ..common.lazy_reshape import cast, int64
from ..rules import tf_op

_REDUCTIONS = {"Sum": ("add", 0), "Prod": ("mul", 1), "Max": ("max", None), "Min": ("min", None)}


def _unsorted_segment_rule(kind: str) -> Callable[..., ir.Value]:
    def rule(g: Graph, data: ir.Value, segment_ids: ir.Value, num_segments: ir.Value) -> ir.Value:
        return reduce_segments(
            g, kind, data, segment_ids, g.Reshape(int64(g, num_segments), [1]), _neutral_element(kind, data)
        )

    return rule


def _sorted_segment_rule(kind: str) -> Callable[..., ir.Value]:
    def rule(g: Graph, data: ir.Value, segment_ids: ir.Value) -> ir.Value:
        """Return the segment reduction; segments without rows are 0, or 1 for products."""
        ids = int64(g, segment_ids)
        count = segment_count(g, ids)
        start = _neutral_element(kind, data)
        if kind in ("Max", "Min") and g.dtype(data).is_floating_point():
            start = -np.inf if kind == "Max" else np.inf
        found = reduce_segments(g, kind, data, ids, count, start)
        if kind not in ("Max", "Min"):
            return found
        rows = segment_sizes(g, ids, count)
        empty = g.Equal(align_rows(g, rows, data), g.const(0, ir.DataType.INT64))
        return g.Where(empty, g.const(0, data.dtype), found)

    return rule


tf_op.same(_unsorted_segment_rule, UnsortedSegmentSum="Sum", UnsortedSegmentProd="Prod", UnsortedSegmentMax="Max",
          UnsortedSegmentMin="Min")  # fmt: skip
tf_op.same(_sorted_segment_rule, SegmentSum="Sum", SegmentProd="Prod", SegmentMax="Max", SegmentMin="Min")


@tf_op("SegmentMean")
def segment_mean(g: Graph, data: ir.Value, segment_ids: ir.Value) -> ir.Value:
    ids = int64(g, segment_ids)
    count = segment_count(g, ids)
    rows = g.Max(segment_sizes(g, ids, count), np.ones(1, np.int64))
    total = reduce_segments(g, "Sum", data, ids, count, 0)
    return g.Div(total, g.Cast(align_rows(g, rows, data), to=data.dtype))


def segment_count(g: Graph, ids: ir.Value) -> ir.Value:
    """Return the largest of the `ids` plus 1, [1]; 0 if there are none, for which ReduceMax is undefined."""
    return g.Add(g.ReduceMax(g.Concat(ids, np.full(1, -1), axis=0), [0]), np.ones(1, np.int64))


def _neutral_element(kind: str, data: ir.Value) -> float:
    neutral = _REDUCTIONS[kind][1]
    if neutral is not None:
        return neutral
    dtype = data.dtype.numpy() if data.dtype is not None else np.dtype(np.float32)
    limits: Any = np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.finfo(dtype)
    return limits.min if kind == "Max" else limits.max


def reduce_segments(g: Graph, kind: str, data: ir.Value, ids: ir.Value, count: ir.Value, start: float) -> ir.Value:
    """Return rows of `data` reduced by `ids` into `count` rows; rows with a negative id go to an extra one that is
    dropped.
    """
    inner = g.Slice(g.Shape(data), [g.rank(ids)], [np.iinfo(np.int64).max], [0])
    size = g.Concat(g.Add(count, np.ones(1, np.int64)), inner, axis=0)
    base = g.Expand(g.const(np.array(start, g.dtype(data).numpy())), size)
    wide = int64(g, ids)
    wide = g.Where(g.Less(wide, g.const(0, ir.DataType.INT64)), count, wide)
    whole = g.ScatterND(base, g.Unsqueeze(wide, [-1]), data, reduction=_REDUCTIONS[kind][0])
    return g.Slice(whole, [0], count, [0])


def segment_sizes(g: Graph, ids: ir.Value, count: ir.Value) -> ir.Value:
    zeros = g.Expand(g.const(0, ir.DataType.INT64), count)
    return g.ScatterND(zeros, g.Unsqueeze(ids, [-1]), g.Expand(g.const(1, ir.DataType.INT64), g.Shape(ids)),
                       reduction="add")  # fmt: skip


def unsqueeze_trailing(g: Graph, x: ir.Value, count: int) -> ir.Value:
    return g.Unsqueeze(x, np.arange(1, count + 1)) if count else x


def align_rows(g: Graph, rows: ir.Value, data: ir.Value) -> ir.Value:
    """Return a number per row of `data`, with the rank of `data`."""
    if data.shape is not None:
        return unsqueeze_trailing(g, rows, g.rank(data) - 1)
    inner = g.Slice(g.Shape(data), [1], [np.iinfo(np.int64).max], [0])
    return g.Reshape(rows, g.Concat(g.Shape(rows), g.Expand(np.ones(1, np.int64), g.Shape(inner)), axis=0))


@tf_op("Bincount")
def bincount(g: Graph, arr: ir.Value, size: ir.Value, weights: ir.Value) -> ir.Value:
    return _bin_counts(g, g.Reshape(arr, [-1]), size, g.Reshape(weights, [-1]), weights, binary=False)


@tf_op("DenseBincount")
def dense_bincount(g: Graph, input: ir.Value, size: ir.Value, weights: ir.Value, *, binary_output: bool) -> ir.Value:
    return _bin_counts(g, input, size, weights, weights, binary=binary_output)


@tf_op("RaggedBincount")
def ragged_bincount(
    g: Graph, splits: ir.Value, values: ir.Value, size: ir.Value, weights: ir.Value, *, binary_output: bool
) -> ir.Value:
    """RaggedBincount: a row of counts per row of the ragged tensor; numbers outside the bins are not counted."""
    dtype, ends = g.dtype(weights), int64(g, splits)
    if weights.shape is None or None in g.shape(weights):
        raise Unsupported("weights that may be empty, which means none")
    bins, count = g.Reshape(int64(g, size), [1]), g.Sub(g.Shape(ends), np.int64(1))
    places = g.Range(0, g.Squeeze(g.Shape(values), [0]), 1)
    behind = g.LessOrEqual(g.Slice(ends, [1], [2**31 - 1], [0]), g.Unsqueeze(places, [1]))
    rows = g.ReduceSum(g.Cast(behind, to=ir.DataType.INT64), [1], keepdims=0)
    number = int64(g, values)
    inside = g.And(g.GreaterOrEqual(number, np.int64(0)), g.Less(number, bins))
    ones = g.Expand(g.const(1, dtype), g.Shape(values))
    each = ones if 0 in g.shape(weights) or binary_output else weights
    each = g.Where(inside, each, g.const(0, dtype))
    at = g.Concat(g.Unsqueeze(rows, [1]), g.Unsqueeze(g.Where(inside, number, np.int64(0)), [1]), axis=1)
    zeros = g.Expand(g.const(0, dtype), g.Concat(count, bins, axis=0))
    zeros = g.facts(zeros, dtype, [None, None])
    return g.ScatterND(zeros, at, each, reduction="max" if binary_output else "add")


def _bin_counts(g: Graph, x: ir.Value, size: ir.Value, rows: ir.Value, weights: ir.Value, *, binary: bool) -> ir.Value:
    """Return how often each of 0 … size - 1 occurs along the last dim, weighted if there are weights.

    binary: return 1 for numbers that occur, else 0; weights are ignored, as in TensorFlow's kernel.
    """
    if weights.shape is None or None in g.shape(weights):
        raise Unsupported("weights that may be empty, which means none")
    dtype = weights.dtype
    places = g.Range(0, g.Reshape(int64(g, size), np.zeros(0, np.int64)), 1)
    hits = g.Equal(g.Unsqueeze(int64(g, x), [-1]), places)
    if binary:
        found = g.ReduceMax(g.Cast(hits, to=ir.DataType.INT32), [-2], keepdims=0)
        return g.Cast(g.Greater(found, np.int32(0)), to=dtype)  # without elements this is the least integer
    if 0 in g.shape(weights):
        return g.ReduceSum(g.Cast(hits, to=dtype), [-2], keepdims=0)
    return g.ReduceSum(g.Where(hits, g.Unsqueeze(rows, [-1]), g.const(0, dtype)), [-2], keepdims=0)


@tf_op("Unique")
@in_float32(BFLOAT16)
def unique(g: Graph, x: ir.Value, *, out_idx: ir.DataType) -> list[ir.Value]:
    values, where, _ = _emit_unique(g, x, None)
    return [values, cast(g, where, out_idx)]


@tf_op("UniqueWithCounts")
@in_float32(BFLOAT16)
def unique_with_counts(g: Graph, x: ir.Value, *, out_idx: ir.DataType) -> list[ir.Value]:
    values, where, counts = _emit_unique(g, x, None)
    return [values, cast(g, where, out_idx), cast(g, counts, out_idx)]


@tf_op("UniqueV2")
@in_float32(BFLOAT16)
def unique_v2(g: Graph, x: ir.Value, axis: ir.Value, *, out_idx: ir.DataType) -> list[ir.Value]:
    return unique_with_counts_v2(g, x, axis, out_idx=out_idx)[:2]


@tf_op("UniqueWithCountsV2")
@in_float32(BFLOAT16)
def unique_with_counts_v2(g: Graph, x: ir.Value, axis: ir.Value, *, out_idx: ir.DataType) -> list[ir.Value]:
    axes = shape_values.ints(axis, "axis")
    values, where, counts = _emit_unique(g, x, axes[0] if axes else None)
    return [values, cast(g, where, out_idx), cast(g, counts, out_idx)]


def _emit_unique(g: Graph, x: ir.Value, axis: int | None) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return unique elements in order of first occurrence; runtimes support int64 but not int32."""
    wide = cast(g, x, ir.DataType.INT64) if x.dtype == ir.DataType.INT32 else x
    values, _, where, counts = g.Unique(wide, sorted=0, outputs=4, axis=axis)
    return cast(g, values, g.dtype(x)), where, counts


@tf_op("ListDiff")
@in_float32(BFLOAT16)
def list_diff(g: Graph, x: ir.Value, y: ir.Value, *, out_idx: ir.DataType) -> list[ir.Value]:
    same = g.Cast(g.Equal(g.Unsqueeze(x, [1]), g.Unsqueeze(y, [0])), to=ir.DataType.INT32)
    # A zero is added to the comparisons, because the maximum of no elements is undefined.
    beside = g.Expand(g.const(0, ir.DataType.INT32), g.Concat(g.Shape(x), np.ones(1, np.int64), axis=0))
    there = g.ReduceMax(g.Concat(same, beside, axis=1), [1], keepdims=0)
    left = g.Equal(there, g.const(0, ir.DataType.INT32))
    places = g.Range(0, g.Squeeze(g.Shape(x), [0]), 1)
    return [g.Compress(x, left, axis=0), cast(g, g.Compress(places, left, axis=0), out_idx)]


@tf_op("DynamicPartition")
@in_float32(BFLOAT16)
def dynamic_partition(g: Graph, data: ir.Value, partitions: ir.Value, *, num_partitions: int) -> list[ir.Value]:
    rank = g.rank(partitions)
    if rank != 1:
        inner = g.Slice(g.Shape(data), [rank], [np.iinfo(np.int64).max], [0])
        data = g.Reshape(data, g.Concat(np.array([-1], np.int64), inner, axis=0))
        partitions = g.Reshape(partitions, [-1])
    return [g.Compress(data, g.Equal(partitions, g.const(i, partitions.dtype)), axis=0) for i in range(num_partitions)]


@tf_op("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(g: Graph, indices: Sequence[ir.Value], data: Sequence[ir.Value]) -> ir.Value:
    """DynamicStitch: find the source of each row (the last one given for its index), then use one Gather."""
    flat, rows = [], []
    for index, values in zip(indices, data, strict=True):
        rank = g.rank(index)
        inner = g.Slice(g.Shape(values), [rank], [np.iinfo(np.int64).max], [0])
        rows.append(values if rank == 1 else g.Reshape(values, g.Concat(np.array([-1], np.int64), inner, axis=0)))
        flat.append(int64(g, index) if rank == 1 else g.Reshape(int64(g, index), [-1]))
    every = g.Concat(*flat, axis=0)
    count = segment_count(g, every)
    places = g.Range(0, g.Squeeze(g.Shape(every), [0]), 1)
    nowhere = g.Expand(g.const(0, ir.DataType.INT64), count)
    return g.Gather(g.Concat(*rows, axis=0), g.ScatterElements(nowhere, every, places, axis=0, reduction="max"), axis=0)


@tf_op("Bucketize")
def bucketize(g: Graph, input: ir.Value, *, boundaries: Sequence[float]) -> ir.Value:
    """Bucketize. The boundaries are float32 for any input; float64 numbers are compared unrounded.

    NaN is above all boundaries, because it is not less than any, as in std::upper_bound.
    """
    kind = ir.DataType.DOUBLE if input.dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT
    limits = g.const(np.array(boundaries, np.float32).astype(kind.numpy()))
    x = cast(g, input, kind)
    return _count_hits(g, g.Not(g.Less(g.Unsqueeze(x, [-1]), limits)), ir.DataType.INT32)


@tf_op("LowerBound")
def lower_bound(g: Graph, sorted_inputs: ir.Value, values: ir.Value, *, out_type: ir.DataType) -> ir.Value:
    return _count_hits(g, g.Less(g.Unsqueeze(sorted_inputs, [1]), g.Unsqueeze(values, [2])), out_type)


@tf_op("UpperBound")
def upper_bound(g: Graph, sorted_inputs: ir.Value, values: ir.Value, *, out_type: ir.DataType) -> ir.Value:
    return _count_hits(g, g.Not(g.Greater(g.Unsqueeze(sorted_inputs, [1]), g.Unsqueeze(values, [2]))), out_type)


def _count_hits(g: Graph, hits: ir.Value, dtype: ir.DataType) -> ir.Value:
    return g.ReduceSum(g.Cast(hits, to=dtype), [-1], keepdims=0)


@tf_op("SparseToDense")
def sparse_to_dense(
    g: Graph, sparse_indices: ir.Value, output_shape: ir.Value, sparse_values: ir.Value, default_value: ir.Value
) -> ir.Value:
    base = g.Expand(default_value, int64(g, output_shape))
    at = int64(g, sparse_indices)
    if g.rank(at) == 0:
        at = g.Reshape(at, [1, 1])
    elif g.rank(at) == 1:
        at = g.Unsqueeze(at, [1])
    values = sparse_values
    if g.rank(values) == 0:
        values = g.Expand(values, g.Shape(at, start=0, end=1))
    return g.ScatterND(base, at, values)
