"""Reference kernels that sample images at fractional coordinates: RoiAlign, MaxRoiPool, DeformConv.

ONNX's reference (1.23) loops over single elements in Python, which takes minutes for one layer, and has no MaxRoiPool.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from convert.errors import Unsupported
from convert.reference.table import kernel

Array = Any


@kernel("DeformConv")
def deform_conv(
    count: int,
    x: Array,
    w: Array,
    offset: Array,
    b: Array = None,
    mask: Array = None,
    *,
    dilations: Any,
    group: int,
    kernel_shape: Any,
    offset_group: int,
    pads: Any,
    strides: Any,
) -> Array:
    """Return a convolution whose window elements are read at coordinates shifted by `offset`, times `mask` (ONNX
    DeformConv-22).
    """
    taps, sizes = w.shape[2:], offset.shape[2:]
    rank, (images, channels) = len(taps), x.shape[:2]
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    each = int(np.prod(taps))
    if offset.shape[1] != offset_group * each * rank:
        raise Unsupported(f"DeformConv of {offset.shape[1]} offsets for a kernel of {taps}")
    moves = offset.reshape(images, offset_group, each, rank, *sizes)
    factors = None if mask is None else mask.reshape(images, offset_group, 1, each, *sizes)
    weights = w.reshape(group, w.shape[0] // group, w.shape[1], each)
    starts = np.meshgrid(*(np.arange(n) * s - p for n, s, p in zip(sizes, strides, pads, strict=False)), indexing="ij")
    grouped = x.reshape(images, offset_group, channels // offset_group, *x.shape[2:])
    y = np.zeros((images, group, weights.shape[1], int(np.prod(sizes))), x.dtype)
    for t, tap in enumerate(itertools.product(*map(range, taps))):
        steps = zip(starts, tap, dilations, strict=True)
        value = _interpolate(grouped, [a + k * d + moves[:, :, t, i] for i, (a, k, d) in enumerate(steps)])
        if factors is not None:
            value = value * factors[:, :, :, t]
        y += weights[..., t] @ value.reshape(images, group, channels // group, y.shape[-1])
    y = y.reshape(images, w.shape[0], *sizes)
    return y if b is None else y + b.reshape(-1, *[1] * rank)


def _interpolate(x: Array, places: Sequence[Array]) -> Array:
    """Return `x` [n, g, c, …] interpolated linearly at coordinates [n, g, …], one array per axis; elements outside are
    0.
    """
    dims = x.shape[3:]
    flat = x.reshape(*x.shape[:3], int(np.prod(dims)))
    y = np.zeros((*x.shape[:3], *places[0].shape[2:]), x.dtype)
    for corner in itertools.product((0, 1), repeat=len(dims)):
        weight, inside, index = np.ones((), x.dtype), np.ones((), bool), np.zeros((), np.int64)
        for place, up, n in zip(places, corner, dims, strict=True):
            at = np.floor(place) + up
            weight = weight * (1 - np.abs(place - at))
            there = (at >= 0) & (at < n)
            inside = inside & there
            index = index * n + np.where(there, at, 0).astype(np.int64)
        taken = np.take_along_axis(flat, index.reshape(*index.shape[:2], 1, int(np.prod(index.shape[2:]))), 3).reshape(
            y.shape
        )
        y += (taken * np.where(inside, weight, 0)[:, :, None]).astype(x.dtype, copy=False)
    return y


@kernel("RoiAlign")
def roi_align(
    count: int,
    x: Array,
    rois: Array,
    batch: Array,
    *,
    coordinate_transformation_mode: str,
    mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
) -> Array:
    """Return the mean of the samples in each bin of each region, or the largest of their weighted neighbours (ONNX
    RoiAlign-22).
    """
    half = coordinate_transformation_mode == "half_pixel"
    y = np.zeros((len(rois), x.shape[1], output_height, output_width), x.dtype)
    scale = rois.dtype.type(spatial_scale)
    for region, picture, out in zip(rois, batch, y, strict=True):
        left, top, right, bottom = region * scale - (rois.dtype.type(0.5) if half else 0)
        rows = _samples(top, bottom, output_height, x.shape[2], sampling_ratio, half)
        columns = _samples(left, right, output_width, x.shape[3], sampling_ratio, half)
        values = [_weighted_neighbors(x[picture], r, c) for r, c in itertools.product(rows, columns)]
        if values and mode == "avg":
            out[:] = sum(map(sum, values)) / len(values)
        elif values:
            out[:] = np.max([np.max(v, 0) for v in values], 0)
    return y


Neighbors = tuple[tuple[Array, Array], tuple[Array, Array]]
"""Along one axis, for a sample in each bin: places of the two elements around it, and their weights."""


def _samples(start: Any, end: Any, bins: int, length: int, ratio: int, half: bool) -> list[Neighbors]:
    """Return the neighbours, in all bins, of each of a bin's samples along one axis."""
    extent = end - start if half else max(end - start, type(start)(1))
    width = extent / bins
    each = ratio if ratio > 0 else int(np.ceil(width))
    found = []
    for number in range(each):
        at = start + np.arange(bins, dtype=start.dtype) * width + start.dtype.type(number + 0.5) * width / each
        inside = (at >= -1) & (at <= length)
        at = np.clip(np.where(inside, at, 0), 0, length - 1)
        low = np.floor(at).astype(np.int64)
        upper = at - low
        places = low, np.minimum(low + 1, length - 1)
        found.append((places, (np.where(inside, 1 - upper, 0), np.where(inside, upper, 0))))
    return found


def _weighted_neighbors(x: Array, rows: Neighbors, columns: Neighbors) -> list[Array]:
    """Return the four neighbours of each sample in `x` [c, h, w], times their weights: each [c, bins, bins]."""
    flat, width = x.reshape(len(x), -1), x.shape[2]
    return [
        np.take(flat, row[:, None] * width + column, 1) * (down[:, None] * across).astype(x.dtype)
        for (row, down), (column, across) in itertools.product(zip(*rows, strict=True), zip(*columns, strict=True))
    ]


@kernel("MaxRoiPool")
def max_roi_pool(count: int, x: Array, rois: Array, *, pooled_shape: Any, spatial_scale: float) -> Array:
    """Return the largest element in each bin of each region (image, x1, y1, x2, y2); 0 for a bin without elements."""
    scaled = rois[:, 1:] * rois.dtype.type(spatial_scale)
    corners = (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(np.int64)
    y = np.zeros((len(rois), x.shape[1], *pooled_shape), x.dtype)
    for picture, (left, top, right, bottom), out in zip(rois[:, 0].astype(np.int64), corners, y, strict=True):
        rows = _bins(top, bottom, pooled_shape[0], x.shape[2])
        columns = _bins(left, right, pooled_shape[1], x.shape[3])
        for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
            part = x[picture, :, row, column]
            if part.size:
                out[:, i, j] = part.max((1, 2))
    return y


def _bins(start: int, end: int, bins: int, length: int) -> list[slice]:
    """Return the elements of each bin along one axis. Bounds are rounded, so they are computed in float32 as in
    runtimes.
    """
    width = np.float32(max(end - start + 1, 1)) / np.float32(bins)
    number = np.arange(bins + 1, dtype=np.float32)
    first = np.clip(np.floor(number[:-1] * width).astype(np.int64) + start, 0, length)
    after = np.clip(np.ceil(number[1:] * width).astype(np.int64) + start, 0, length)
    return [slice(a, b) for a, b in zip(first, after, strict=True)]
