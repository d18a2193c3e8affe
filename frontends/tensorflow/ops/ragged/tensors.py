"""Ragged tensors as in TensorFlow: concatenated values, and the row starts on each level."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...common import shape_values
from ...common.lazy_reshape import cast, int64
from ...common.ragged_rows import RaggedTensor
from ...rules import tf_op

_INT64 = ir.DataType.INT64
PARTITIONS = tf_op.limit(
    "RaggedTensorToTensor", "rows that are given as row limits or lengths, or a shape that is data"
)
VALUES = tf_op.limit("RaggedTensorToSparse", "values with dims of their own")
SUBSETS = tf_op.limit("RaggedTensorFromVariant", "a ragged tensor of another ragged rank than was put away")


def row_ids(g: Graph, splits: ir.Value) -> ir.Value:
    """Return the row of each value, as the number of rows that end before it; int64, as `splits`."""
    ends = _row_ends(g, splits)
    total = g.facts(g.Slice(splits, [-1], [np.iinfo(np.int64).max], [0]), shape=[1])  # makes the rank known
    marks = g.Expand(g.const(0, _INT64), g.Add(total, np.array([1])))
    ones = g.Expand(g.const(1, _INT64), g.Shape(ends))
    ended = g.CumSum(g.ScatterND(marks, g.Unsqueeze(ends, [1]), ones, reduction="add"), np.array(0, np.int64))
    return g.facts(g.Slice(ended, [0], [-1], [0]), _INT64, [None])


def _row_ends(g: Graph, splits: ir.Value) -> ir.Value:
    return g.Slice(splits, [1], [np.iinfo(np.int64).max], [0])


def _row_starts(g: Graph, splits: ir.Value) -> ir.Value:
    return g.Slice(splits, [0], [-1], [0])


def _first_dim_size(g: Graph, x: ir.Value) -> ir.Value:
    """Return the length of the first dim, of rank 0."""
    return g.Squeeze(g.Shape(x, start=0, end=1), [0])


def _splits_from_lengths(g: Graph, lengths: ir.Value) -> ir.Value:
    sums = g.CumSum(lengths, np.array(0, np.int64))
    return g.facts(g.Concat(np.zeros(1, np.int64), sums, axis=0), _INT64, [None])


@tf_op("RaggedRange")
def ragged_range(
    g: Graph, starts: ir.Value, limits: ir.Value, deltas: ir.Value, *, Tsplits: ir.DataType
) -> list[ir.Value]:
    """RaggedRange: rows of numbers from a start up to a limit; scalars apply to every row."""
    dtype = g.dtype(starts)
    shape = g.Max(*(g.Concat(g.Shape(x), np.ones(1 - g.rank(x), np.int64), axis=0) for x in (starts, limits, deltas)))
    starts, limits, deltas = (g.Expand(x, shape) for x in (starts, limits, deltas))
    span = g.Sub(limits, starts)
    if dtype in (ir.DataType.INT32, _INT64):
        size = g.Abs(deltas)
        whole = g.Div(g.Sub(g.Add(g.Abs(span), size), g.const(1, dtype)), size)
        ahead = g.Greater(g.Mul(g.Sign(span), g.Sign(deltas)), g.const(0, dtype))
        lengths = g.Where(ahead, int64(g, whole), g.const(0, _INT64))
    else:
        lengths = g.Max(g.Cast(g.Ceil(g.Div(span, deltas)), to=_INT64), g.const(0, _INT64))
    splits = _splits_from_lengths(g, lengths)
    row = row_ids(g, splits)
    places = g.Sub(g.Range(0, _first_dim_size(g, row), 1), g.Gather(splits, row, axis=0))
    steps = g.Mul(cast(g, places, dtype), g.Gather(deltas, row, axis=0))
    values = g.facts(g.Add(g.Gather(starts, row, axis=0), steps), dtype, [None])
    return [cast(g, splits, Tsplits), values]


@tf_op("RaggedGather")
def ragged_gather(
    g: Graph, params_nested_splits: Sequence[ir.Value], params_dense_values: ir.Value, indices: ir.Value
) -> list[ir.Value]:
    """RaggedGather: the rows at `indices`; further dims of `indices` become rows of equal length."""
    dtype, dims = g.dtype(params_nested_splits[0]), g.Shape(indices)
    outer = []
    for level in range(g.rank(indices) - 1):
        rows = g.ReduceProd(g.Slice(dims, [0], [level + 1], [0]), keepdims=0)
        length = g.Gather(dims, np.array(level + 1), axis=0)
        outer.append(g.Mul(g.Range(0, g.Add(rows, 1), 1), length))
    chosen, inner = g.Reshape(int64(g, indices), [-1]), []
    for given in params_nested_splits:
        splits = int64(g, given)
        first = g.Gather(_row_starts(g, splits), chosen, axis=0)
        lengths = g.Sub(g.Gather(_row_ends(g, splits), chosen, axis=0), first)
        inner.append(_splits_from_lengths(g, lengths))
        row = row_ids(g, inner[-1])
        offset = g.Sub(g.Range(0, _first_dim_size(g, row), 1), g.Gather(inner[-1], row, axis=0))
        chosen = g.Add(g.Gather(first, row, axis=0), offset)
    values = g.Gather(params_dense_values, chosen, axis=0)
    return [*(cast(g, s, dtype) for s in (*outer, *inner)), values]


def _value_indices(g: Graph, levels: Sequence[ir.Value]) -> list[ir.Value]:
    """Return for each value its row, and its index in the row on each level, from the splits of each level."""
    places: list[ir.Value] = []
    at: ir.Value | None = None
    for splits in reversed(levels):
        every = row_ids(g, splits)
        row = every if at is None else g.Gather(every, at, axis=0)
        stands = g.Range(0, _first_dim_size(g, every), 1) if at is None else at
        places.insert(0, g.Sub(stands, g.Gather(splits, row, axis=0)))
        at = row
    assert at is not None
    return [at, *places]


def _longest_row(g: Graph, splits: ir.Value) -> ir.Value:
    lengths = g.Sub(_row_ends(g, splits), _row_starts(g, splits))
    return g.ReduceMax(g.Concat(np.zeros(1, np.int64), lengths, axis=0), [0], keepdims=1)


@tf_op("RaggedTensorToSparse")
def ragged_to_sparse(g: Graph, rt_nested_splits: Sequence[ir.Value], rt_dense_values: ir.Value) -> list[ir.Value]:
    if g.rank(rt_dense_values) != 1:
        raise Unsupported(VALUES)
    levels = [int64(g, s) for s in rt_nested_splits]
    columns = [g.Unsqueeze(p, [1]) for p in _value_indices(g, levels)]
    rows = g.Sub(g.Shape(levels[0]), np.array([1]))
    shape = g.Concat(rows, *(_longest_row(g, s) for s in levels), axis=0)
    indices = g.facts(g.Concat(*columns, axis=1), _INT64, [None, len(columns)])
    return [indices, rt_dense_values, g.facts(shape, _INT64, [len(columns)])]


@tf_op("RaggedTensorToTensor")
def ragged_to_tensor(
    g: Graph, shape: ir.Value, values: ir.Value, default_value: ir.Value,
    row_partition_tensors: Sequence[ir.Value], *, row_partition_types: Sequence[str],
) -> ir.Value:  # fmt: skip
    """RaggedTensorToTensor: rows padded or truncated to one length: the longest, or that in `shape`."""
    wanted = shape_values.content(shape)
    levels = _row_splits(g, row_partition_tensors, list(row_partition_types))
    if wanted is None or levels is None:
        raise Unsupported(PARTITIONS)
    asked = [-1] * (len(levels) + 1) if wanted.ndim == 0 else wanted.tolist()[: len(levels) + 1]
    most = [g.Sub(g.Shape(levels[0]), np.array([1])), *(_longest_row(g, s) for s in levels)]
    dims = [m if d == -1 else g.const(np.array([d], np.int64)) for d, m in zip(asked, most, strict=True)]
    places = _value_indices(g, levels)
    fits = [g.Less(p, d) for p, d, a in zip(places, dims, asked, strict=True) if a != -1]
    indices = g.Concat(*(g.Unsqueeze(p, [1]) for p in places), axis=1)
    if fits:
        inside = reduce(g.And, fits)
        kept = g.Squeeze(g.NonZero(inside), [0])
        indices, values = g.Gather(indices, kept, axis=0), g.Gather(values, kept, axis=0)
    inner = list(g.shape(values)[1:])
    whole = g.Concat(*dims, *([g.Shape(values, start=1)] if inner else []), axis=0)
    filled = g.ScatterND(g.Expand(default_value, whole), indices, values)
    return g.facts(filled, g.dtype(values), [*(None if a == -1 else a for a in asked), *inner])


def _row_splits(g: Graph, tensors: Sequence[ir.Value], kinds: list[str]) -> list[ir.Value] | None:
    """Return the splits of each level, from splits or from row numbers of values."""
    rows: ir.Value | None = None  # the number of rows of the next level
    levels: list[ir.Value] = []
    for kind, given in zip(kinds, tensors, strict=True):
        if kind == "FIRST_DIM_SIZE" and rows is None:
            rows = g.Reshape(int64(g, given), [1])
            continue
        if kind == "ROW_SPLITS":
            levels.append(int64(g, given))
            rows = g.facts(g.Slice(levels[-1], [-1], [np.iinfo(np.int64).max], [0]), shape=[1])
            continue
        if kind != "VALUE_ROWIDS" or rows is None:
            return None
        ids = int64(g, given)
        counts = g.ScatterND(
            g.Expand(g.const(0, _INT64), rows), g.Unsqueeze(ids, [1]),
            g.Expand(g.const(1, _INT64), g.Shape(ids)), reduction="add",
        )  # fmt: skip
        levels.append(_splits_from_lengths(g, counts))
        rows = g.Shape(ids)
    return levels or None


@tf_op("RaggedTensorToVariant")
def ragged_to_variant(
    g: Graph, rt_nested_splits: Sequence[ir.Value], rt_dense_values: ir.Value, *, batched_input: bool
) -> RaggedTensor:
    return RaggedTensor(tuple(rt_nested_splits), rt_dense_values)


@tf_op("RaggedTensorFromVariant")
def ragged_from_variant(
    g: Graph, encoded_ragged: Any, *, input_ragged_rank: int, output_ragged_rank: int
) -> list[ir.Value]:
    if not isinstance(encoded_ragged, RaggedTensor) or len(encoded_ragged.splits) != output_ragged_rank:
        raise Unsupported(SUBSETS)
    return [*encoded_ragged.splits, encoded_ragged.values]
