"""Writing elements along one dim: scatter and similar operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.graph import Graph

from ..common.sizes import arange, axis_of, size, vector
from ..common.values import as_value, cast, constant_like, highest, is_float, lowest
from ..rules import torch_op
from .arithmetic import div
from .create import full_of_shape
from .index import _cast_indices
from .shape import END, flatten, view_as


def _scatter_elements(
    g: Graph, x: ir.Value, dim: int, index: ir.Value, src: ir.Value, reduction: str | None = None
) -> ir.Value:
    """Return ScatterElements; a source larger than the index is cropped, and tensors of rank 0 use rank 1."""
    if g.rank(x) == 0:
        x1, i1, s1 = (g.Reshape(v, [-1]) for v in (x, index, src))
        return g.Reshape(g.ScatterElements(x1, i1, s1, axis=0, reduction=reduction), np.zeros(0, np.int64))
    if g.rank(index) == 0:
        index, src = g.Reshape(index, [1]), g.Reshape(src, [1])
    if g.shape(src) != g.shape(index) or None in g.shape(src):
        axes = list(range(g.rank(index)))
        src = g.Slice(src, [0] * len(axes), g.dims(index), axes)
    return g.ScatterElements(x, _cast_indices(g, index), src, axis=axis_of(g, x, dim), reduction=reduction)


_REDUCTIONS = {None: None, "add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


@torch_op("scatter", "scatter.src", "scatter.reduce")
def scatter(g, x, dim, index, src, *, reduce=None):
    return _scatter_elements(g, x, dim, index, cast(g, src, g.dtype(x)), _REDUCTIONS[reduce])


@torch_op("scatter.value", "scatter.value_reduce")
def scatter_value(g, x, dim, index, value, *, reduce=None):
    src = g.Expand(as_value(g, value, g.dtype(x)), g.dims(index))
    return _scatter_elements(g, x, dim, index, src, _REDUCTIONS[reduce])


@torch_op("scatter_add")
def scatter_add(g, x, dim, index, src):
    return _scatter_elements(g, x, dim, index, src, "add")


@torch_op("scatter_reduce")
def scatter_reduce(g, x, dim, index, src, reduce, *, include_self=True):
    dtype = g.dtype(x)
    if reduce == "mean":
        return _scatter_mean(g, x, dim, index, src, include_self)
    if not include_self:
        neutral = {"sum": 0, "prod": 1, "amax": lowest(dtype), "amin": highest(dtype)}[reduce]
        x = _scatter_elements(g, x, dim, index, g.Expand(as_value(g, neutral, dtype), g.dims(index)))
    return _scatter_elements(g, x, dim, index, src, _REDUCTIONS[reduce])


def _scatter_mean(g: Graph, x: ir.Value, dim: int, index: ir.Value, src: ir.Value, include_self: bool) -> ir.Value:
    ones = g.Expand(constant_like(g, 1, x), g.dims(index))
    counts = full_of_shape(g, x, 1, None)
    if not include_self:
        zeros = g.Expand(constant_like(g, 0, x), g.dims(index))
        x, counts = _scatter_elements(g, x, dim, index, zeros), _scatter_elements(g, counts, dim, index, zeros)
    counts = _scatter_elements(g, counts, dim, index, ones, "add")
    total = _scatter_elements(g, x, dim, index, src, "add")
    return _divide_counted(g, total, counts)


def _divide_counted(g: Graph, total: ir.Value, counts: ir.Value) -> ir.Value:
    """Return means; means of integers are rounded down as in PyTorch."""
    rounding = None if is_float(g, total) else "floor"
    return div(g, total, g.Max(counts, constant_like(g, 1, total)), rounding_mode=rounding)


def _scatter_slices(
    g: Graph, x: ir.Value, dim: int, index: ir.Value, source: ir.Value, reduction: str | None = None
) -> ir.Value:
    """Write whole slices of `source` at `index` along one dim."""
    if g.rank(x) == 0:
        return _scatter_elements(g, x, 0, g.Reshape(index, [-1]), g.Reshape(source, [-1]), reduction)
    axis = axis_of(g, x, dim)
    index = g.Reshape(index, [-1])
    if g.rank(source) < g.rank(x):
        source = g.Unsqueeze(source, [axis])
    behind = g.Unsqueeze(index, [i for i in range(g.rank(x)) if i != axis]) if g.rank(x) > 1 else index
    return g.ScatterElements(
        x, g.Expand(_cast_indices(g, behind), g.dims(source)), source, axis=axis, reduction=reduction
    )


@torch_op("index_add")
def index_add(g, x, dim, index, source, *, alpha=1):
    source = source if alpha == 1 else g.Mul(source, as_value(g, alpha, g.dtype(source)))
    return _scatter_slices(g, x, dim, index, cast(g, source, g.dtype(x)), "add")


@torch_op("index_copy")
def index_copy(g, x, dim, index, source):
    return _scatter_slices(g, x, dim, index, source)


@torch_op("index_fill")
def index_fill(g, x, dim, index, value):
    if g.rank(x) == 0:
        return as_value(g, value, g.dtype(x))
    axis = axis_of(g, x, dim)
    index = g.Reshape(_cast_indices(g, index), [-1])
    dims = [size(g, x, i) for i in range(g.rank(x))]
    shape = vector(g, dims[:axis]), g.Shape(index), vector(g, dims[axis + 1 :])
    source = g.Expand(as_value(g, value, g.dtype(x)), g.Concat(*shape, axis=0))
    return _scatter_slices(g, x, dim, index, source)


@torch_op("select_scatter")
def select_scatter(g, x, src, dim, index):
    axis = axis_of(g, x, dim)
    source = g.Unsqueeze(cast(g, src, g.dtype(x)), [axis])
    if not isinstance(index, int):
        return _scatter_slices(g, x, dim, vector(g, index), source)
    return _replace_slice(g, x, source, axis, index, index + 1 if index != -1 else END)


@torch_op("slice_scatter")
def slice_scatter(g, x, src, dim=0, start=None, end=None, step=1):
    axis = axis_of(g, x, dim)
    start, end = 0 if start is None else start, END if end is None else end
    src = cast(g, src, g.dtype(x))
    if step == 1:
        return _replace_slice(g, x, src, axis, start, end)
    length = g.shape(x)[axis]
    if not isinstance(length, int) or not isinstance(start, int) or not isinstance(end, int):
        every = arange(g, size(g, x, axis))
        return _scatter_slices(g, x, dim, g.Slice(every, vector(g, start), vector(g, end), [0], [step]), src)
    return _scatter_slices(g, x, dim, g.const(np.arange(length, dtype=np.int64)[start:end:step]), src)


def _replace_slice(g: Graph, x: ir.Value, source: ir.Value, axis: int, start: Any, end: Any) -> ir.Value:
    """Return x with x[start:end] along one axis replaced by `source`."""
    parts = [source]
    length = g.shape(x)[axis]
    end = _clamped_end(g, x, axis, start, end)
    if not (isinstance(start, int) and start == 0):
        parts.insert(0, g.Slice(x, [0], vector(g, start), [axis]))
    if not (isinstance(end, int) and (end >= END or (isinstance(length, int) and end >= length))):
        parts.append(g.Slice(x, vector(g, end), [END], [axis]))
    if len(parts) == 1:
        return g.Expand(source, g.dims(x))
    return g.facts(g.Concat(*parts, axis=axis), shape=g.shape(x))


def _clamped_end(g: Graph, x: ir.Value, axis: int, start: Any, end: Any) -> Any:
    """Return `end`, or `start` if that is larger, so that the slice is empty."""
    if isinstance(start, int) and isinstance(end, int) and (start < 0) == (end < 0):
        return max(start, end)
    if (isinstance(start, int) and start == 0) or (isinstance(end, int) and end >= END):
        return end
    length = g.Shape(x, start=axis, end=axis + 1)
    first, last = (g.Where(g.Less(v, 0), g.Add(v, length), v) for v in (vector(g, start), vector(g, end)))
    return g.Max(first, last)


@torch_op("index_reduce")
def index_reduce(g, x, dim, index, source, reduce, *, include_self=True):
    """Slices of `source` reduced into those of `x` along one dim."""
    dtype = g.dtype(x)
    name = {"prod": "prod", "mean": "sum", "amax": "amax", "amin": "amin"}[reduce]
    base = x
    if not include_self:
        neutral = {"sum": 0, "prod": 1, "amax": lowest(dtype), "amin": highest(dtype)}[name]
        base = _scatter_slices(g, x, dim, index, g.Expand(as_value(g, neutral, dtype), g.dims(source)))
    out = _scatter_slices(g, base, dim, index, source, _REDUCTIONS[name])
    if reduce != "mean":
        return out
    counts = full_of_shape(g, x, 1, None)
    ones = g.Expand(constant_like(g, 1, x), g.dims(source))
    if not include_self:
        counts = _scatter_slices(g, counts, dim, index, g.Expand(constant_like(g, 0, x), g.dims(source)))
    counts = _scatter_slices(g, counts, dim, index, ones, "add")
    return _divide_counted(g, out, counts)


@torch_op("diagonal_scatter")
def diagonal_scatter(g, x, src, offset=0, dim1=0, dim2=1):
    """Replace a diagonal by flat indices of the last two dims; by a mask if lengths are unknown."""
    a, b = axis_of(g, x, dim1), axis_of(g, x, dim2)
    rows, columns = g.shape(x)[a], g.shape(x)[b]
    perm = [i for i in range(g.rank(x)) if i not in (a, b)] + [a, b]
    moved = g.Transpose(x, perm=perm)
    back = [perm.index(i) for i in range(len(perm))]
    src = cast(g, src, g.dtype(x))
    if not isinstance(rows, int) or not isinstance(columns, int):
        return g.Transpose(_with_diagonal(g, moved, src, offset), perm=back)
    length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    first = offset if offset >= 0 else -offset * columns
    places = g.const(first + np.arange(length, dtype=np.int64) * (columns + 1))
    flat = _scatter_slices(g, flatten(g, moved, -2, -1), -1, places, src)
    return g.Transpose(view_as(g, flat, moved), perm=back)


def _with_diagonal(g: Graph, x: ir.Value, src: ir.Value, offset: int) -> ir.Value:
    """Return x with `src` on a diagonal of the last two dims: broadcast over all rows or columns, and selected
    there.
    """
    rows, columns = (g.Unsqueeze(arange(g, size(g, x, axis)), [other]) for axis, other in ((-2, 1), (-1, 0)))
    inner = rows if offset >= 0 else columns
    # One additional element, which is gathered outside the diagonal.
    longer = g.Pad(src, g.const(np.array([0] * (2 * g.rank(src) - 1) + [1])))
    last = as_value(g, size(g, src, -1), torch.int64)
    spread = g.Gather(longer, g.Min(g.Squeeze(inner, [1 if offset >= 0 else 0]), last), axis=-1)
    spread = g.Unsqueeze(spread, [-1 if offset >= 0 else -2])
    return g.Where(g.Equal(g.Sub(columns, rows), offset), spread, x)


@torch_op("fill_diagonal_")
def fill_diagonal(g, x, fill_value, wrap=False):
    """Fill all positions with equal indices; with `wrap`, a tall matrix starts again after skipping a row."""
    rank = g.rank(x)
    first, *others = (g.Unsqueeze(arange(g, size(g, x, i)), [k for k in range(rank) if k != i]) for i in range(rank))
    if wrap and rank == 2:
        first = g.Mod(first, g.Add(as_value(g, size(g, x, 1), torch.int64), 1))
    same = [g.Equal(first, other) for other in others]
    on = same[0]
    for more in same[1:]:
        on = g.And(on, more)
    return g.Where(on, as_value(g, fill_value, g.dtype(x)), x)
