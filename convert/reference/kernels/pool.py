"""Reference kernels of pools, one kernel tap at a time over the whole input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from convert.reference.kernels.nn import _tap_slices, padding
from convert.reference.table import kernel

Array = Any


@kernel("MaxPool")
def max_pool(
    count: int,
    x: Array,
    *,
    auto_pad: str,
    ceil_mode: int,
    dilations: Any,
    kernel_shape: Any,
    pads: Any,
    storage_order: int,
    strides: Any,
) -> Any:
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    padded, windows, _ = _windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, lowest)
    y = padded[windows[0]].copy()
    if count == 1:
        for window in windows[1:]:
            np.maximum(y, padded[window], out=y)
        return y
    places = _flat_indices(x, padded.shape, kernel_shape, strides, dilations, pads, auto_pad, storage_order)
    where = np.broadcast_to(places[windows[0][2:]], y.shape).copy()
    for window in windows[1:]:
        candidate = padded[window]
        better = (candidate > y) | (candidate != candidate)  # NaN counts as the maximum
        y = np.where(better, candidate, y)
        where = np.where(better, places[window[2:]], where)
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[0], x.shape[1], *[1] * (x.ndim - 2))
    return y, where + planes * int(np.prod(x.shape[2:]))


@kernel("AveragePool")
def average_pool(
    count: int,
    x: Array,
    *,
    auto_pad: str,
    ceil_mode: int,
    count_include_pad: int,
    dilations: Any,
    kernel_shape: Any,
    pads: Any,
    strides: Any,
) -> Array:
    """Return the mean of the elements in each window; with `count_include_pad` the padding counts too."""
    padded, windows, (before, after) = _windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, 0)
    counted = np.zeros(padded.shape[2:], x.dtype)
    inner = x.shape[2:]
    if count_include_pad:
        counted[tuple(slice(0, a + n + b) for a, n, b in zip(before, inner, after, strict=True))] = 1
    else:
        counted[tuple(slice(a, a + n) for a, n in zip(before, inner, strict=True))] = 1
    total = sum(padded[w] for w in windows)
    return total / sum(counted[w[2:]] for w in windows)


@kernel("LpPool")
def lp_pool(
    count: int,
    x: Array,
    *,
    auto_pad: str,
    ceil_mode: int,
    dilations: Any,
    kernel_shape: Any,
    p: int,
    pads: Any,
    strides: Any,
) -> Array:
    padded, windows, _ = _windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, 0)
    powers = np.abs(padded) ** p
    return sum(powers[w] for w in windows) ** (1 / p)


@kernel("GlobalAveragePool")
def global_average_pool(count: int, x: Array) -> Array:
    return x.mean(tuple(range(2, x.ndim)), keepdims=True)


@kernel("GlobalMaxPool")
def global_max_pool(count: int, x: Array) -> Array:
    return x.max(tuple(range(2, x.ndim)), keepdims=True)


@kernel("GlobalLpPool")
def global_lp_pool(count: int, x: Array, *, p: int) -> Array:
    return np.sum(np.abs(x) ** p, tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)


def _windows(
    x: Array, taps: Sequence[int], strides: Any, dilations: Any, pads: Any, auto_pad: str, ceil_mode: int, fill: Any
) -> tuple[Array, list[tuple[slice, ...]], tuple[list[int], list[int]]]:
    """Return the padded input, the slice of it for each kernel tap, and the requested padding.

    With `ceil_mode`, the last window may extend beyond the end; a window that would start in the padding after the
    input is left out (ONNX MaxPool-22).
    """
    rank = len(taps)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    before, after = padding(x.shape[2:], taps, strides, dilations, pads, auto_pad)
    sizes, more = [], []
    for n, k, s, d, a, b in zip(x.shape[2:], taps, strides, dilations, before, after, strict=True):
        last_start = n + a + b - d * (k - 1) - 1
        size = (-(-last_start // s) if ceil_mode else last_start // s) + 1
        if ceil_mode and (size - 1) * s >= n + a:
            size -= 1
        sizes.append(size)
        more.append(max(0, (size - 1) * s + d * (k - 1) + 1 - (n + a + b)))
    widths = [(0, 0), (0, 0), *((a, b + m) for a, b, m in zip(before, after, more, strict=True))]
    padded = np.pad(x, widths, constant_values=fill)
    everything = (slice(None), slice(None))
    return padded, [everything + where for where in _tap_slices(taps, sizes, strides, dilations)], (before, after)


def _flat_indices(
    x: Array,
    padded: Sequence[int],
    taps: Sequence[int],
    strides: Any,
    dilations: Any,
    pads: Any,
    auto_pad: str,
    storage_order: int,
) -> Array:
    """Return, for each element of the padded plane, its index in the plane of `x`, in row or column order."""
    rank = len(taps)
    before, _ = padding(x.shape[2:], taps, strides or [1] * rank, dilations or [1] * rank, pads, auto_pad)
    dims = x.shape[2:]
    indices = np.arange(int(np.prod(dims)), dtype=np.int64)
    plane = indices.reshape(dims, order="F") if storage_order else indices.reshape(dims)
    widths = [(a, total - a - n) for a, n, total in zip(before, dims, padded[2:], strict=True)]
    return np.pad(plane, widths)
