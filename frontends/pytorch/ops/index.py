"""Reading elements by index or mask, and writing them by index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import torch

from convert.graph import Graph

from ..common.sizes import axis_of, vector
from ..common.values import cast, is_bool, widen_bfloat16
from ..rules import torch_op
from .create import full_of_shape
from .shape import atleast_1d, flatten, movedim


def _cast_indices(g: Graph, index: ir.Value) -> ir.Value:
    return index if index.dtype in (ir.DataType.INT64, ir.DataType.INT32) else cast(g, index, torch.int64)


@torch_op("index_select")
def index_select(g, x, dim, index):
    if g.rank(x) == 0:
        return x
    index = g.Unsqueeze(index, [0]) if g.rank(index) == 0 else index
    return g.Gather(x, _cast_indices(g, index), axis=axis_of(g, x, dim))


@torch_op("gather")
def gather(g, x, dim, index, *, sparse_grad=False):
    if g.rank(x) == 0 or g.rank(index) == 0:
        return g.Reshape(g.Gather(flatten(g, x), flatten(g, index), axis=0), g.dims(index))
    return g.GatherElements(x, _cast_indices(g, index), axis=axis_of(g, x, dim))


@torch_op("take")
def take(g, x, index):
    return g.Gather(flatten(g, x), _cast_indices(g, index), axis=0)


@torch_op("take_along_dim")
def take_along_dim(g, x, indices, dim=None):
    if dim is None:
        return g.GatherElements(flatten(g, x), flatten(g, indices), axis=0)
    axis = axis_of(g, x, dim)
    rest = [tuple(d for i, d in enumerate(g.shape(v)) if i != axis) for v in (x, indices)]
    if rest[0] != rest[1] or None in rest[0]:
        shapes = [g.Where(g.Equal(np.arange(g.rank(x)), axis), 1, g.Shape(v)) for v in (indices, x)]
        x, indices = (g.Expand(v, shape) for v, shape in zip((x, indices), shapes, strict=True))
    return g.GatherElements(x, indices, axis=axis)


# -- x[i, :, mask] ----------------------------------------------------------------------------------------------------


def _integer_indices(g: Graph, x: ir.Value, indices: Sequence[ir.Value | None]) -> dict[int, ir.Value]:
    """Return index tensors by axis; a boolean mask over several dims becomes one index tensor per dim."""
    found: dict[int, ir.Value] = {}
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
            continue
        if is_bool(g, index) or index.dtype == ir.DataType.UINT8:
            places = g.NonZero(cast(g, index, torch.bool))
            for i in range(g.rank(index)):
                found[axis + i] = g.Gather(places, i, axis=0)
            axis += g.rank(index)
        else:
            found[axis] = _cast_indices(g, index)
            axis += 1
    return found


def _stack_indices(g: Graph, indices: Sequence[ir.Value]) -> ir.Value:
    """Return index tensors broadcast together and stacked in a last dim, as GatherND and ScatterND require."""
    wide = [cast(g, i, torch.int64) for i in indices]
    if len(wide) > 1 and (len({g.shape(i) for i in wide}) > 1 or None in g.shape(wide[0])):
        total = wide[0]
        for index in wide[1:]:
            total = g.Add(total, index)
        wide = [g.Expand(i, g.dims(total)) for i in wide]
    rank = g.rank(wide[0])
    return g.Concat(*(g.Unsqueeze(i, [rank]) for i in wide), axis=-1)


def _move_to_front(g: Graph, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """Return `x` with `axes` moved to the front."""
    perm = [*axes, *(i for i in range(g.rank(x)) if i not in axes)]
    return x if perm == sorted(perm) else g.Transpose(x, perm=perm)


def _is_adjacent(axes: Sequence[int]) -> bool:
    return list(axes) == list(range(axes[0], axes[0] + len(axes)))


@torch_op("index", "_unsafe_index")
def index(g, x, indices):
    """Index; the index dims replace the indexed dims if these are adjacent, else the index dims come first."""
    placed = _integer_indices(g, x, indices)
    if not placed:
        return x
    axes = list(placed)
    if len(axes) == 1:
        return g.Gather(x, placed[axes[0]], axis=axes[0])
    together = _stack_indices(g, list(placed.values()))
    out = g.GatherND(_move_to_front(g, x, axes), together)
    if not _is_adjacent(axes) or axes[0] == 0:
        return out
    width = g.rank(together) - 1
    return movedim(g, out, list(range(width)), list(range(axes[0], axes[0] + width)))


@torch_op("index_put", "_index_put_impl", "_unsafe_index_put")
def index_put(g, x, indices, values, accumulate=False, unsafe=False):
    present = [i for i in indices if i is not None]
    values = cast(g, values, g.dtype(x))
    if (
        len(present) == 1
        and is_bool(g, present[0])
        and indices[0] is not None
        and not accumulate
        and _is_single(g, values)
    ):
        behind = g.rank(x) - g.rank(present[0])
        mask = g.Unsqueeze(present[0], list(range(g.rank(present[0]), g.rank(x)))) if behind else present[0]
        return g.Where(mask, g.Reshape(values, np.zeros(0, np.int64)), x)
    placed = _integer_indices(g, x, indices)
    axes = list(placed)
    together = _stack_indices(g, list(placed.values()))
    front = _move_to_front(g, x, axes)
    region = g.GatherND(front, together)
    width = g.rank(together) - 1
    values = _region_values(g, values, region, width, axes)
    out = g.ScatterND(front, together, values, reduction="add" if accumulate else None)
    perm = [*axes, *(i for i in range(g.rank(x)) if i not in axes)]
    return out if perm == sorted(perm) else g.Transpose(out, perm=[perm.index(i) for i in range(len(perm))])


def _region_values(g: Graph, values: ir.Value, region: ir.Value, width: int, axes: Sequence[int]) -> ir.Value:
    """Return `values` broadcast to the written region; PyTorch puts index dims in place of adjacent indexed dims."""
    if not _is_adjacent(axes) or axes[0] == 0:
        return g.Expand(values, g.dims(region))
    place = list(range(axes[0], axes[0] + width))
    behind = movedim(g, region, list(range(width)), place)
    return movedim(g, g.Expand(values, g.dims(behind)), place, list(range(width)))


def _is_single(g: Graph, x: ir.Value) -> bool:
    return all(d == 1 for d in g.shape(x))


# -- masks ------------------------------------------------------------------------------------------------------------


@torch_op("nonzero", "argwhere")
def nonzero(g, x):
    if g.rank(x) == 0:
        # One row without columns if the number is not zero, else no row.
        rows = g.Reshape(cast(g, cast(g, x, torch.bool), torch.int64), [1])
        return g.ConstantOfShape(g.Concat(rows, [0], axis=0), value=ir.Tensor(np.zeros(1, np.int64)))
    return g.Transpose(g.NonZero(x), perm=[1, 0])


@torch_op("nonzero_numpy")
def nonzero_numpy(g, x):
    x = atleast_1d(g, x)
    places = g.NonZero(x)
    return [g.Gather(places, i, axis=0) for i in range(g.rank(x))]


def _broadcast_pair(g: Graph, x: ir.Value, mask: ir.Value) -> tuple[ir.Value, ir.Value]:
    if g.shape(x) == g.shape(mask) and None not in g.shape(x):
        return x, mask
    zero = full_of_shape(g, x, 0, torch.int64)
    shape = g.dims(g.Add(zero, cast(g, mask, torch.int64)))
    return g.Expand(x, shape), g.Expand(mask, shape)


@torch_op("masked_select")
def masked_select(g, x, mask):
    x, mask = _broadcast_pair(g, x, mask)
    if g.rank(x) == 0:
        x, mask = g.Reshape(x, [1]), g.Reshape(mask, [1])
    return compress(g, flatten(g, x), flatten(g, mask), 0)


def compress(g: Graph, x: ir.Value, mask: ir.Value, axis: int) -> ir.Value:
    """Return the slices of `x` along `axis` where the mask (of rank 1) holds."""
    return cast(g, g.Compress(widen_bfloat16(g, x), mask, axis=axis), g.dtype(x))


@torch_op("masked_scatter")
def masked_scatter(g, x, mask, source):
    """The n-th position where the mask holds gets the n-th element of source."""
    x, mask = _broadcast_pair(g, x, mask)
    places = g.Transpose(g.NonZero(mask), perm=[1, 0])
    count = g.Shape(places, start=0, end=1)
    return g.ScatterND(x, places, g.Slice(flatten(g, source), [0], count, [0]))


@torch_op("nonzero_static")
def nonzero_static(g, x, *, size, fill_value=-1):
    """Return the first `size` rows of nonzero, padded with rows of `fill_value`."""
    rest = g.Expand(g.const(fill_value), vector(g, [size, g.rank(x)]))
    return g.Slice(g.Concat(nonzero(g, x), rest, axis=0), [0], vector(g, size), [0])


@torch_op("put")
def put(g, x, index, source, accumulate=False):
    """Write to the flattened tensor."""
    flat, places, values = (g.Reshape(v, [-1]) for v in (x, index, source))
    out = g.ScatterElements(flat, _cast_indices(g, places), values, axis=0, reduction="add" if accumulate else None)
    return g.Reshape(out, g.dims(x), allowzero=1)
