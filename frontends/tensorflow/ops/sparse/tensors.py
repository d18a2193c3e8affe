"""Sparse tensors in three parts (indices, values, shape), segments of gathered rows, and histograms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.reductions import reduce_dims

from ...common import shape_values
from ...common.lazy_reshape import cast, int64, transpose
from ...rules import tf_op
from ..segment import reduce_segments, segment_count, segment_sizes, unsqueeze_trailing


@tf_op("SparseSegmentSum")
def sparse_segment_sum(
    g: Graph, data: ir.Value, indices: ir.Value, segment_ids: ir.Value, *, sparse_gradient: bool = False
) -> ir.Value:
    """SparseSegmentSum; `sparse_gradient` affects gradients only, which a converted model does not return."""
    return _segment_sums(g, data, indices, segment_ids, None, 0.0)


@tf_op("SparseSegmentMean")
def sparse_segment_mean(
    g: Graph, data: ir.Value, indices: ir.Value, segment_ids: ir.Value, *, sparse_gradient: bool = False
) -> ir.Value:
    return _segment_sums(g, data, indices, segment_ids, None, 1.0)


@tf_op("SparseSegmentSqrtN")
def sparse_segment_sqrt_n(
    g: Graph, data: ir.Value, indices: ir.Value, segment_ids: ir.Value, *, sparse_gradient: bool = False
) -> ir.Value:
    return _segment_sums(g, data, indices, segment_ids, None, 0.5)


@tf_op("SparseSegmentSumWithNumSegments")
def sparse_segment_sum_with_count(
    g: Graph,
    data: ir.Value,
    indices: ir.Value,
    segment_ids: ir.Value,
    num_segments: ir.Value,
    *,
    sparse_gradient: bool = False,
) -> ir.Value:
    return _segment_sums(g, data, indices, segment_ids, num_segments, 0.0)


@tf_op("SparseSegmentMeanWithNumSegments")
def sparse_segment_mean_with_count(
    g: Graph,
    data: ir.Value,
    indices: ir.Value,
    segment_ids: ir.Value,
    num_segments: ir.Value,
    *,
    sparse_gradient: bool = False,
) -> ir.Value:
    return _segment_sums(g, data, indices, segment_ids, num_segments, 1.0)


@tf_op("SparseSegmentSqrtNWithNumSegments")
def sparse_segment_sqrt_n_with_count(
    g: Graph,
    data: ir.Value,
    indices: ir.Value,
    segment_ids: ir.Value,
    num_segments: ir.Value,
    *,
    sparse_gradient: bool = False,
) -> ir.Value:
    return _segment_sums(g, data, indices, segment_ids, num_segments, 0.5)


def _segment_sums(
    g: Graph, data: ir.Value, indices: ir.Value, ids: ir.Value, count: ir.Value | None, power: float
) -> ir.Value:
    """Return sums of gathered rows by segment, divided by the number of rows to `power`; empty segments are zero."""
    ids = int64(g, ids)
    number = segment_count(g, ids) if count is None else g.Reshape(int64(g, count), [1])
    total = reduce_segments(g, "Sum", g.Gather(data, indices, axis=0), ids, number, 0)
    if not power:
        return total
    rows = g.Cast(g.Max(segment_sizes(g, ids, number), np.ones(1, np.int64)), to=data.dtype)
    return g.Div(total, unsqueeze_trailing(g, rows if power == 1 else g.Sqrt(rows), g.rank(data) - 1))


@tf_op("SparseTensorDenseMatMul")
def sparse_dense_mat_mul(
    g: Graph,
    a_indices: ir.Value,
    a_values: ir.Value,
    a_shape: ir.Value,
    b: ir.Value,
    *,
    adjoint_a: bool,
    adjoint_b: bool,
) -> ir.Value:
    """SparseTensorDenseMatMul: each entry times a row of b is added to a row of the result; all other products are
    zero.
    """
    b = transpose(g, b, [1, 0]) if adjoint_b else b
    at, shape = int64(g, a_indices), int64(g, a_shape)
    own, other = (1, 0) if adjoint_a else (0, 1)
    rows = g.Gather(b, g.Gather(at, np.int64(other), axis=1), axis=0)
    count = shape_values.content(a_shape)
    sizes = g.Concat(g.Slice(shape, [own], [own + 1], [0]), g.Shape(b, start=1, end=2), axis=0)
    zeros = g.Expand(g.const(0, b.dtype), sizes)
    g.facts(zeros, shape=[None if count is None else count[own], g.shape(b)[1]])
    places = g.Slice(at, [own], [own + 1], [1])
    return g.ScatterND(zeros, places, g.Mul(g.Unsqueeze(a_values, [1]), rows), reduction="add")


def _dense_rule(operator: str) -> Callable[..., ir.Value]:
    """Return the rule of a binary operator on entries of a sparse tensor and the broadcast dense one."""

    def rule(g: Graph, sp_indices: ir.Value, sp_values: ir.Value, sp_shape: ir.Value, dense: ir.Value) -> ir.Value:
        whole = g.Expand(dense, int64(g, sp_shape))
        if sp_indices.shape is not None and isinstance(sp_indices.shape[-1], int):
            g.facts(whole, shape=[None] * sp_indices.shape[-1])
        return g.node(operator, [sp_values, g.GatherND(whole, int64(g, sp_indices))])

    return rule


tf_op.same(_dense_rule, SparseDenseCwiseMul="Mul", SparseDenseCwiseDiv="Div", SparseDenseCwiseAdd="Add")


@tf_op("SparseTensorDenseAdd")
def sparse_tensor_dense_add(
    g: Graph, a_indices: ir.Value, a_values: ir.Value, a_shape: ir.Value, b: ir.Value
) -> ir.Value:
    return g.ScatterND(b, int64(g, a_indices), a_values, reduction="add")


@tf_op("SparseReduceSum")
def sparse_reduce_sum(
    g: Graph,
    input_indices: ir.Value,
    input_values: ir.Value,
    input_shape: ir.Value,
    reduction_axes: ir.Value,
    *,
    keep_dims: bool,
) -> ir.Value:
    axes = shape_values.ints(reduction_axes, "reduction_axes")
    dense = _scatter_to_dense(g, input_indices, input_values, input_shape)
    return reduce_dims(g, "ReduceSum", dense, axes, keepdims=int(keep_dims))


def _scatter_to_dense(g: Graph, indices: ir.Value, values: ir.Value, shape: ir.Value) -> ir.Value:
    """Scatter to a dense tensor; entries with equal indices are added."""
    content = shape_values.content(shape)
    zeros = g.Expand(g.const(0, values.dtype), int64(g, shape))
    if content is not None:
        g.facts(zeros, shape=content.tolist())
    elif indices.shape is not None and isinstance(indices.shape[-1], int):
        g.facts(zeros, shape=[None] * indices.shape[-1])
    return g.ScatterND(zeros, int64(g, indices), values, reduction="add")


@tf_op("SparseReshape")
def sparse_reshape(g: Graph, input_indices: ir.Value, input_shape: ir.Value, new_shape: ir.Value) -> list[ir.Value]:
    """SparseReshape by flat indices: Σ index·stride, and back by division."""
    old, new = int64(g, input_shape), int64(g, new_shape)
    content = shape_values.content(new_shape)
    if content is None or sum(d == -1 for d in content.tolist()) > 0:
        size = g.ReduceProd(old, [0], keepdims=1)
        given = g.ReduceProd(g.Where(g.Equal(new, np.array(-1, np.int64)), np.array(1, np.int64), new), [0], keepdims=1)
        new = g.Where(g.Equal(new, np.array(-1, np.int64)), g.Div(size, g.Max(given, np.array([1], np.int64))), new)
    flat = g.ReduceSum(g.Mul(input_indices, dense_strides(g, old)), [1], keepdims=1)
    return [g.Mod(g.Div(flat, dense_strides(g, new)), new), new]


@tf_op("UnravelIndex")
def unravel_index(g: Graph, indices: ir.Value, dims: ir.Value) -> ir.Value:
    """UnravelIndex: indices from flat indices, one row per dim."""
    sizes = int64(g, dims)
    strides = dense_strides(g, sizes)
    if g.rank(indices):
        sizes, strides = g.Unsqueeze(sizes, [1]), g.Unsqueeze(strides, [1])
    return cast(g, g.Mod(g.Div(int64(g, indices), strides), sizes), g.dtype(indices))


def dense_strides(g: Graph, shape: ir.Value) -> ir.Value:
    """Return the number of elements that one step along each dim skips."""
    count = g.shape(shape)[0]
    if not isinstance(count, int):
        places = g.Range(0, g.Squeeze(g.Shape(shape), [0]), 1)
        behind = g.Less(g.Unsqueeze(places, [1]), g.Unsqueeze(places, [0]))
        return g.ReduceProd(g.Where(behind, g.Unsqueeze(shape, [0]), np.array(1, np.int64)), [1], keepdims=0)
    if count == 1:
        return g.const(np.ones(1, np.int64))
    parts = [g.ReduceProd(g.Slice(shape, [k + 1], [count], [0]), [0], keepdims=1) for k in range(count - 1)]
    return g.Concat(*parts, np.ones(1, np.int64), axis=0)


@tf_op("HistogramFixedWidth")
def histogram(
    g: Graph, values: ir.Value, value_range: ir.Value, nbins: ir.Value, *, dtype: ir.DataType = ir.DataType.INT32
) -> ir.Value:
    """HistogramFixedWidth: counts of ⌊(x - low) / ((high - low) / n)⌋ clamped to 0 … n - 1.

    Differences are computed in T, quotients in float64 (tensorflow/core/kernels/histogram_op.cc).
    """
    bins = shape_values.integer(nbins, "nbins")
    low, high = g.Split(value_range, axis=0, num_outputs=2, outputs=2)
    step = g.Div(cast(g, g.Sub(high, low), ir.DataType.DOUBLE), g.const(bins, ir.DataType.DOUBLE))
    above = cast(g, g.Sub(g.Max(g.Reshape(values, [-1]), low), low), ir.DataType.DOUBLE)
    place = g.Min(g.Div(above, step), g.const(bins - 1, ir.DataType.DOUBLE))
    hits = g.Equal(cast(g, place, ir.DataType.INT64), np.arange(bins).reshape(-1, 1))
    return cast(g, g.ReduceSum(cast(g, hits, ir.DataType.INT64), [1], keepdims=0), dtype)
