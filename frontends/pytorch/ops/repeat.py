"""Operators that repeat elements: broadcasting, tiling, grids."""

from __future__ import annotations

import torch

from ..common.sizes import axis_of, broadcast_to_rank, reshape, size, vector
from ..common.values import cast, promote_operands
from ..rules import torch_op
from .shape import atleast_1d, flatten


@torch_op("expand", "expand_copy", "broadcast_to")
def expand(g, x, size, *, implicit=False):
    """expand; a dim of -1 keeps its length, which ONNX writes as 1."""
    x = broadcast_to_rank(g, x, len(size))
    dims = [1 if isinstance(d, int) and d == -1 else d for d in size]
    if all(d == have or d == 1 for d, have in zip(dims, g.shape(x), strict=True) if isinstance(d, int)) and all(
        isinstance(d, int) for d in dims
    ):
        return x
    return g.Expand(x, vector(g, dims))


@torch_op("expand_as")
def expand_as(g, x, other):
    return g.Expand(x, g.dims(other))


@torch_op("broadcast_tensors")
def broadcast_tensors(g, tensors):
    shape = None
    for x in tensors:
        zero = g.Expand(g.const(0), g.dims(x))
        shape = zero if shape is None else g.Add(shape, zero)
    return [g.Expand(x, g.dims(shape)) for x in tensors]


@torch_op("repeat")
def repeat(g, x, repeats):
    x = broadcast_to_rank(g, x, len(repeats))
    return g.Tile(x, vector(g, repeats)) if repeats else x


@torch_op("tile")
def tile(g, x, dims):
    return repeat(g, x, [1] * (g.rank(x) - len(dims)) + list(dims))


@torch_op("repeat_interleave.self_int")
def repeat_interleave(g, x, repeats, dim=None, *, output_size=None):
    if dim is None:
        x, dim = flatten(g, x), 0
    if g.rank(x) == 0:
        x = g.Reshape(x, [1])
    axis = axis_of(g, x, dim)
    spread = g.Unsqueeze(x, [axis + 1])
    repeated = g.Tile(spread, vector(g, [*[1] * (axis + 1), repeats, *[1] * (g.rank(x) - axis - 1)]))
    dims = [size(g, x, d) for d in range(g.rank(x))]
    length = dims[axis] * repeats if isinstance(dims[axis], int) and isinstance(repeats, int) else -1
    return reshape(g, repeated, [*dims[:axis], length, *dims[axis + 1 :]])


@torch_op("repeat_interleave.self_Tensor")
def repeat_interleave_each(g, x, repeats, dim=None, *, output_size=None):
    """Return x with its rows repeated; `repeats` is one number for all rows, or one number for each."""
    if dim is None:
        x, dim = flatten(g, x), 0
    x = atleast_1d(g, x)
    axis = axis_of(g, x, dim)
    length = g.Shape(x, start=axis, end=axis + 1)
    return g.Gather(x, repeated_places(g, g.Expand(atleast_1d(g, repeats), length)), axis=axis)


@torch_op("repeat_interleave.Tensor")
def repeated_places(g, repeats, *, output_size=None):
    """Return each index i repeats[i] times in a row: 0, 0, 1, 2, 2, 2 for repeats of 2, 1, 3.

    The indices are a running sum that increases by 1 at the end of each run.
    """
    ends = g.CumSum(cast(g, repeats, torch.int64), 0)
    total = g.ReduceMax(g.Concat(g.const([0]), ends, axis=0), keepdims=1)
    blank = g.Expand(g.const(0), g.Add(total, 1))
    steps = g.ScatterElements(blank, ends, g.Expand(g.const(1), g.Shape(ends)), axis=0, reduction="add")
    return g.Slice(g.CumSum(steps, 0), [0], total, [0])


@torch_op("meshgrid", "meshgrid.indexing")
def meshgrid(g, tensors, *, indexing="ij"):
    rank = len(tensors)
    order = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    placed = []
    for place, x in zip(order, (atleast_1d(g, x) for x in tensors), strict=True):
        placed.append(g.Unsqueeze(x, [i for i in range(rank) if i != place]) if rank > 1 else x)
    if rank == 1:
        return placed
    shape = g.Concat(*(g.dims(atleast_1d(g, tensors[order.index(i)])) for i in range(rank)), axis=0)
    return [g.Expand(x, shape) for x in placed]


@torch_op("cartesian_prod")
def cartesian_prod(g, tensors):
    """Return all combinations of one element of each tensor; the last tensor varies fastest."""
    if len(tensors) == 1:
        return tensors[0]
    return g.Concat(*(g.Reshape(x, [-1, 1]) for x in meshgrid(g, promote_operands(g, *tensors))), axis=1)
