"""Sorting, selecting and joining entries of sparse tensors, by their flat index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ...common.half_precision import BFLOAT16, in_float32
from ...common.lazy_reshape import int64
from ...rules import tf_op
from .tensors import dense_strides


@tf_op("SparseReorder")
def sparse_reorder(g: Graph, input_indices: ir.Value, input_values: ir.Value, input_shape: ir.Value) -> list[ir.Value]:
    return _in_order(g, int64(g, input_indices), input_values, int64(g, input_shape))


@tf_op("SparseSlice")
@in_float32(BFLOAT16)
def sparse_slice(
    g: Graph, indices: ir.Value, values: ir.Value, shape: ir.Value, start: ir.Value, size: ir.Value
) -> list[ir.Value]:
    """SparseSlice: entries inside a box, counted from its corner; the box is clipped to the tensor."""
    at, whole, first = int64(g, indices), int64(g, shape), int64(g, start)
    box = g.Max(g.Min(int64(g, size), g.Sub(whole, first)), np.int64(0))
    moved = g.Sub(at, first)
    inside = g.And(g.GreaterOrEqual(moved, np.int64(0)), g.Less(moved, box))
    outside = g.ReduceSum(g.Cast(g.Not(inside), to=ir.DataType.INT64), [1], keepdims=0)
    kept = g.Equal(outside, np.int64(0))
    return [
        g.facts(g.Compress(moved, kept, axis=0), ir.DataType.INT64, [None, *g.shape(indices)[1:]]),
        g.facts(g.Compress(values, kept, axis=0), g.dtype(values), [None]),
        box,
    ]


@tf_op("SparseConcat")
def sparse_concat(
    g: Graph, indices: Sequence[ir.Value], values: Sequence[ir.Value], shapes: Sequence[ir.Value], *, concat_dim: int
) -> list[ir.Value]:
    """SparseConcat: indices of all tensors but the first are shifted by the sizes before them, and all indices are
    sorted.
    """
    rank = g.shape(indices[0])[1]
    assert isinstance(rank, int)
    axis = concat_dim % rank
    at_axis: np.ndarray = np.eye(1, rank, axis, dtype=np.int64)[0]
    wide = [int64(g, s) for s in shapes]
    moved, before = [int64(g, indices[0])], None
    for at, shape in zip(indices[1:], wide[:-1], strict=True):
        before = g.Mul(shape, at_axis) if before is None else g.Add(before, g.Mul(shape, at_axis))
        moved.append(g.Add(int64(g, at), before))
    whole = wide[0]
    for shape in wide[1:]:
        whole = g.Add(whole, g.Mul(shape, at_axis))
    found = _in_order(g, g.Concat(*moved, axis=0), g.Concat(*values, axis=0), whole)
    return [*found, whole]


@tf_op("SparseAdd")
def sparse_add(
    g: Graph,
    a_indices: ir.Value,
    a_values: ir.Value,
    a_shape: ir.Value,
    b_indices: ir.Value,
    b_values: ir.Value,
    b_shape: ir.Value,
    thresh: ir.Value,
) -> list[ir.Value]:
    """SparseAdd: the union of indices, sorted; sums smaller than `thresh` are dropped (sparse_add_op.cc)."""
    shape = int64(g, a_shape)
    strides = dense_strides(g, shape)
    at = g.Concat(int64(g, a_indices), int64(g, b_indices), axis=0)
    values = g.Concat(a_values, b_values, axis=0)
    places, _, inverse, _ = g.Unique(g.ReduceSum(g.Mul(at, strides), [1], keepdims=0), axis=0, sorted=1, outputs=4)
    zeros = g.Expand(g.const(0, g.dtype(values)), g.Shape(places))
    sums = g.ScatterElements(zeros, inverse, values, axis=0, reduction="add")
    kept = g.LessOrEqual(thresh, g.Abs(sums))
    places = g.Compress(places, kept, axis=0)
    found = g.Mod(g.Div(g.Unsqueeze(places, [1]), strides), shape)
    return [
        g.facts(found, ir.DataType.INT64, [None, *g.shape(a_indices)[1:]]),
        g.facts(g.Compress(sums, kept, axis=0), g.dtype(values), [None]),
        shape,
    ]


@tf_op("SparseSoftmax")
def sparse_softmax(g: Graph, sp_indices: ir.Value, sp_values: ir.Value, sp_shape: ir.Value) -> ir.Value:
    """SparseSoftmax along the last dim over existing entries; entries of a row agree in all other indices."""
    at, strides = int64(g, sp_indices), dense_strides(g, int64(g, sp_shape))
    rank = g.shape(sp_indices)[1]
    assert isinstance(rank, int)
    rows = g.ReduceSum(
        g.Mul(g.Slice(at, [0], [rank - 1], [1]), g.Slice(strides, [0], [rank - 1], [0])), [1], keepdims=0
    )
    names, _, inverse, _ = g.Unique(rows, axis=0, sorted=1, outputs=4)
    dtype = g.dtype(sp_values)
    lowest = g.Expand(g.const(np.finfo(dtype.numpy()).min, dtype), g.Shape(names))
    most = g.ScatterElements(lowest, inverse, sp_values, axis=0, reduction="max")
    parts = g.Exp(g.Sub(sp_values, g.Gather(most, inverse, axis=0)))
    zeros = g.Expand(g.const(0, dtype), g.Shape(names))
    sums = g.ScatterElements(zeros, inverse, parts, axis=0, reduction="add")
    return g.facts(g.Div(parts, g.Gather(sums, inverse, axis=0)), dtype, g.shape(sp_values))


def _in_order(g: Graph, at: ir.Value, values: ir.Value, shape: ir.Value) -> list[ir.Value]:
    """Return entries sorted by their flat index."""
    numbers = g.ReduceSum(g.Mul(at, dense_strides(g, shape)), [1], keepdims=0)
    _, order = g.TopK(numbers, g.Shape(numbers), axis=0, largest=0, outputs=2)
    return [
        g.facts(g.Gather(at, order, axis=0), ir.DataType.INT64, g.shape(at)),
        g.facts(g.Gather(values, order, axis=0), g.dtype(values), g.shape(values)),
    ]
