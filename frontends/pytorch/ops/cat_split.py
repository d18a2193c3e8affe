"""Concatenation, splits and slices."""

from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.markers import PIECES
from ..common.sizes import axis_of, vector
from ..common.values import promote_operands
from ..rules import torch_op
from .shape import END, atleast_1d


@torch_op("cat", "concat", "concatenate")
def cat(g, tensors, dim=0):
    kept = [x for x in tensors if x.shape is None or not (g.rank(x) == 1 and g.shape(x)[0] == 0)] or tensors[:1]
    return g.Concat(*promote_operands(g, *kept), axis=axis_of(g, kept[0], dim)) if len(kept) > 1 else kept[0]


@torch_op("stack")
def stack(g, tensors, dim=0):
    axis = dim + g.rank(tensors[0]) + 1 if dim < 0 else dim
    return g.Concat(*(g.Unsqueeze(x, [axis]) for x in promote_operands(g, *tensors)), axis=axis)


def _unsqueeze_to_rank(g: Graph, x: ir.Value, rank: int) -> ir.Value:
    if g.rank(x) >= rank:
        return x
    axes = {2: {0: [0, 1], 1: [0]}, 3: {0: [0, 1, 2], 1: [0, 2], 2: [2]}}[rank][g.rank(x)]
    return g.Unsqueeze(x, axes)


@torch_op("hstack")
def hstack(g, tensors):
    parts = [atleast_1d(g, x) for x in tensors]
    return cat(g, parts, 0 if g.rank(parts[0]) == 1 else 1)


@torch_op("vstack", "row_stack")
def vstack(g, tensors):
    return cat(g, [_unsqueeze_to_rank(g, x, 2) for x in tensors], 0)


@torch_op("dstack")
def dstack(g, tensors):
    return cat(g, [_unsqueeze_to_rank(g, x, 3) for x in tensors], 2)


@torch_op("column_stack")
def column_stack(g, tensors):
    return cat(g, [g.Reshape(x, [-1, 1]) if g.rank(x) <= 1 else x for x in tensors], 1)


def _split_pieces(g: Graph, x: ir.Value, sizes: list[int], axis: int) -> list[ir.Value]:
    if len(sizes) == 1:
        return [x]
    return g.Split(x, sizes, axis=axis, outputs=len(sizes))


@torch_op("split", "split_copy", "unsafe_split")
def split(g, x, split_size, dim=0):
    if not isinstance(split_size, int):
        return split_with_sizes(g, x, split_size, dim)
    axis, length = axis_of(g, x, dim), _static_length(g, x, dim, "split")
    if split_size == 0:
        return [x]
    return _split_pieces(g, x, [min(split_size, length - i) for i in range(0, length, split_size)] or [0], axis)


@torch_op("split_with_sizes", "split.sizes", "split_with_sizes_copy", "unsafe_split_with_sizes")
def split_with_sizes(g, x, split_sizes, dim=0):
    if all(isinstance(s, int) for s in split_sizes):
        return _split_pieces(g, x, split_sizes, axis_of(g, x, dim))
    axis = axis_of(g, x, dim)
    pieces = g.Split(x, vector(g, split_sizes), axis=axis, outputs=len(split_sizes))
    lengths = [s if isinstance(s, int) else None for s in split_sizes]
    if x.shape is not None:
        dims = g.shape(x)
        for piece, length in zip(pieces if len(lengths) > 1 else [pieces], lengths, strict=True):
            g.facts(piece, shape=[*dims[:axis], length, *dims[axis + 1 :]])
    return pieces


