"""Gather and scatter in general: indices are computed for every indexed axis, and clamped or left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph
from convert.graph.values import constant, inverse_permutation

from ..regions import Region
from ..rules import stablehlo_op, tensor_op
from ..sizes import of_dim
from ..values import Tensor, shape_vector, whole
from .elementwise import is_bool, like
from .reduce import neutral
from .shape import int64


@dataclass(frozen=True)
class Indexing:
    """The meaning of an index vector: the indexed axes, the axes without a window, and the batch axes."""

    window_axes: list[int]
    dropped: list[int]
    batching: list[int]
    index_batching: list[int]
    start_map: list[int]
    vector_axis: int


@tensor_op("gather", "dynamic_gather")
def gather(g, x, indices, sizes_operand=None, *, dimension_numbers, result, slice_sizes=None):
    """Return the slices; starts are clamped so that each slice lies inside."""
    n = dimension_numbers
    how = Indexing(n["offset_dims"], n["collapsed_slice_dims"], n["operand_batching_dims"],
                   n["start_indices_batching_dims"], n["start_index_map"], n["index_vector_dim"])  # fmt: skip
    x, indices = whole(g, x), whole(g, indices)
    sizes: list[Dim] = list(slice_sizes) if slice_sizes is not None else _told_sizes(sizes_operand)
    places, batch = start_places(g, indices, how.vector_axis)
    axes = _indexed_axes(x.dims, sizes, how)
    if not batch and axes:
        starts = dict(zip(how.start_map, places, strict=True))
        return _one_slice(g, x, starts, sizes, how, result.dims, sizes_operand)
    out_rank = result.rank
    batch_axes = [a for a in range(out_rank) if a not in how.window_axes]
    batch_dims = [batch[i] for i in range(len(batch))]
    starts = {axis: places[i] for i, axis in enumerate(how.start_map) if axis in axes}
    inside = {axis: _inside(g, start, sizes[axis], x, axis) for axis, start in starts.items()}
    kept = [a for a in range(x.rank) if a not in how.dropped and a not in how.batching]
    windows = [a for a in axes if a in kept]
    if len(axes) == 1 and not windows and not how.batching:
        found = g.Gather(x.value, inside[axes[0]], axis=axes[0])
        present = [*_before(kept, axes[0]), *_place_axes(len(batch_dims)), *_after(kept, axes[0])]
    elif not axes:
        found, present = _without_places(g, x, batch_dims, kept, indices)
    else:
        found, present = _by_places(g, x, inside, axes, windows, sizes, batch_dims, how, kept)
    wanted: list[object] = [None] * out_rank
    for out, axis in zip(how.window_axes, kept, strict=True):
        wanted[out] = axis
    for out, place in zip(batch_axes, _place_axes(len(batch_dims)), strict=True):
        wanted[out] = place
    perm = [present.index(w) for w in wanted]
    found = found if perm == sorted(perm) else g.Transpose(found, perm=perm)
    dims = _gathered_dims(result.dims, wanted, sizes, batch_dims)
    g.facts(found, result.dtype, dims)
    return Tensor(found, dims)


def _one_slice(
    g: Graph, x: Tensor, starts: dict[int, ir.Value], sizes: list[Dim], how: Indexing, known: tuple[int | None, ...],
    computed: Tensor | None,
) -> Tensor:  # fmt: skip
    """Return a single slice, by ONNX's Slice along each axis that is not copied completely.

    computed: the sizes as the module computes them, for those that no names of dims express.
    """
    value = x.value
    for axis, dim in enumerate(x.dims):
        size = of_dim(sizes[axis])
        if (sizes[axis] == dim and dim is not None) or size is None:
            continue
        start = starts.get(axis, g.const(0, ir.DataType.INT64))
        length = shape_vector(g, [sizes[axis]])
        if length is None:
            if computed is None:
                raise Unsupported("a slice of unknown size")
            length = g.Slice(int64(g, computed.value), [axis], [axis + 1], [0])
        begin = g.Unsqueeze(_inside(g, start, sizes[axis], x, axis, length), [0])
        value = g.Slice(value, begin, g.Add(begin, length), [axis])
    kept = [a for a in range(x.rank) if a not in how.dropped]
    if how.dropped:
        value = g.Squeeze(value, how.dropped)
    dims = tuple(sizes[a] if d is None else d for a, d in zip(kept, known, strict=True))
    return Tensor(g.facts(value, shape=dims), dims)


def _place_axes(count: int) -> list[tuple[str, int]]:
    """Return names of the axes of the indices themselves."""
    return [("place", i) for i in range(count)]


def _before(kept: list[int], axis: int) -> list[int]:
    return [a for a in kept if a < axis]


def _after(kept: list[int], axis: int) -> list[int]:
    return [a for a in kept if a > axis]


def _told_sizes(operand: Tensor | None) -> list[Dim]:
    if operand is None or operand.sizes is None:
        raise Unsupported("slices whose sizes are computed from data")
    return [s.dim for s in operand.sizes.tolist()]


def _gathered_dims(known: Any, wanted: Any, sizes: list[Dim], batch_dims: list[Dim]) -> tuple[Dim, ...]:
    dims = []
    for dim, what in zip(known, wanted, strict=True):
        own_dim = batch_dims[what[1]] if isinstance(what, tuple) else sizes[what]
        dims.append(own_dim if dim is None else dim)
    return tuple(dims)


def start_places(g: Graph, indices: Tensor, vector_axis: int) -> tuple[list[ir.Value], list[Dim]]:
    """Return one int64 tensor for each entry of the index vectors, and their common dims."""
    if vector_axis == indices.rank:
        return [int64(g, indices.value)], list(indices.dims)
    count = indices.dims[vector_axis]
    batch = [d for a, d in enumerate(indices.dims) if a != vector_axis]
    if not isinstance(count, int):
        raise Unsupported("index vectors of dynamic length")
    value = int64(g, indices.value)
    if count == 1:
        return [g.Squeeze(value, [vector_axis])], batch
    return [g.Gather(value, g.const(i, ir.DataType.INT64), axis=vector_axis) for i in range(count)], batch


def _indexed_axes(dims: Sequence[Dim], sizes: Sequence[Dim], how: Indexing) -> list[int]:
    """Return the axes whose elements are selected: batch axes, and axes that a slice has in part only."""
    return [a for a in range(len(dims)) if a in how.batching or sizes[a] != dims[a]
            or (dims[a] is None and a in how.start_map)]  # fmt: skip


def _inside(g: Graph, start: ir.Value, size: Dim, x: Tensor, axis: int, length: ir.Value | None = None) -> ir.Value:
    """Return a start, clamped so that a slice of this size lies inside the axis; `length` is the size as a value."""
    zero = g.const(0, ir.DataType.INT64)
    whole_size, part = of_dim(x.dims[axis]), of_dim(size)
    last = whole_size - part if whole_size is not None and part is not None else None
    known = constant(start)
    if last is not None and last.number is not None:
        if known is not None:
            return g.const(np.clip(known.numpy(), 0, last.number))
        return g.Clip(start, zero, g.const(last.number, ir.DataType.INT64))
    if known is not None and not known.numpy().any():
        return start
    length = shape_vector(g, [size]) if length is None else length
    if length is None:
        raise Unsupported("a slice of unknown size")
    return g.Clip(start, zero, g.Squeeze(g.Sub(g.Shape(x.value, start=axis, end=axis + 1), length), [0]))


def _without_places(
    g: Graph, x: Tensor, batch_dims: list[Dim], kept: list[int], indices: Tensor
) -> tuple[ir.Value, list[Any]]:
    """Return the whole operand for each index, if every slice takes all of it."""
    dropped = [a for a in range(x.rank) if a not in kept]
    value = g.Squeeze(x.value, dropped) if dropped else x.value
    dims = [*batch_dims, *(x.dims[a] for a in kept)]
    present = [*_place_axes(len(batch_dims)), *kept]
    if not batch_dims:
        return value, present
    vector = shape_vector(g, dims)
    if vector is None:
        raise Unsupported("slices that are repeated, of dynamic size")
    return g.Expand(value, vector), present


def _by_places(
    g: Graph, x: Tensor, inside: dict[int, ir.Value], axes: list[int], windows: list[int], sizes: list[Dim],
    batch_dims: list[Dim], how: Indexing, kept: list[int],
) -> tuple[ir.Value, list[Any]]:  # fmt: skip
    """Return GatherND by an index vector for each element of the indexed axes; other axes are taken whole."""
    rank = len(batch_dims) + len(windows)
    columns = []
    for axis in axes:
        column = _column(g, axis, inside, windows, sizes, batch_dims, how, rank)
        columns.append(column)
    shape = [*batch_dims, *(sizes[a] for a in windows)]
    vectors = stacked(g, columns, shape)
    order = [*axes, *(a for a in range(x.rank) if a not in axes)]
    operand = x.value if order == sorted(order) else g.Transpose(x.value, perm=order)
    found = g.GatherND(operand, vectors)
    rest = [a for a in range(x.rank) if a not in axes]
    present = [*_place_axes(len(batch_dims)), *windows, *rest]
    dropped = [i for i, a in enumerate(present) if isinstance(a, int) and a not in kept]
    if dropped:
        found = g.Squeeze(found, dropped)
        present = [a for i, a in enumerate(present) if i not in dropped]
    return found, present


def _column(
    g: Graph,
    axis: int,
    starts: dict[int, ir.Value],
    windows: list[int],
    sizes: list[Dim],
    batch_dims: list[Dim],
    how: Indexing,
    rank: int,
) -> ir.Value:
    """Return the indices along one axis. Their own axes are those of the batch, then one for each window axis."""
    if axis in how.batching:
        own = how.index_batching[how.batching.index(axis)]
        # The axis of the index vectors is not one of the batch axes.
        own -= 1 if own > how.vector_axis else 0
        return _counted(g, batch_dims[own], own, rank)
    if axis in starts:
        start = starts[axis]
        if windows:
            start = g.Unsqueeze(start, list(range(len(batch_dims), rank)))
    else:
        start = g.const(np.zeros([1] * rank, np.int64))
    if axis not in windows:
        return start
    steps = _counted(g, sizes[axis], len(batch_dims) + windows.index(axis), rank)
    return g.Add(start, steps)


def _counted(g: Graph, length: Dim, axis: int, rank: int) -> ir.Value:
    """Return 0, 1, 2 … along one axis of this length."""
    if isinstance(length, int):
        shape = [1] * rank
        shape[axis] = length
        return g.const(np.arange(length, dtype=np.int64).reshape(shape))
    vector = shape_vector(g, [length])
    if vector is None:
        raise Unsupported("positions along an axis of unknown size")
    row = g.Range(g.const(0, ir.DataType.INT64), g.Squeeze(vector, [0]), g.const(1, ir.DataType.INT64))
    return g.Unsqueeze(row, [a for a in range(rank) if a != axis]) if rank > 1 else row


def stacked(g: Graph, columns: list[ir.Value], shape: list[Dim]) -> ir.Value:
    """Return the columns stacked as vectors in a last axis, each broadcast to `shape`, their common shape."""
    ready = []
    vector: ir.Value | None = None
    for column in columns:
        if list(g.shape(column)) != shape or (None in shape and len(columns) > 1):
            vector = shape_vector(g, shape) if vector is None else vector
            if vector is None:  # a size that no name of a dim expresses, such as that of x[::2]
                vector = g.Shape(reduce(g.Add, columns))
            known, lengths = constant(column), [d for d in shape if isinstance(d, int)]
            if known is not None and len(lengths) == len(shape):
                column = g.const(np.broadcast_to(known.numpy(), lengths).copy())
            else:
                column = g.Expand(column, vector)
        ready.append(g.Unsqueeze(column, [len(shape)]))
    return g.Concat(*ready, axis=len(shape)) if len(ready) > 1 else ready[0]


SCATTERED = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}
"""ScatterND's reductions by the operator of the region."""


