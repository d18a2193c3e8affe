"""Gather, scatter and search by index."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common import shape_values
from ..common.computed_axis import MIDDLE, restore, view_around
from ..common.lazy_reshape import int64
from ..rules import tf_op


@tf_op("Gather")
def gather(g: Graph, params: ir.Value, indices: ir.Value) -> ir.Value:
    return g.Gather(params, indices, axis=0)


@tf_op("GatherV2")
def gather_v2(g: Graph, params: ir.Value, indices: ir.Value, axis: ir.Value, *, batch_dims: int) -> ir.Value:
    if not shape_values.is_known(axis) and not batch_dims:
        view = view_around(g, params, axis)
        found = g.Gather(view.whole, indices, axis=MIDDLE)
        return restore(g, view, found, g.Shape(indices), g.rank(params) - 1 + g.rank(indices))
    along = shape_values.integer(axis, "axis")
    if not batch_dims:
        return g.Gather(params, indices, axis=along)
    rank, inner = g.rank(params), g.rank(indices)
    batch = batch_dims + (inner if batch_dims < 0 else 0)  # including all dims of `indices`
    if not (-rank <= along < rank and 0 <= batch <= min(inner, along % rank)):
        raise Unsupported(f"axis={along} and batch_dims={batch_dims} of {rank} dims, which TensorFlow refuses")
    along %= rank
    order = [*range(batch), along, *(i for i in range(batch, rank) if i != along)]
    x = params if along == batch else g.Transpose(params, perm=order)
    y = g.GatherND(x, g.Unsqueeze(int64(g, indices), [-1]), batch_dims=batch)
    if along == batch:
        return y
    # y has the batch dims, the other dims of indices, and the dims of params before and after `along`; restore the
    # order.
    found, before = inner - batch, along - batch
    rest = range(batch + found + before, g.rank(y))
    return g.Transpose(
        y, perm=[*range(batch), *range(batch + found, batch + found + before), *range(batch, batch + found), *rest]
    )


@tf_op("GatherNd")
def gather_nd(g: Graph, params: ir.Value, indices: ir.Value) -> ir.Value:
    return g.GatherND(params, int64(g, indices))


@tf_op("ScatterNd")
def scatter_nd(g: Graph, indices: ir.Value, updates: ir.Value, shape: ir.Value) -> ir.Value:
    zeros = g.Expand(g.const(0, updates.dtype), int64(g, shape))
    return g.ScatterND(zeros, int64(g, indices), updates, reduction="add")


@tf_op("TensorScatterUpdate")
def tensor_scatter_update(g: Graph, tensor: ir.Value, indices: ir.Value, updates: ir.Value) -> ir.Value:
    return g.ScatterND(tensor, int64(g, indices), updates)


@tf_op("TensorScatterAdd")
def tensor_scatter_add(g: Graph, tensor: ir.Value, indices: ir.Value, updates: ir.Value) -> ir.Value:
    return g.ScatterND(tensor, int64(g, indices), updates, reduction="add")


@tf_op("TensorScatterMax")
def tensor_scatter_max(g: Graph, tensor: ir.Value, indices: ir.Value, updates: ir.Value) -> ir.Value:
    return g.ScatterND(tensor, int64(g, indices), updates, reduction="max")


@tf_op("TensorScatterMin")
def tensor_scatter_min(g: Graph, tensor: ir.Value, indices: ir.Value, updates: ir.Value) -> ir.Value:
    return g.ScatterND(tensor, int64(g, indices), updates, reduction="min")


@tf_op("OneHot")
def one_hot(
    g: Graph, indices: ir.Value, depth: ir.Value, on_value: ir.Value, off_value: ir.Value, *, axis: int
) -> ir.Value:
    """OneHot by comparison: ONNX counts negative indices from the end, TensorFlow ignores them."""
    rank = g.rank(indices)
    axis = rank if axis == -1 else axis
    places = g.Range(0, g.Squeeze(int64(g, depth)), 1)
    shape = np.ones(rank + 1, np.int64)
    shape[axis] = -1
    return g.Where(g.Equal(g.Unsqueeze(int64(g, indices), [axis]), g.Reshape(places, shape)), on_value, off_value)


@tf_op("Where")
def where(g: Graph, input: ir.Value) -> ir.Value:
    """Return the indices of non-zero elements, one row each."""
    return g.Transpose(g.NonZero(input), perm=[1, 0])


@tf_op("MatrixBandPart")
def matrix_band_part(g: Graph, input: ir.Value, num_lower: ir.Value, num_upper: ir.Value) -> ir.Value:
    """MatrixBandPart as Trilu on both sides; a negative number keeps the whole side."""
    if input.dtype == ir.DataType.STRING:
        raise Unsupported("a band of strings")
    lower, upper = _diagonal_count(g, input, num_lower, -2), _diagonal_count(g, input, num_upper, -1)
    x = g.Trilu(input, g.Neg(lower), upper=1) if lower is not None else input
    return g.Trilu(x, upper, upper=0) if upper is not None else x


def _diagonal_count(g: Graph, x: ir.Value, number: ir.Value, axis: int) -> ir.Value | None:
    """Return how many diagonals are kept on one side, None for all; a negative run-time number becomes the whole
    dim.
    """
    content = shape_values.content(number)
    if content is not None and isinstance(content.item(), int):
        return g.const(np.array(content.item(), np.int64)) if content.item() >= 0 else None
    axis += g.rank(x)
    whole = g.Squeeze(g.Shape(x, start=axis, end=axis + 1), [0])
    count = g.Squeeze(int64(g, number))
    return g.Where(g.Less(count, np.int64(0)), whole, count)