@torch_op("chunk", "unsafe_chunk")
def chunk(g, x, chunks, dim=0):
    length = _static_length(g, x, dim, "chunk")
    return split(g, x, max(-(-length // chunks), 1), dim) if length else [x] * chunks


@torch_op("tensor_split.tensor_indices_or_sections")
def tensor_split_at(g, x, places, dim=0):
    """Split at run-time bounds."""
    count = g.shape(places)[0] if g.rank(places) == 1 else None
    if not isinstance(count, int):
        raise Unsupported(PIECES)
    axis = axis_of(g, x, dim)
    last = np.iinfo(np.int64).max
    bounds = [g.Slice(g.Cast(places, to=ir.DataType.INT64), [i], [i + 1], [0]) for i in range(count)]
    bounds = [g.const([0]), *bounds, g.const([last])]
    return [g.Slice(x, a, b, [axis]) for a, b in itertools.pairwise(bounds)]


@torch_op("tensor_split")
def tensor_split(g, x, sections, dim=0):
    axis = axis_of(g, x, dim)
    length = g.shape(x)[axis]
    if isinstance(length, int):
        each, more = divmod(length, sections)
        return _split_pieces(g, x, [each + (i < more) for i in range(sections)], axis)
    rows = g.Shape(x, start=axis, end=axis + 1)
    longer = g.Less(np.arange(sections), g.Mod(rows, sections))
    return g.Split(x, g.Add(g.Div(rows, sections), g.Cast(longer, to=ir.DataType.INT64)), axis=axis, outputs=sections)


@torch_op("tensor_split.indices")
def tensor_split_indices(g, x, indices, dim=0):
    length = g.shape(x)[axis_of(g, x, dim)]
    if isinstance(length, int):
        indices = [min(max(i + length if i < 0 else i, 0), length) for i in indices]
    bounds = [0, *indices, END]
    return [g.Slice(x, [a], [b], [axis_of(g, x, dim)]) for a, b in itertools.pairwise(bounds)]


@torch_op("unbind", "unbind_copy")
def unbind(g, x, dim=0):
    axis, length = axis_of(g, x, dim), _static_length(g, x, dim, "unbind")
    if length == 0:  # no pieces; ONNX's Split cannot return that
        return []
    return [g.Squeeze(p, [axis]) for p in _split_pieces(g, x, [1] * length, axis)]


def _static_length(g: Graph, x: ir.Value, dim: int, what: str) -> int:
    length = g.shape(x)[axis_of(g, x, dim)]
    if not isinstance(length, int):
        raise Unsupported(f"{what} along a dim of unknown length, which gives a number of pieces that is not known")
    return length


@torch_op("select", "select_copy")
def select(g, x, dim, index):
    axis = axis_of(g, x, dim)
    return g.Gather(x, index, axis=axis)


@torch_op("slice", "slice_copy")
def slice_(g, x, dim=0, start=None, end=None, step=1):
    axis = axis_of(g, x, dim)
    start = 0 if start is None else start
    end = END if end is None else end
    length = g.shape(x)[axis]
    from_start = isinstance(start, int) and start == 0 and step == 1
    if from_start and isinstance(end, int) and (end >= END or (isinstance(length, int) and end >= length)):
        return x
    return g.Slice(x, vector(g, start), vector(g, end), [axis], vector(g, step))


@torch_op("narrow", "narrow_copy")
def narrow(g, x, dim, start, length):
    axis = axis_of(g, x, dim)
    if isinstance(start, int) and isinstance(length, int):
        end = start + length
        return g.Slice(x, [start], [END if end == 0 else end], [axis])
    first = vector(g, start)
    return g.Slice(x, first, g.Add(first, vector(g, length)), [axis])


@torch_op("hsplit")
def hsplit(g, x, sections):
    return _split_at(g, x, sections, 0 if g.rank(x) == 1 else 1)


@torch_op("vsplit")
def vsplit(g, x, sections):
    return _split_at(g, x, sections, 0)


@torch_op("dsplit")
def dsplit(g, x, sections):
    return _split_at(g, x, sections, 2)


def _split_at(g: Graph, x: ir.Value, sections: int | list[int], dim: int) -> list[ir.Value]:
    return (tensor_split if isinstance(sections, int) else tensor_split_indices)(g, x, sections, dim)


@torch_op("atleast_2d")
def atleast_2d(g, x):
    return [_unsqueeze_to_rank(g, v, 2) for v in x] if isinstance(x, list) else _unsqueeze_to_rank(g, x, 2)


@torch_op("atleast_3d")
def atleast_3d(g, x):
    return [_unsqueeze_to_rank(g, v, 3) for v in x] if isinstance(x, list) else _unsqueeze_to_rank(g, x, 3)