@stablehlo_op("scatter")
def scatter(g, *operands, scatter_dimension_numbers, regions, results, unique_indices=False):
    """Return the operand with updates; windows that do not lie completely inside are left out.

    The indexed axes are flattened into one; an additional last row takes the updates that are left out.
    """
    if len(operands) != 3:
        raise Unsupported("several tensors that are scattered into at once")
    x, indices, updates = operands
    n = scatter_dimension_numbers
    how = Indexing(n["update_window_dims"], n["inserted_window_dims"], n["input_batching_dims"],
                   n["scatter_indices_batching_dims"], n["scattered_dims_to_operand_dims"],
                   n["index_vector_dim"])  # fmt: skip
    region = regions[0]
    monoid = region.monoid()
    if is_bool(x):
        monoid = {"or": "maximum", "add": "maximum", "and": "minimum", "multiply": "minimum"}.get(monoid, monoid)
    kind = "none" if region.gives_argument(1) else SCATTERED.get(monoid, "")
    if not kind and not unique_indices:
        raise Unsupported("a function that ONNX cannot scatter with, at positions that may repeat")
    dims = [d for d in g.shape(x) if isinstance(d, int)]
    if len(dims) < g.rank(x):
        return _dynamic_scatter(g, x, indices, updates, how, kind, region)
    return _static_scatter(g, x, dims, indices, updates, how, kind, region)


