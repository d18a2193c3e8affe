"""Tensors put together and taken apart: Concat, Pack, Split, Tile and their like."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import dims_of

from ..common import shape_values
from ..common.half_precision import BFLOAT16, in_float32
from ..common.lazy_reshape import int64, split_weight, squeeze_weight, unsqueeze
from ..rules import tf_op


@tf_op("ConcatV2")
def concat_v2(g: Graph, values: Sequence[ir.Value], axis: ir.Value) -> ir.Value:
    return g.Concat(*values, axis=shape_values.integer(axis, "axis"))


@tf_op("Concat")
def concat(g: Graph, concat_dim: ir.Value, values: Sequence[ir.Value]) -> ir.Value:
    return g.Concat(*values, axis=shape_values.integer(concat_dim, "concat_dim"))


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
    axis = shape_values.integer(split_dim, "split_dim")
    if value.const_value is not None:
        axis %= len(value.const_value.shape)
        return split_weight(g, value, [dims_of(value.const_value)[axis] // num_split] * num_split, axis)
    return g.Split(value, axis=axis, num_outputs=num_split, outputs=num_split)


@tf_op("SplitV")
def split_v(g: Graph, value: ir.Value, size_splits: ir.Value, split_dim: ir.Value, *, num_split: int) -> list[ir.Value]:
    axis = shape_values.integer(split_dim, "split_dim")
    content = shape_values.content(size_splits)
    sizes = int64(g, size_splits)
    if content is None or not all(isinstance(s, int) for s in content):
        if num_split == 1:
            return [value]
    elif -1 in content:
        total = g.shape(value)[axis]
        if not isinstance(total, int):
            raise Unsupported("a size of -1 along a dim that is not static")
        left = total - sum(s for s in content if s != -1)
        sizes = g.const(np.array([left if s == -1 else s for s in content], np.int64))
    parts = g.Split(value, sizes, axis=axis, outputs=num_split)
    return parts if isinstance(parts, list) else [parts]


@tf_op("ReverseV2")
def reverse_v2(g: Graph, tensor: ir.Value, axis: ir.Value) -> ir.Value:
    axes = shape_values.ints(axis, "axis")
    return reverse_along(g, tensor, axes)


def reverse_along(g: Graph, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """`x` with the order of its elements along `axes` turned round."""
    count = len(axes)
    if not count:
        return x
    last, first = np.full(count, -1, np.int64), np.full(count, np.iinfo(np.int64).min, np.int64)
    y = g.Slice(x, last, first, np.array(axes, np.int64), np.full(count, -1, np.int64))
    return y if x.shape is None else g.facts(y, shape=g.shape(x))


@tf_op("ReverseSequence")
@in_float32(BFLOAT16)
def reverse_sequence(g: Graph, input: ir.Value, seq_lengths: ir.Value, *, seq_dim: int, batch_dim: int) -> ir.Value:
    """ONNX has it for batch and time in the first two dims; others are moved there and back."""
    rank = g.rank(input)
    order = [batch_dim, seq_dim, *(i for i in range(rank) if i not in (batch_dim, seq_dim))]
    straight = order == list(range(rank))
    x = input if straight else g.Transpose(input, perm=order)
    y = g.ReverseSequence(x, int64(g, seq_lengths), batch_axis=0, time_axis=1)
    return y if straight else g.Transpose(y, perm=[order.index(i) for i in range(rank)])


@tf_op("Roll")
def roll(g: Graph, input: ir.Value, shift: ir.Value, axis: ir.Value) -> ir.Value:
    axes = shape_values.ints(axis, "axis")
    content = shape_values.content(shift)
    if content is None or not all(isinstance(s, int) for s in content.ravel()):
        return _roll_dynamic(g, input, g.Reshape(int64(g, shift), [-1]), axes)
    for step, along in zip(shape_values.ints(shift, "shift"), axes, strict=True):
        size = g.shape(input)[along]
        if isinstance(size, int):
            step %= size or 1
        if step:
            tail = g.Slice(input, [-step], [np.iinfo(np.int64).max], [along])
            input = g.Concat(tail, g.Slice(input, [0], [-step], [along]), axis=along)
    return input


def _roll_dynamic(g: Graph, x: ir.Value, shifts: ir.Value, axes: Sequence[int]) -> ir.Value:
    """By as much as data says: element i comes from i - shift, counted round."""
    dims = g.shape(x)
    for place, along in enumerate(axes):
        size = g.Shape(x, start=along % len(dims), end=along % len(dims) + 1)
        places = g.Range(0, g.Squeeze(size, [0]), 1)
        x = g.Gather(x, g.Mod(g.Sub(places, g.Slice(shifts, [place], [place + 1], [0])), size), axis=along)
    return g.facts(x, shape=dims)


@tf_op("InvertPermutation")
def invert_permutation(g: Graph, x: ir.Value) -> ir.Value:
    count = g.Shape(x)
    order = g.Cast(g.Range(0, g.Squeeze(count, [0]), 1), to=x.dtype)
    return g.ScatterElements(x, int64(g, x), order, axis=0)
