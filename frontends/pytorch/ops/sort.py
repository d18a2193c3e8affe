"""Selection by order: sort, top-k, medians, modes, distinct elements."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from convert.graph import Graph

from ..common.sizes import axis_of, plus, quotient, size, vector
from ..common.values import cast, constant_like, highest, is_bool, is_float, torch_dtype, widen_bfloat16
from ..rules import torch_op
from .index import compress
from .shape import flatten


@torch_op("topk")
def topk(g, x, k, dim=-1, largest=True, sorted=True):
    if g.rank(x) == 0:
        return [x, g.const(0)]
    values, indices = g.TopK(
        widen_bfloat16(g, x), vector(g, k), axis=axis_of(g, x, dim), largest=int(largest), sorted=1, outputs=2
    )
    return [cast(g, values, g.dtype(x)), indices]


@torch_op("sort", "sort.stable")
def sort(g, x, dim=-1, descending=False, *, stable=False):
    """TopK of everything; the lower index of equal elements comes first, so it is stable."""
    if g.rank(x) == 0:
        return [x, g.const(0)]
    operand = cast(g, x, torch.int32) if is_bool(g, x) else x
    values, indices = topk(g, operand, size(g, x, dim), dim, descending)
    return [cast(g, values, torch_dtype(g, x)), indices]


@torch_op("argsort", "argsort.stable")
def argsort(g, x, dim=-1, descending=False, *, stable=False):
    return sort(g, x, dim, descending)[1]


@torch_op("msort")
def msort(g, x):
    return sort(g, x, 0)[0]


# -- middle -----------------------------------------------------------------------------------------------------------


def _kth_element(g: Graph, x: ir.Value, place: int | ir.Value, axis: int, keepdim: bool) -> list[ir.Value]:
    """Return the element at `place` in ascending order and its index; `place` may differ along the other dims."""
    values, indices = sort(g, x, axis)
    if isinstance(place, int) or g.rank(place) == 0:
        at = vector(g, place) if keepdim else place
        found = [g.Gather(v, at, axis=axis) for v in (values, indices)]
        return [found[0], found[1]]
    found = [g.GatherElements(v, place, axis=axis) for v in (values, indices)]
    return found if keepdim else [g.Squeeze(v, [axis]) for v in found]


@torch_op("kthvalue")
def kthvalue(g, x, k, dim=-1, keepdim=False):
    if g.rank(x) == 0:
        return [x, g.const(0)]
    return _kth_element(g, x, plus(g, k, -1), axis_of(g, x, dim), keepdim)


@torch_op("median.dim")
def median_dim(g, x, dim, keepdim=False):
    """Return the lower of the two middle elements, or the first NaN if there is one."""
    if g.rank(x) == 0:
        return [x, g.const(0)]
    axis = axis_of(g, x, dim)
    middle = quotient(g, plus(g, size(g, x, axis), -1), 2)
    values, indices = _kth_element(g, _nan_to_infinity(g, x), middle, axis, keepdim)
    if not is_float(g, x):
        return [values, indices]
    missing = g.Cast(g.IsNaN(x), to=ir.DataType.INT32)
    some = g.Cast(g.ReduceMax(missing, [axis], keepdims=int(keepdim)), to=ir.DataType.BOOL)
    first = g.ArgMax(missing, axis=axis, keepdims=int(keepdim))
    return [g.Where(some, constant_like(g, float("nan"), x), values), g.Where(some, first, indices)]


@torch_op("nanmedian.dim")
def nanmedian_dim(g, x, dim, keepdim=False):
    """Return the lower middle one of the elements that are not NaN; NaN if all are."""
    if g.rank(x) == 0 or not is_float(g, x):
        return median_dim(g, x, dim, keepdim)
    axis = axis_of(g, x, dim)
    present = g.Cast(g.Not(g.IsNaN(x)), to=ir.DataType.INT64)
    count = g.ReduceSum(present, [axis], keepdims=1)
    place = g.Max(g.Div(g.Sub(count, 1), 2), 0)
    values, indices = _kth_element(g, _nan_to_infinity(g, x), place, axis, keepdim)
    none = g.Equal(count if keepdim else g.Squeeze(count, [axis]), 0)
    return [g.Where(none, constant_like(g, float("nan"), x), values), indices]


def _nan_to_infinity(g: Graph, x: ir.Value) -> ir.Value:
    """Return NaN as infinity, for sorting by comparison."""
    return g.Where(g.IsNaN(x), constant_like(g, np.inf, x), x) if is_float(g, x) else x


@torch_op("median")
def median(g, x):
    if 0 in g.shape(x) and is_float(g, x):
        return constant_like(g, float("nan"), x)
    return median_dim(g, flatten(g, x), 0)[0]


@torch_op("nanmedian")
def nanmedian(g, x):
    if 0 in g.shape(x):
        return median(g, x)
    return nanmedian_dim(g, flatten(g, x), 0)[0]


@torch_op("mode")
def mode(g, x, dim=-1, keepdim=False):
    """Return the most frequent element (of several, the smallest), and its last index."""
    if g.rank(x) == 0:
        return [x, g.const(0)]
    axis = axis_of(g, x, dim)
    same = g.Equal(g.Unsqueeze(x, [axis]), g.Unsqueeze(x, [axis + 1]))
    count = g.ReduceSum(g.Cast(same, to=ir.DataType.INT64), [axis], keepdims=0)
    often = g.Equal(count, g.ReduceMax(count, [axis]))
    number = cast(g, x, torch.int32) if is_bool(g, x) else x
    value = g.ReduceMin(g.Where(often, number, constant_like(g, highest(g.dtype(number)), number)), [axis])
    places = g.Cast(g.Equal(number, value), to=ir.DataType.INT32)
    index = g.ArgMax(places, axis=axis, select_last_index=1)
    found = [cast(g, value, torch_dtype(g, x)), index]
    return found if keepdim else [g.Squeeze(v, [axis]) for v in found]


# -- distinct elements ------------------------------------------------------------------------------------------------


@torch_op("_unique2")
def unique(g, x, sorted=True, return_inverse=False, return_counts=False):
    """Return the distinct elements in ascending order, for any value of `sorted`, because PyTorch always sorts."""
    found, _, inverse, counts = g.Unique(_cast_to_sortable(g, x), sorted=1, outputs=4)
    inverse = _reshape_like(g, inverse, x) if return_inverse else None
    return [cast(g, found, torch_dtype(g, x)), inverse, counts if return_counts else None]


@torch_op("unique_dim")
def unique_dim(g, x, dim, sorted=True, return_inverse=False, return_counts=False):
    found, _, inverse, counts = g.Unique(_cast_to_sortable(g, x), axis=axis_of(g, x, dim), sorted=1, outputs=4)
    return [cast(g, found, torch_dtype(g, x)), inverse, counts if return_counts else None]


@torch_op("unique_consecutive")
def unique_consecutive(g, x, return_inverse=False, return_counts=False, dim=None):
    """Return the elements, or the slices along `dim`, that differ from the one before."""
    flat, axis = (flatten(g, x), 0) if dim is None else (x, axis_of(g, x, dim))
    length = size(g, flat, axis)
    end = np.iinfo(np.int64).max
    before, after = g.Slice(flat, [0], [-1], [axis]), g.Slice(flat, [1], [end], [axis])
    differs = g.Cast(g.Not(g.Equal(before, after)), to=ir.DataType.INT32)
    others = [i for i in range(g.rank(flat)) if i != axis]
    differs = g.ReduceMax(differs, others, keepdims=0) if others else differs
    if length == 0:
        none = g.const(np.zeros(0, np.int64))
        return [flat, _reshape_like(g, none, x), none]
    starts = g.Cast(g.Concat(g.const(np.ones(1, np.int32)), differs, axis=0), to=ir.DataType.BOOL)
    found = compress(g, flat, starts, axis)
    inverse = g.Sub(g.CumSum(g.Cast(starts, to=ir.DataType.INT64), 0), 1)
    places = g.Squeeze(g.NonZero(starts), [0])
    ends = g.Concat(g.Slice(places, [1], [end], [0]), vector(g, length), axis=0)
    inverse = _reshape_like(g, inverse, x) if dim is None else inverse
    return [found, inverse if return_inverse else None, g.Sub(ends, places) if return_counts else None]


def _cast_to_sortable(g: Graph, x: ir.Value) -> ir.Value:
    return cast(g, x, torch.int64) if is_bool(g, x) else widen_bfloat16(g, x)


def _reshape_like(g: Graph, flat: ir.Value, x: ir.Value) -> ir.Value:
    return g.Reshape(flat, g.dims(x), allowzero=1)