def _window(g: Graph, updates: ir.Value, how: Indexing, rank: int) -> list[Dim]:
    """Return, for each axis of the operand, how much of it an update covers."""
    sizes: list[Dim] = [1] * rank
    kept = [a for a in range(rank) if a not in how.dropped and a not in how.batching]
    for axis, out in zip(kept, how.window_axes, strict=True):
        sizes[axis] = g.shape(updates)[out]
    return sizes


def _static_scatter(
    g: Graph,
    x: ir.Value,
    dims: list[int],
    indices: ir.Value,
    updates: ir.Value,
    how: Indexing,
    kind: str,
    region: Region,
) -> ir.Value:
    rank = len(dims)
    sizes = _window(g, updates, how, rank)
    axes = [a for a in range(rank) if a in how.batching or a in how.start_map or sizes[a] != dims[a]]
    axes = [a for a in axes if not (sizes[a] == dims[a] and a not in how.batching and dims[a] == 1)] or axes[:1]
    if not axes:
        return updates if kind == "none" else region.apply(g, [x, updates])[0]
    linear = _linear_places(g, indices, how, dims, sizes, axes)
    rest = [a for a in range(rank) if a not in axes]
    order = [*axes, *rest]
    rows = int(np.prod([dims[a] for a in axes]))
    tail = [dims[a] for a in rest]
    moved = x if order == sorted(order) else g.Transpose(x, perm=order)
    table = g.Reshape(moved, g.const(np.array([rows, *tail], np.int64)))
    values = _ordered_updates(g, updates, how, rank, axes, rest)
    found = _written(g, table, linear, values, kind, region, rows, tail)
    found = g.Reshape(found, g.const(np.array([*(dims[a] for a in axes), *tail], np.int64)))
    return found if order == sorted(order) else g.Transpose(found, perm=list(inverse_permutation(order)))


