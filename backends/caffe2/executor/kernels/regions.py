"""Kernels that pool regions of an image, and kernels that draw random numbers."""

from __future__ import annotations

import numpy as np

from convert.errors import Unsupported

from .table import FLOAT, Array, ExecutorRun, kernel


@kernel("RoIAlign")
def roi_align(
    run: ExecutorRun, x: Array, rois: Array, *, spatial_scale: float = 1.0, pooled_h: int = 1, pooled_w: int = 1,
    sampling_ratio: int = 0, aligned: int = 0,
) -> Array:  # fmt: skip
    """Return the mean of bilinear samples in each bin. A region is a row [image, x1, y1, x2, y2]."""
    run.takes(FLOAT, x, rois)
    if rois.ndim != 2 or rois.shape[1] not in (4, 5):
        raise Unsupported(f"regions of shape {rois.shape}")
    y = np.zeros((len(rois), x.shape[1], pooled_h, pooled_w), x.dtype)
    number = x.dtype.type
    for i, row in enumerate(rois):
        image = int(row[0]) if rois.shape[1] == 5 else 0
        left, top, right, bottom = row[-4:] * number(spatial_scale) - number(0.5 if aligned else 0)
        sides = [bottom - top, right - left] if aligned else [max(bottom - top, 1), max(right - left, 1)]
        rows, columns = (
            _sample_shares(start, side, pooled, sampling_ratio, size)
            for start, side, pooled, size in zip((top, left), sides, (pooled_h, pooled_w), x.shape[2:], strict=True)
        )
        y[i] = np.einsum("chw,ph,qw->cpq", x[image], rows, columns)
    return y


def _sample_shares(start: float, side: float, pooled: int, ratio: int, size: int) -> Array:
    """Return the weight of each of `size` elements in each bin of an axis: [pooled, size]."""
    bin_size = side / pooled
    count = ratio if ratio > 0 else int(np.ceil(bin_size))
    shares = np.zeros((pooled, size), np.float64)
    for p in range(pooled):
        for k in range(count):
            place = start + p * bin_size + (k + 0.5) * bin_size / count
            if not -1.0 <= place <= size:
                continue
            low = min(int(max(place, 0.0)), size - 1)
            part = max(place, 0.0) - low if low < size - 1 else 0.0
            shares[p, low] += (1 - part) / count
            shares[p, min(low + 1, size - 1)] += part / count
    return shares.astype(np.asarray(start).dtype)


@kernel("RoIPool")
def roi_pool(
    run: ExecutorRun, x: Array, rois: Array, *, spatial_scale: float = 1.0, pooled_h: int = 1, pooled_w: int = 1
) -> Array:
    """Return the largest element of each bin, 0 for an empty one; corners are rounded, ties away from zero."""
    run.takes(FLOAT, x, rois)
    y = np.zeros((len(rois), x.shape[1], pooled_h, pooled_w), x.dtype)
    for i, row in enumerate(rois):
        corners = [int(np.floor(abs(v) + 0.5) * np.sign(v)) for v in row[1:] * x.dtype.type(spatial_scale)]
        left, top, right, bottom = corners
        rows, columns = _bins(top, bottom, pooled_h, x.shape[2]), _bins(left, right, pooled_w, x.shape[3])
        for p, (r0, r1) in enumerate(rows):
            for q, (c0, c1) in enumerate(columns):
                if r1 > r0 and c1 > c0:
                    y[i, :, p, q] = x[int(row[0]), :, r0:r1, c0:c1].max(axis=(1, 2))
    return y


def _bins(first: int, final: int, pooled: int, size: int) -> list[tuple[int, int]]:
    length = np.float32(max(final - first + 1, 1)) / np.float32(pooled)
    return [
        (
            min(max(int(np.floor(p * length)) + first, 0), size),
            min(max(int(np.ceil((p + 1) * length)) + first, 0), size),
        )
        for p in range(pooled)
    ]


@kernel("UniformFill")
def uniform(
    run: ExecutorRun, like: Array = None, *, min: float = 0.0, max: float = 1.0, shape: list[int] | None = None,
    input_as_shape: int = 0,
) -> Array:  # fmt: skip
    """Return new uniform numbers in each run, as the runtime does."""
    return _random_fill(run, like, shape, input_as_shape, lambda size: np.random.default_rng().uniform(min, max, size))


@kernel("GaussianFill")
def gaussian(
    run: ExecutorRun, like: Array = None, *, mean: float = 0.0, std: float = 1.0, shape: list[int] | None = None,
    input_as_shape: int = 0,
) -> Array:  # fmt: skip
    """Return new normal numbers in each run, as the runtime does."""
    return _random_fill(run, like, shape, input_as_shape, lambda size: np.random.default_rng().normal(mean, std, size))


def _random_fill(run: ExecutorRun, like: Array, shape: list[int] | None, input_as_shape: int, draw: object) -> Array:
    sizes = [int(d) for d in (shape or [] if like is None else like if input_as_shape else like.shape)]
    assert callable(draw)
    return run.widen_array(np.asarray(draw(sizes)).astype(np.float32))
