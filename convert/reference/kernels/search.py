"""Reference kernels of Unique and CumSum, of which ONNX's own are wrong about some of their forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from convert.reference.table import kernel

Array = Any


@kernel("Unique")
def unique(count: int, x: Array, *, axis: int | None, sorted: int) -> tuple[Array, ...]:
    """ONNX's own sorts in spite of sorted=0 where one output is asked for, and takes rows whatever the axis is."""
    text = x.dtype.kind == "O"  # which numpy does not compare in slices
    x, along = (x.reshape(-1), 0) if axis is None else (x, axis % x.ndim)
    y, first, inverse, counts = np.unique(x.astype(str) if text else x, True, True, True, axis=along)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        y, first, counts = np.take(y, order, along), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    places = (a.astype(np.int64) for a in (first, inverse, counts))
    return (y.astype(object) if text else y, *places)[:count]


@kernel("CumSum")
def cumulative_sum(count: int, x: Array, axis: Array, *, exclusive: int, reverse: int) -> Array:
    """ONNX's own takes no axis that is a tensor of one element, as its specification allows."""
    along = int(np.asarray(axis).reshape(()))
    x = np.flip(x, along) if reverse else x
    y = np.cumsum(x, along, x.dtype)
    if exclusive:
        y = np.roll(y, 1, along)
        np.moveaxis(y, along, 0)[:1] = 0
    return np.flip(y, along) if reverse else y