def _linear_places(
    g: Graph, indices: ir.Value, how: Indexing, dims: list[int], sizes: list[Dim], axes: list[int]
) -> ir.Value:
    """Return the row of the flattened axes for each element of a window; the additional last row for ignored ones."""
    tensor = Tensor(indices, g.shape(indices))
    starts, batch = start_places(g, tensor, how.vector_axis)
    by_axis = dict(zip(how.start_map, starts, strict=True))
    windows = [a for a in axes if a not in how.dropped and a not in how.batching]
    rank = len(batch) + len(windows)
    zero = g.const(0, ir.DataType.INT64)
    outside = None
    for axis, start in by_axis.items():
        size = sizes[axis]
        if not isinstance(size, int):
            raise Unsupported("a scatter of windows of dynamic size into a tensor of known size")
        last = dims[axis] - size
        known = constant(start)
        if known is not None and ((known.numpy() >= 0) & (known.numpy() <= last)).all():
            continue
        wrong = g.Or(g.Less(start, zero), g.Greater(start, g.const(last, ir.DataType.INT64)))
        outside = wrong if outside is None else g.Or(outside, wrong)
    linear = _column(g, axes[0], by_axis, windows, sizes, batch, how, rank)
    for axis in axes[1:]:
        column = _column(g, axis, by_axis, windows, sizes, batch, how, rank)
        linear = g.Add(g.Mul(linear, g.const(dims[axis], ir.DataType.INT64)), column)
    if outside is not None:
        if windows:
            outside = g.Unsqueeze(outside, list(range(len(batch), rank)))
        rows = int(np.prod([dims[a] for a in axes]))
        linear = g.Where(outside, g.const(rows, ir.DataType.INT64), linear)
    shape = [*batch, *(sizes[a] for a in windows)]
    return stacked(g, [linear], shape)


