"""Joining and splitting tensors: Concat, Pack, Split, Tile and similar operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.tensors import dims_of

from ..common import shape_values
from ..common.computed_axis import MIDDLE, restore, view_around
from ..common.half_precision import BFLOAT16, in_float32
from ..common.lazy_reshape import int64, split_weight, squeeze_weight, unsqueeze
from ..rules import tf_op


@tf_op("ConcatV2")
def concat_v2(g: Graph, values: Sequence[ir.Value], axis: ir.Value) -> ir.Value:
    return _concat_along(g, values, axis)


@tf_op("Concat")
def concat(g: Graph, concat_dim: ir.Value, values: Sequence[ir.Value]) -> ir.Value:
    return _concat_along(g, values, concat_dim)


def _concat_along(g: Graph, values: Sequence[ir.Value], axis: ir.Value) -> ir.Value:
    if shape_values.is_known(axis):
        return g.Concat(*values, axis=shape_values.integer(axis, "axis"))
    views = [view_around(g, v, axis) for v in values]
    y = g.Concat(*(v.whole for v in views), axis=MIDDLE)
    return restore(g, views[0], y, g.Shape(y, start=MIDDLE, end=MIDDLE + 1), g.rank(values[0]))


@tf_op("Pack")
def pack(g: Graph, values: Sequence[ir.Value], *, axis: int) -> ir.Value:
    return g.Concat(
        *(unsqueeze(g, v, [axis % (len(v.shape) + 1) if v.shape is not None else axis]) for v in values), axis=axis
    )


@tf_op("Unpack")
def unpack(g: Graph, value: ir.Value, *, num: int, axis: int) -> list[ir.Value]:
    if num == 0:
        return []
    if value.const_value is not None:
        rank = len(value.const_value.shape)
        return [squeeze_weight(g, part, axis % rank) for part in split_weight(g, value, [1] * num, axis % rank)]
    parts = g.Split(value, axis=axis, num_outputs=num, outputs=num) if num > 1 else [value]
    return [g.Squeeze(part, [axis]) for part in (parts if isinstance(parts, list) else [parts])]


@tf_op("Split")
def split(g: Graph, split_dim: ir.Value, value: ir.Value, *, num_split: int) -> list[ir.Value]:
    if num_split == 1:
        return [value]
    if not shape_values.is_known(split_dim):
        return _split_along_computed(g, value, split_dim, None, num_split)
    axis = shape_values.integer(split_dim, "split_dim")
    if value.const_value is not None:
        axis %= len(value.const_value.shape)
        return split_weight(g, value, [dims_of(value.const_value)[axis] // num_split] * num_split, axis)
    return g.Split(value, axis=axis, num_outputs=num_split, outputs=num_split)


@tf_op("SplitV")
def split_v(g: Graph, value: ir.Value, size_splits: ir.Value, split_dim: ir.Value, *, num_split: int) -> list[ir.Value]:
    if num_split == 1:
        return [value]
    if not shape_values.is_known(split_dim):
        return _split_along_computed(g, value, split_dim, int64(g, size_splits), num_split)
    axis = shape_values.integer(split_dim, "split_dim")
    content, total = shape_values.content(size_splits), g.shape(value)[axis]
    if (
        content is not None
        and all(isinstance(s, int) for s in content)
        and (-1 not in content or isinstance(total, int))
    ):
        left = total - sum(s for s in content if s != -1) if isinstance(total, int) else 0
        return g.Split(value, np.array([left if s == -1 else s for s in content]), axis=axis, outputs=num_split)
    sizes = _filled_sizes(
        g, int64(g, size_splits), g.Shape(value, start=axis % g.rank(value), end=axis % g.rank(value) + 1)
    )
    dims = [None if i == axis % g.rank(value) else d for i, d in enumerate(g.shape(value))]
    return [g.facts(part, g.dtype(value), dims) for part in g.Split(value, sizes, axis=axis, outputs=num_split)]


def _filled_sizes(g: Graph, sizes: ir.Value, total: ir.Value) -> ir.Value:
    """Return sizes with a -1 replaced by what the others leave of `total`, [1]."""
    given = g.Max(sizes, [0])
    return g.Where(g.Less(sizes, [0]), g.Sub(total, g.ReduceSum(given, [0], keepdims=1)), given)


def _split_along_computed(
    g: Graph, value: ir.Value, axis: ir.Value, sizes: ir.Value | None, count: int
) -> list[ir.Value]:
    view = view_around(g, value, axis)
    if sizes is None:
        parts = g.Split(view.whole, axis=MIDDLE, num_outputs=count, outputs=count)
    else:
        sizes = _filled_sizes(g, sizes, g.Shape(view.whole, start=MIDDLE, end=MIDDLE + 1))
        parts = g.Split(view.whole, sizes, axis=MIDDLE, outputs=count)
    lengths = [g.Shape(part, start=MIDDLE, end=MIDDLE + 1) for part in parts]
    return [restore(g, view, part, n, g.rank(value)) for part, n in zip(parts, lengths, strict=True)]


@tf_op("ReverseV2")
def reverse_v2(g: Graph, tensor: ir.Value, axis: ir.Value) -> ir.Value:
    if shape_values.is_known(axis):
        return reverse_along(g, tensor, shape_values.ints(axis, "axis"))
    axes = int64(g, axis)
    last, first = (g.Expand(np.int64(n), g.Shape(axes)) for n in (-1, np.iinfo(np.int64).min))
    y = g.Slice(tensor, last, first, axes, last)
    return y if tensor.shape is None else g.facts(y, g.dtype(tensor), g.shape(tensor))


def reverse_along(g: Graph, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """Return `x` reversed along `axes`."""
    count = len(axes)
    if not count:
        return x
    last, first = np.full(count, -1, np.int64), np.full(count, np.iinfo(np.int64).min, np.int64)
    y = g.Slice(x, last, first, np.array(axes, np.int64), np.full(count, -1, np.int64))
    return y if x.shape is None else g.facts(y, shape=g.shape(x))


@tf_op("ReverseSequence")
@in_float32(BFLOAT16)
def reverse_sequence(g: Graph, input: ir.Value, seq_lengths: ir.Value, *, seq_dim: int, batch_dim: int) -> ir.Value:
    """ONNX's ReverseSequence needs batch and time in the first two dims; others are moved there and back."""
    rank = g.rank(input)
    order = [batch_dim, seq_dim, *(i for i in range(rank) if i not in (batch_dim, seq_dim))]
    straight = order == list(range(rank))
    x = input if straight else g.Transpose(input, perm=order)
    y = g.ReverseSequence(x, int64(g, seq_lengths), batch_axis=0, time_axis=1)
    return y if straight else g.Transpose(y, perm=[order.index(i) for i in range(rank)])


