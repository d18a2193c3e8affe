"""Reference kernels of Unique, CumSum, Trilu and NonMaxSuppression, whose ONNX kernels are wrong in some cases."""

from __future__ import annotations

from typing import Any

import numpy as np

from convert.reference.kernels.math import at_least_float32
from convert.reference.table import kernel

Array = Any


@kernel("Unique")
def unique(count: int, x: Array, *, axis: int | None, sorted: int) -> tuple[Array, ...]:
    """Unique: ONNX's own kernel sorts despite sorted=0 if it has one output, and compares rows whatever the axis is."""
    text = x.dtype.kind == "O"  # numpy cannot compare slices of objects
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
    """CumSum: the axis may be a tensor of one element, which ONNX's own kernel rejects."""
    along = int(np.asarray(axis).reshape(()))
    x = np.flip(x, along) if reverse else x
    wide = at_least_float32(x)
    y = np.cumsum(wide, along, wide.dtype).astype(x.dtype, copy=False)
    if exclusive:
        y = np.roll(y, 1, along)
        np.moveaxis(y, along, 0)[:1] = 0
    return np.flip(y, along) if reverse else y


@kernel("Trilu")
def trilu(count: int, x: Array, k: Array | None, *, upper: int) -> Array:
    """Trilu: `k` may be at the limits of int64, which ONNX's own kernel rejects."""
    rows, columns = x.shape[-2:]
    place = 0 if k is None else max(-rows, min(int(k.reshape(())), columns))
    return np.triu(x, place) if upper else np.tril(x, place)


@kernel("NonMaxSuppression")
def non_max_suppression(
    count: int,
    boxes: Array,
    scores: Array,
    most: Array | None,
    overlap: Array | None,
    least: Array | None,
    *,
    center_point_box: int,
) -> Array:
    """NonMaxSuppression: ONNX's own kernel rejects nodes without one of the limits, and a negative limit of boxes."""
    limit, threshold = (0 if given is None else given.reshape(())[()] for given in (most, overlap))
    one, other = boxes[..., :2], boxes[..., 2:]
    low, high = np.minimum(one, other), np.maximum(one, other)
    if center_point_box:
        low, high = one - other / 2, one + other / 2
    rows = []
    for image, kind in np.ndindex(*scores.shape[:2]):
        row = scores[image, kind]
        allowed = np.ones(row.shape, bool) if least is None else row > least.reshape(())
        order = np.argsort(-row, kind="stable")
        left = order[allowed[order]]
        taken = 0
        while left.size and taken < limit:
            rows.append((image, kind, left[0]))
            taken += 1
            left = left[1:][~(_overlaps(low[image], high[image], left[0], left[1:]) > threshold)]
    return np.array(rows, np.int64).reshape(-1, 3)


def _overlaps(low: Array, high: Array, box: int, others: Array) -> Array:
    """Return the intersection over union of a box with each of the others; 0 if an area is 0."""
    sides = np.minimum(high[box], high[others]) - np.maximum(low[box], low[others])
    shared = np.prod(np.maximum(sides, 0), axis=-1)
    own, areas = np.prod(high[box] - low[box]), np.prod(high[others] - low[others], axis=-1)
    whole = own + areas - shared
    there = (shared > 0) & (own > 0) & (areas > 0) & (whole > 0)
    return np.where(there, shared / np.where(there, whole, 1), 0)
