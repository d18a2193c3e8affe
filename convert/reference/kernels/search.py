"""Reference kernels of Unique, CumSum, Trilu and NonMaxSuppression: ONNX's own are wrong about some of their forms."""

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


@kernel("Trilu")
def trilu(count: int, x: Array, k: Array | None, *, upper: int) -> Array:
    """ONNX's own takes no diagonal as far away as int64 reaches."""
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
    """ONNX's own takes no node without one of its limits, nor one with a limit of boxes below zero."""
    limit, threshold = (0 if given is None else given.reshape(())[()] for given in (most, overlap))
    one, other = boxes[..., :2], boxes[..., 2:]
    low, high = np.minimum(one, other), np.maximum(one, other)
    if center_point_box:
        low, high = one - other / 2, one + other / 2
    rows = []
    for image, kind in np.ndindex(*scores.shape[:2]):
        row = scores[image, kind]
        allowed = np.ones(row.shape, bool) if least is None else row > least.reshape(())
        taken: list[int] = []
        for box in np.argsort(-row, kind="stable"):
            if len(taken) >= limit:
                break
            if allowed[box] and not (_overlaps(low[image], high[image], box, taken) > threshold).any():
                taken.append(box)
        rows += [(image, kind, box) for box in taken]
    return np.array(rows, np.int64).reshape(-1, 3)


def _overlaps(low: Array, high: Array, box: int, taken: list[int]) -> Array:
    """The intersection over the union of a box with each of those that are taken; 0 where an area is none."""
    sides = np.minimum(high[box], high[taken]) - np.maximum(low[box], low[taken])
    shared = np.prod(np.maximum(sides, 0), axis=-1)
    own, others = np.prod(high[box] - low[box]), np.prod(high[taken] - low[taken], axis=-1)
    whole = own + others - shared
    there = (shared > 0) & (own > 0) & (others > 0) & (whole > 0)
    return np.where(there, shared / np.where(there, whole, 1), 0)
