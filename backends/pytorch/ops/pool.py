"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from convert.errors import Unsupported
from convert.semantics.windows import ceil_pad, extent

from ..common import halves_in_float32
from ..rules import onnx_op
from .conv import equal_pads, padded, window_pads

_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _window(x: Any, kernel: Any, strides: Any, dilations: Any, auto_pad: Any, pads: Any, ceil: Any) -> Any:
    """Return the pads of each axis, with the extra padding of ceil_mode, and the pads without it."""
    rank = len(kernel)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pairs = window_pads(x.shape[2:], kernel, strides, dilations, auto_pad, pads)
    if not ceil or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        return pairs, pairs, strides, dilations
    whole = [
        (before, ceil_pad(n, extent(k, d), s, before, after, torch.sym_min, torch.sym_max))
        for n, (before, after), k, s, d in zip(x.shape[2:], pairs, kernel, strides, dilations, strict=True)
    ]
    return whole, pairs, strides, dilations


@onnx_op("MaxPool")
def max_pool(t, x, *, auto_pad, ceil_mode, dilations, kernel_shape, pads, storage_order, strides):
    rank, dtype = len(kernel_shape), x.dtype
    whole, _, strides, dilations = _window(x, kernel_shape, strides, dilations, auto_pad, pads, ceil_mode)
    if rank > 3:
        raise Unsupported("MaxPool over more than three axes")
    y = x if dtype.is_floating_point else x.to(torch.float32)
    equal = equal_pads(whole)
    own = equal is not None and all(2 * p <= k for p, k in zip(equal, kernel_shape, strict=True))
    shifted = y if own else padded(y, whole, float("-inf"))
    pool = max_of_lines if rank == 1 and not t.writes_code else _MAX[rank]
    window = (kernel_shape, strides, equal if own else [0] * rank, dilations)
    if t.outputs < 2:
        return pool(shifted, *window).to(dtype)
    values, places = pool(shifted, *window, return_indices=True)
    befores = [0] * rank if own else [a for a, _ in whole]
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
def average_pool(t, x, *, auto_pad, ceil_mode, count_include_pad, dilations, kernel_shape, pads, strides):
    rank, dtype = len(kernel_shape), x.dtype
    whole, given, strides, dilations = _window(x, kernel_shape, strides, dilations, auto_pad, pads, ceil_mode)
    equal = equal_pads(whole)
    plain = all(d == 1 for d in dilations) and rank <= 3
    # PyTorch rejects a volume that is smaller than the window without its pads.
    plain = plain and (rank < 3 or all(_reaches(*axis) for axis in zip(x.shape[2:], kernel_shape, whole, strict=True)))
    # PyTorch would also count the padding that ceil_mode adds.
    own = equal is not None and (not count_include_pad or [tuple(p) for p in whole] == [tuple(p) for p in given])
    if plain and own and all(2 * p <= k for p, k in zip(equal, kernel_shape, strict=True)):
        return _AVERAGE[rank](x, kernel_shape, strides, equal, False, bool(count_include_pad))
    if plain and all(isinstance(p, int) and p == 0 for pair in whole for p in pair):
        return _AVERAGE[rank](x, kernel_shape, strides)
    total = _sums(padded(x, whole), kernel_shape, strides, dilations)
    ones = torch.ones_like(x[:1, :1])
    if count_include_pad:
        ones = padded(ones, given, 1.0)
        beyond = [(0, w[1] - g[1]) for w, g in zip(whole, given, strict=True)]
        counted = padded(ones, beyond)
    else:
        counted = padded(ones, whole)
    return (total / _sums(counted, kernel_shape, strides, dilations)).to(dtype)


def _reaches(size: Any, window: int, pads: Any) -> bool:
    return all(isinstance(p, int) and p == 0 for p in pads) or (isinstance(size, int) and size >= window)


def _sums(x: Any, kernel: Any, strides: Any, dilations: Any) -> Any:
    """Return the sum of each window: a depthwise convolution with ones."""
    rank, (n, c) = len(kernel), x.shape[:2]
    flat = x.reshape([n * c, 1, *x.shape[2:]])
    conv = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}.get(rank)
    if conv is None:
        raise Unsupported("a pool over more than three axes")
    y = conv(flat, torch.ones([1, 1, *kernel], dtype=x.dtype), None, strides, 0, dilations)
    return y.reshape([n, c, *y.shape[2:]])


@onnx_op("LpPool")
@halves_in_float32
def lp_pool(t, x, *, auto_pad, ceil_mode, dilations, kernel_shape, p, pads, strides):
    whole, _, strides, dilations = _window(x, kernel_shape, strides, dilations, auto_pad, pads, ceil_mode)
    y = torch.pow(torch.abs(padded(x, whole)), p)
    return torch.pow(_sums(y, kernel_shape, strides, dilations), 1 / p)


@onnx_op("GlobalAveragePool")
def global_average_pool(t, x):
    return torch.mean(x, list(range(2, x.dim())), True)


@onnx_op("GlobalMaxPool")
def global_max_pool(t, x):
    return torch.amax(x, list(range(2, x.dim())), True)


@onnx_op("GlobalLpPool")
@halves_in_float32
def global_lp_pool(t, x, *, p):
    return torch.pow(torch.sum(torch.pow(torch.abs(x), p), list(range(2, x.dim())), True), 1 / p)
