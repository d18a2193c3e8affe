"""Rules that gather, slice and pad."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..common.dtypes import COMPARED, cast, widen
from ..common.indexing import fixed_dims, linear_elements, wrap_negative
from ..common.padding import crop, pad_by_gather, pad_constant, pad_edge, slice_axis
from ..common.shapes import concat, dim
from ..net import Net
from ..rules import onnx_op
from .math import maximum


@onnx_op("Gather")
def gather(net: Net, x: Blob, indices: Blob, *, axis: int) -> Blob:
    """Gather-13. Caffe2's Gather takes negative indices on the first axis only."""
    along = net.axis(x, axis)
    return net.Gather(x, wrap_negative(net, x, indices, along), axis=along)


@onnx_op("Slice")
def slice_rule(net: Net, x: Blob, starts: Blob, ends: Blob, axes: Blob | None, steps: Blob | None) -> Blob:
    """Slice-13, one operator per axis; steps other than 1 gather the elements."""
    if net.static(starts) is None or net.static(ends) is None:
        return _dynamic_slice(net, x, starts, ends, axes, steps)
    first, final = ([int(v) for v in net.need(b, "a bound of Slice")] for b in (starts, ends))
    along = list(range(len(first))) if axes is None else [int(a) for a in net.need(axes, "the axes of Slice")]
    stride = [1] * len(first) if steps is None else [int(s) for s in net.need(steps, "the steps of Slice")]
    for start, end, axis, step in zip(first, final, along, stride, strict=True):
        x = _static_slice(net, x, start, end, net.axis(x, axis), step)
    return x


def _dynamic_slice(net: Net, x: Blob, starts: Blob, ends: Blob, axes: Blob | None, steps: Blob | None) -> Blob:
    """Slice with computed bounds, one axis after the other."""
    count = net.shape(starts)[0] if axes is None else len(net.need(axes, "the axes of Slice"))
    if not isinstance(count, int):
        raise Unsupported("computed bounds of Slice for a number of axes that is not known")
    along = list(range(count)) if axes is None else [net.axis(x, int(a)) for a in net.need(axes, "the axes of Slice")]
    if steps is not None and np.any(net.need(steps, "the steps of Slice") != 1):
        raise Unsupported("a Slice with computed bounds and a step")
    bounds = [cast(net, b, ir.DataType.INT64) for b in (starts, ends)]
    for i, axis in enumerate(along):
        one = (b if count == 1 else net.Slice(b, starts=[i], ends=[i + 1]) for b in bounds)
        x = _slice_between(net, x, axis, *one)
    return x


def _slice_between(net: Net, x: Blob, axis: int, start: Blob, end: Blob) -> Blob:
    """Return `x[start:end]` along one axis for bounds that are int64 vectors of length 1: -2 is the last but one, as in
    ONNX.

    Caffe2 clamps to the size, but fails if a bound is below minus the size, or the end before the start.
    """
    size, zero, rest = dim(net, x, axis), net.const(np.array([0])), net.rank(x) - axis - 1
    low, high = (_from_the_front(net, b, size, zero) for b in (start, end))
    high = maximum(net, high, low)
    before, behind = (np.full(axis, v, np.int64) for v in (0, -1)), (np.full(rest, v, np.int64) for v in (0, -1))
    parts = zip(map(net.const, before), (low, high), map(net.const, behind), strict=True)
    full = [concat(net, [p for p in three if p.shape != (0,)]) for three in parts]
    shape = [*net.shape(x)[:axis], None, *net.shape(x)[axis + 1 :]]
    return net.facts(net.Slice(x, *full), shape=shape)


def _from_the_front(net: Net, bound: Blob, size: Blob, zero: Blob) -> Blob:
    """Return a bound of Slice without negative numbers."""
    known = net.static(bound)
    if known is not None and int(known[0]) >= 0:
        return bound
    moved = maximum(net, net.Add(bound, size), zero)
    return moved if known is not None else net.Where(net.LT(bound, zero), moved, bound)