def _ordered_updates(
    g: Graph, updates: ir.Value, how: Indexing, rank: int, axes: list[int], rest: list[int]
) -> ir.Value:
    """Return the updates with the batch axes first, then the window axes among the indexed ones, then the others."""
    kept = [a for a in range(rank) if a not in how.dropped and a not in how.batching]
    out_of = dict(zip(kept, how.window_axes, strict=True))
    batch = [a for a in range(g.rank(updates)) if a not in how.window_axes]
    order = [*batch, *(out_of[a] for a in axes if a in out_of), *(out_of[a] for a in rest if a in out_of)]
    values = updates if order == sorted(order) else g.Transpose(updates, perm=order)
    missing = [len(order) - sum(a in out_of for a in rest) + i for i, a in enumerate(rest) if a not in out_of]
    return g.Unsqueeze(values, missing) if missing else values


def _written(
    g: Graph,
    table: ir.Value,
    places: ir.Value,
    values: ir.Value,
    kind: str,
    region: Region,
    rows: int,
    tail: list[int],
) -> ir.Value:
    """Return the rows of a table with the updates written to them; one additional row takes the updates that are left
    out.
    """
    dtype = g.dtype(table)
    if is_bool(table):
        table, values = (g.Cast(v, to=ir.DataType.INT32) for v in (table, values))
    known = constant(places)
    spare = known is None or bool((known.numpy() == rows).any())
    number = neutral("add", g.dtype(table)) if spare else None
    if spare:
        row = np.broadcast_to(np.asarray(number, g.dtype(table).numpy()), (1, *tail)).copy()
        table = g.Concat(table, g.const(ir.Tensor(row, dtype=g.dtype(table))), axis=0)
    found = _scattered(g, table, places, values, kind, region, dtype)
    if spare:
        found = g.Slice(found, [0], [rows], [0])
    return found if dtype == g.dtype(found) else g.Cast(found, to=dtype)


