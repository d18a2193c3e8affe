"""Pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from convert.errors import Unsupported
from convert.semantics.windows import Window

from ..rules import onnx_op
from .conv import padded, windows

_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


@onnx_op("MaxPool")
def max_pool(t, x, *, auto_pad, dilations, kernel_shape, pads, storage_order, strides):
    window, dtype = windows(x, kernel_shape, strides, dilations, pads, auto_pad), x.dtype
    rank, equal = window.rank, window.equal_pads
    if rank > 3:
        raise Unsupported("MaxPool over more than three axes")
    y = x if dtype.is_floating_point else x.to(torch.float32)
    own = equal is not None and all(2 * p <= k for p, k in zip(equal, window.kernel, strict=True))
    shifted = y if own else padded(y, window, float("-inf"))
    pool: Callable[..., Any] = max_of_lines if rank == 1 and not t.writes_code else _MAX[rank]
    arguments = (kernel_shape, list(window.strides), equal if own else [0] * rank, list(window.dilations))
    if t.outputs < 2:
        return pool(shifted, *arguments).to(dtype)
    values, places = pool(shifted, *arguments, return_indices=True)
    befores = [0] * rank if own else window.before
    return values.to(dtype), _flat_places(places, x, shifted, befores, bool(storage_order))


def max_of_lines(
    x: Any,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (0,),
    dilations: Sequence[int] = (1,),
    ceil: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return `F.max_pool1d`, which PyTorch itself captures for a single length only."""
    window = ([1, *kernel], [1, *(strides or kernel)], [0, *pads], [1, *dilations], ceil)
    if not return_indices:
        return F.max_pool2d(x.unsqueeze(-2), *window).squeeze(-2)
    values, places = F.max_pool2d(x.unsqueeze(-2), *window, return_indices=True)
    return values.squeeze(-2), places.squeeze(-2)


def _flat_places(places: Any, x: Any, shifted: Any, befores: Any, column_major: Any) -> Any:
    """Return indices into an input without pads, counted through all channels and images (MaxPool-22)."""
    parts, rest = [], places
    for n, before in zip(reversed(shifted.shape[2:]), reversed(befores), strict=True):
        parts.append(torch.remainder(rest, n) - before)
        rest = torch.div(rest, n, rounding_mode="floor")
    axes = parts[::-1]
    sizes = list(x.shape[2:])
    order = list(range(len(axes)))[::-1] if column_major else list(range(len(axes)))
    flat = torch.zeros_like(places)
    for i in order:
        flat = flat * sizes[i] + axes[i]
    area = 1
    for n in sizes:
        area = area * n
    images = torch.arange(x.shape[0] * x.shape[1]).reshape([x.shape[0], x.shape[1], *[1] * len(sizes)])
    return flat + images * area


@onnx_op("AveragePool")
def average_pool(t, x, *, auto_pad, count_include_pad, dilations, kernel_shape, pads, strides):
    window, dtype = windows(x, kernel_shape, strides, dilations, pads, auto_pad), x.dtype
    rank, equal = window.rank, window.equal_pads
    plain = all(d == 1 for d in window.dilations) and rank <= 3
    # PyTorch rejects a volume that is smaller than the window without its pads.
    plain = plain and (rank < 3 or all(map(_reaches, x.shape[2:], window.kernel, window.pairs)))
    if plain and equal is not None and all(2 * p <= k for p, k in zip(equal, kernel_shape, strict=True)):
        how = () if window.is_unpadded else (equal, False, bool(count_include_pad))
        return _AVERAGE[rank](x, kernel_shape, list(window.strides), *how)
    total = _sums(padded(x, window), window)
    counted = padded(torch.ones_like(x[:1, :1]), window, float(count_include_pad))
    return (total / _sums(counted, window)).to(dtype)


def _reaches(size: Any, kernel: int, pads: Any) -> bool:
    return all(isinstance(p, int) and p == 0 for p in pads) or (isinstance(size, int) and size >= kernel)


def _sums(x: Any, window: Window) -> Any:
    """Return the sum of each window over an input that is already padded: a depthwise convolution with ones."""
    n, c = x.shape[:2]
    flat = x.reshape([n * c, 1, *x.shape[2:]])
    conv = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}.get(window.rank)
    if conv is None:
        raise Unsupported("a pool over more than three axes")
    ones = torch.ones([1, 1, *window.kernel], dtype=x.dtype)
    y = conv(flat, ones, None, list(window.strides), 0, list(window.dilations))
    return y.reshape([n, c, *y.shape[2:]])


@onnx_op("GlobalAveragePool")
def global_average_pool(t, x):
    return torch.mean(x, list(range(2, x.dim())), True)


@onnx_op("GlobalMaxPool")
def global_max_pool(t, x):
    return torch.amax(x, list(range(2, x.dim())), True)