def _static_slice(net: Net, x: Blob, start: int, end: int, axis: int, step: int) -> Blob:
    size = net.shape(x)[axis]
    if isinstance(size, int):
        # For a backward slice that starts before the first element, ONNX includes the first element and Python includes
        # none.
        cells = range(size)[max(start + size, 0) if step < 0 and start < 0 else start : end : step]
        if len(cells) == size and step == 1:
            return x
        if step == 1:
            return slice_axis(net, x, axis, cells.start, max(cells.start, cells.stop))
        shape = [*net.shape(x)[:axis], len(cells), *net.shape(x)[axis + 1 :]]
        return net.facts(net.Gather(x, net.const(np.array(cells, dtype=np.int64)), axis=axis), shape=shape)
    if step != 1:
        return _strided_gather(net, x, start, end, axis, step)
    whole = end >= np.iinfo(np.int32).max
    if start == 0 and whole:
        return x
    if start >= -1 and (whole or (start >= 0 and end >= 0) or (start, end) == (0, -1)):
        # Correct for any size except 0. Caffe2's Slice reads a negative bound v as size + v + 1, and clamps to the
        # size.
        low, high = (v if v >= 0 else v - 1 for v in (start, max(start, end) if end >= 0 else end))
        return slice_axis(net, x, axis, low, -1 if whole else high)
    # Bounds in an ONNX file may exceed any possible size.
    low, high = (max(-(2**31), min(v, 2**31)) for v in (start, end))
    return _slice_between(net, x, axis, *(net.const(np.array([v])) for v in (low, high)))


def _strided_gather(net: Net, x: Blob, start: int, end: int, axis: int, step: int) -> Blob:
    """Return every `step`-th element of an axis of dynamic size, by indices counted at run time."""
    if step < 0 or start < 0 or end < np.iinfo(np.int32).max:
        raise Unsupported(f"a Slice [{start}:{end}:{step}] along an axis whose size is not fixed")
    bounds = [net.const(np.array([v], dtype=np.int64)) for v in (start, step)]
    indices = net.facts(net.Range(bounds[0], dim(net, x, axis), bounds[1]), ir.DataType.INT64)
    shape = [*net.shape(x)[:axis], None, *net.shape(x)[axis + 1 :]]
    return net.facts(net.Gather(x, indices, axis=axis), shape=shape)


@onnx_op("GatherElements")
def gather_elements(net: Net, x: Blob, indices: Blob, *, axis: int) -> Blob:
    """Gather from the flat tensor at linear indices: a constant for the other axes, plus index times stride."""
    along = net.axis(x, axis)
    sizes, wanted = fixed_dims(net, x, "GatherElements"), fixed_dims(net, indices, "GatherElements")
    linear = linear_elements(net, wrap_negative(net, x, indices, along), sizes, wanted, along)
    return net.Gather(net.FlattenToVec(x), linear)


@onnx_op("Pad")
def pad(net: Net, x: Blob, pads: Blob, value: Blob | None, axes: Blob | None, *, mode: str) -> Blob:
    """Pad-23. Negative pads crop; the others concatenate the padding."""
    rank = net.rank(x)
    given = [int(p) for p in net.need(pads, "the pads of Pad")]
    along = list(range(rank)) if axes is None else [net.axis(x, int(a)) for a in net.need(axes, "the axes of Pad")]
    full = [0] * 2 * rank
    for i, axis in enumerate(along):
        full[axis], full[rank + axis] = given[i], given[len(along) + i]
    if mode == "edge":
        return pad_edge(net, crop(net, x, full), full)
    if mode in ("reflect", "wrap"):
        if mode == "wrap" and min(full) < 0:
            raise Unsupported("negative pads with mode='wrap'")
        return pad_by_gather(net, crop(net, x, full), full, mode)
    return crop(net, _pad_with_value(net, x, full, value), full)  # if cropped first, nothing might be left to pad


def _pad_with_value(net: Net, x: Blob, pads: Sequence[int], value: Blob | None) -> Blob:
    content = np.zeros(1) if value is None else net.need(value, "the value of Pad").ravel()
    number = content[0]
    if x.dtype == ir.DataType.DOUBLE and float(np.float32(number)) != float(number):
        raise Unsupported("a pad value of float64 that float32 does not hold")
    wide = widen(net, x, COMPARED)
    return cast(net, pad_constant(net, wide, pads, number.item()), x.dtype)
