"""Padding of any rank, along any axis of static or dynamic size, by slices concatenated to the tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..net import Net
from .dtypes import cast, widen
from .shapes import concat, dim, fill, full_like

_TO_THE_END = -1  # Caffe2's Slice: a negative end e means size + e + 1


def slice_axis(net: Net, x: Blob, axis: int, start: int, end: int) -> Blob:
    """Return `x[start:end]` along one axis, with Caffe2's meaning of `end`: −1 is the end, −2 the last element."""
    rank = net.rank(x)
    starts, ends = [0] * rank, [_TO_THE_END] * rank
    starts[axis], ends[axis] = start, end
    shape = list(net.shape(x))
    size = shape[axis]
    shape[axis] = None
    if isinstance(size, int):
        low, high = (v if v >= 0 else size + v + 1 for v in (start, end))
        shape[axis] = max(0, min(high, size) - low)
    return net.facts(net.Slice(x, starts=starts, ends=ends), shape=shape)


def crop(net: Net, x: Blob, pads: Sequence[int]) -> Blob:
    """Crop as many elements as the negative entries of `pads` say (ONNX order: all beginnings, then all ends)."""
    n = len(pads) // 2
    for axis in range(n):
        begin, end = -min(0, pads[axis]), -min(0, pads[n + axis])
        if begin or end:
            x = slice_axis(net, x, axis, begin, _TO_THE_END - end)
    return x


def pad_constant(net: Net, x: Blob, pads: Sequence[int], value: float) -> Blob:
    """Return `x` with `value` around it."""
    n = len(pads) // 2
    for axis in range(n):
        begin, end = max(0, pads[axis]), max(0, pads[n + axis])
        if not begin and not end:
            continue
        size = net.shape(x)[axis]
        if isinstance(size, int) and size:
            edge = full_like(net, slice_axis(net, x, axis, 0, 1), value, x.dtype)
            before, after = _repeat_edge(net, edge, axis, begin), _repeat_edge(net, edge, axis, end)
        else:
            before, after = ([_filled(net, x, axis, n, value)] if n else [] for n in (begin, end))
        x = _concat_around(net, x, axis, before, after)
    return x


def _filled(net: Net, x: Blob, axis: int, count: int, value: float) -> Blob:
    """Return `value` in the shape of `x` except along `axis`; `x` may be empty there, so there may be no element to
    repeat.
    """
    sizes = [net.const(np.array([count])) if i == axis else dim(net, x, i) for i in range(net.rank(x))]
    shape = [count if i == axis else d for i, d in enumerate(net.shape(x))]
    return fill(net, concat(net, sizes), shape, value, x.dtype)


def pad_edge(net: Net, x: Blob, pads: Sequence[int]) -> Blob:
    """Return `x` with its first and last elements repeated around it."""
    n = len(pads) // 2
    for axis in range(n):
        begin, end = max(0, pads[axis]), max(0, pads[n + axis])
        first = _repeat_edge(net, slice_axis(net, x, axis, 0, 1), axis, begin) if begin else []
        final = _repeat_edge(net, slice_axis(net, x, axis, -2, _TO_THE_END), axis, end) if end else []
        x = _concat_around(net, x, axis, first, final)
    return x


def pad_by_gather(net: Net, x: Blob, pads: Sequence[int], mode: str) -> Blob:
    """Return `x` with its mirror image (`reflect`) or repetition (`wrap`) around it; padded axes must be static."""
    n = len(pads) // 2
    for axis in range(n):
        begin, end = max(0, pads[axis]), max(0, pads[n + axis])
        size = net.shape(x)[axis]
        if not begin and not end:
            continue
        if not isinstance(size, int):
            raise Unsupported(f"a {mode} pad of an axis whose size is not fixed")
        indices = np.pad(np.arange(size), (begin, end), mode="reflect" if mode == "reflect" else "wrap")
        shape = [*net.shape(x)[:axis], len(indices), *net.shape(x)[axis + 1 :]]
        x = net.facts(net.Gather(x, net.const(indices.astype(np.int64)), axis=axis), shape=shape)
    return x


def _repeat_edge(net: Net, edge: Blob, axis: int, times: int) -> list[Blob]:
    """Return `times` copies of `edge`, of size 1 along `axis`; Tile is used if that takes fewer operators."""
    if times <= 2:
        return [edge] * times
    wide = widen(net, edge, (ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.DOUBLE))
    tiled = net.Tile(wide, tiles=times, axis=axis)
    shape = None if edge.shape is None else [*edge.shape[:axis], times, *edge.shape[axis + 1 :]]
    return [cast(net, net.facts(tiled, wide.dtype, shape), edge.dtype)]


def _concat_around(net: Net, x: Blob, axis: int, before: list[Blob], after: list[Blob]) -> Blob:
    if not before and not after:
        return x
    parts = [*before, x, *after]
    sizes = [p.shape[axis] if p.shape is not None else None for p in parts]
    total = sum(s for s in sizes if isinstance(s, int)) if all(isinstance(s, int) for s in sizes) else None
    shape = [*net.shape(x)[:axis], total, *net.shape(x)[axis + 1 :]]
    return net.facts(net.op("Concat", parts, axis=axis, outputs=2)[0], x.dtype, shape)