@tf_op("Roll")
def roll(g: Graph, input: ir.Value, shift: ir.Value, axis: ir.Value) -> ir.Value:
    if not shape_values.is_known(axis):
        return _roll_along_computed(g, input, shift, axis)
    axes = shape_values.ints(axis, "axis")
    content = shape_values.content(shift)
    if content is None or not all(isinstance(s, int) for s in content.ravel()):
        return _roll_dynamic(g, input, g.Reshape(int64(g, shift), [-1]), axes)
    dims = g.shape(input)
    for step, along in zip(shape_values.ints(shift, "shift"), axes, strict=True):
        size = dims[along]
        step = step % (size or 1) if isinstance(size, int) else step
        if not step:
            continue
        start: ir.Value | list[int] = [-step]
        if not isinstance(size, int) and abs(step) > 1:  # the indices wrap around if the dim is shorter
            along %= len(dims)
            length = g.Shape(input, start=along, end=along + 1)
            start = g.Sub(length, g.Mod(np.int64(step), g.Max(length, [1])))
        tail = g.Slice(input, start, [np.iinfo(np.int64).max], [along])
        input = g.facts(g.Concat(tail, g.Slice(input, [0], start, [along]), axis=along), shape=dims)
    return input


def _roll_dynamic(g: Graph, x: ir.Value, shifts: ir.Value, axes: Sequence[int]) -> ir.Value:
    """Roll by run-time amounts: element i comes from i - shift, wrapped around."""
    dims = g.shape(x)
    for place, along in enumerate(axes):
        size = g.Shape(x, start=along % len(dims), end=along % len(dims) + 1)
        places = g.Range(0, g.Squeeze(size, [0]), 1)
        x = g.Gather(x, g.Mod(g.Sub(places, g.Slice(shifts, [place], [place + 1], [0])), size), axis=along)
    return g.facts(x, shape=dims)


def _roll_along_computed(g: Graph, x: ir.Value, shift: ir.Value, axis: ir.Value) -> ir.Value:
    """Roll along each dim, by the sum of the shifts given for it."""
    rank = g.rank(x)
    axes, shifts = (g.Reshape(int64(g, v), [-1, 1]) for v in (axis, shift))
    own = g.Equal(g.Where(g.Less(axes, [[0]]), g.Add(axes, [[rank]]), axes), np.arange(rank))
    return _roll_dynamic(g, x, g.ReduceSum(g.Where(own, shifts, [[0]]), [0], keepdims=0), range(rank))


@tf_op("InvertPermutation")
def invert_permutation(g: Graph, x: ir.Value) -> ir.Value:
    count = g.Shape(x)
    order = g.Cast(g.Range(0, g.Squeeze(count, [0]), 1), to=x.dtype)
    return g.ScatterElements(x, int64(g, x), order, axis=0)