def _scattered(
    g: Graph, table: ir.Value, places: ir.Value, values: ir.Value, kind: str, region: Region, dtype: ir.DataType
) -> ir.Value:
    """Return a ScatterND. A function that it lacks, `kind` is "" then, is applied to the elements at each place, which
    are distinct.

    dtype: the dtype of the operand, whose booleans are int32 here.
    """
    if not kind:
        before = g.GatherND(table, places)
        if dtype == ir.DataType.BOOL:
            before, values = (g.Cast(v, to=dtype) for v in (before, values))
        values = region.apply(g, [before, values])[0]
        values = g.Cast(values, to=ir.DataType.INT32) if dtype == ir.DataType.BOOL else values
    found: ir.Value = g.ScatterND(table, places, values, reduction=kind or "none")
    return found


def _dynamic_scatter(
    g: Graph, x: ir.Value, indices: ir.Value, updates: ir.Value, how: Indexing, kind: str, region: Region
) -> ir.Value:
    """Scatter into a tensor of dynamic size; windows that do not lie completely inside go to an additional row.

    It lies at the end of the first indexed axis.
    """
    dims, rank, dtype = g.shape(x), g.rank(x), g.dtype(x)
    sizes = _window(g, updates, how, rank)
    axes = [a for a in range(rank) if a in how.batching or a in how.start_map or sizes[a] != dims[a]]
    starts, batch = start_places(g, Tensor(indices, g.shape(indices)), how.vector_axis)
    by_axis = dict(zip(how.start_map, starts, strict=True))
    windows = [a for a in axes if a not in how.dropped and a not in how.batching]
    columns = [_column(g, a, by_axis, windows, sizes, batch, how, len(batch) + len(windows)) for a in axes]
    outside = _outside(g, x, by_axis, sizes)
    if windows:
        outside = g.Unsqueeze(outside, list(range(len(batch), len(batch) + len(windows))))
    spare = [_length_of(g, x, axes[0]), *[g.const(0, ir.DataType.INT64)] * (len(axes) - 1)]
    columns = [g.Where(outside, place, column) for place, column in zip(spare, columns, strict=True)]
    places = stacked(g, columns, [*batch, *(sizes[a] for a in windows)])
    rest = [a for a in range(rank) if a not in axes]
    order = [*axes, *rest]
    moved = x if order == sorted(order) else g.Transpose(x, perm=order)
    values = _ordered_updates(g, updates, how, rank, axes, rest)
    if dtype == ir.DataType.BOOL:
        moved, values = (g.Cast(v, to=ir.DataType.INT32) for v in (moved, values))
    spare_shape = g.Concat(g.const(np.array([1], np.int64)), g.Shape(moved, start=1), axis=0)
    table = g.Concat(moved, g.Expand(like(g, 0, moved), spare_shape), axis=0)
    found = g.Slice(_scattered(g, table, places, values, kind, region, dtype), [0], [-1], [0])
    found = found if dtype == g.dtype(found) else g.Cast(found, to=dtype)
    return found if order == sorted(order) else g.Transpose(found, perm=list(inverse_permutation(order)))


def _length_of(g: Graph, x: ir.Value, axis: int) -> ir.Value:
    length: ir.Value = g.Squeeze(g.Shape(x, start=axis, end=axis + 1), [0])
    return length


def _outside(g: Graph, x: ir.Value, by_axis: dict[int, ir.Value], sizes: list[Dim]) -> ir.Value:
    """Return whether each window lies outside of `x`, at least in part."""
    found: ir.Value | None = None
    for axis, start in by_axis.items():
        size = shape_vector(g, [sizes[axis]])
        if size is None:
            raise Unsupported("a scatter of windows of unknown size")
        last = g.Sub(_length_of(g, x, axis), g.Squeeze(size, [0]))
        wrong = g.Or(g.Less(start, g.const(0, ir.DataType.INT64)), g.Greater(start, last))
        found = wrong if found is None else g.Or(found, wrong)
    return g.const(np.array(False)) if found is None else found


@stablehlo_op("torch_index_select")
def torch_index_select(g, x, indices, *, dim, batch_dims):
    if batch_dims:
        raise Unsupported("axes of the operand that go along with those of the indices")
    return g.Gather(x, indices, axis=dim)
