"""Depthwise convolutions in float64: PyTorch has no kernel for them and convolves one channel after another.

Importing this module fills the table of `float64_ops`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch

from .float64_ops import DOUBLE

_CACHED = 1 << 18
"""Size in bytes of the output block that the taps accumulate into; it fits into a core's own cache."""


def _convolution(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int, *kernels: bool,
    **out: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Convolve as PyTorch does, except that depthwise convolutions go through `_depthwise`."""
    rank = weight.dim() - 2
    depthwise = not transposed and 1 < groups == x.shape[1] and weight.shape[1] == 1
    ordinary = x.dtype == weight.dtype == torch.float64 and x.numel() > 0 and min(padding) >= 0
    whole = len(stride) == len(padding) == len(dilation) == rank
    if depthwise and ordinary and whole and not out:
        padded = torch.nn.functional.pad(x, [n for p in reversed(padding) for n in (p, p)])
        sizes = [
            (n - d * (k - 1) - 1) // s + 1
            for n, k, s, d in zip(padded.shape[2:], weight.shape[2:], stride, dilation, strict=True)
        ]
        if min(sizes) > 0:
            y = _depthwise(padded, weight, sizes, stride, dilation)
            return y if bias is None else y.add_(bias.reshape(-1, *[1] * rank))
    function: Any = torch.ops.aten._convolution if kernels else torch.ops.aten.convolution
    return function(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *kernels, **out)


DOUBLE.update({"aten::convolution": _convolution, "aten::_convolution": _convolution})


def _depthwise(
    x: torch.Tensor, weight: torch.Tensor, sizes: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> torch.Tensor:
    """Return the sum over the taps of a kernel, computed for as many channels at a time as fit into a core's cache."""
    images, channels = x.shape[:2]
    each, ones = weight.shape[0] // channels, [1] * len(sizes)
    taps = weight.reshape(channels, each, *ones, -1)
    out = x.new_zeros(images, channels, each, *sizes)
    windows = [
        tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s) for k, n, s, d in zip(place, sizes, stride, dilation, strict=True)
        )
        for place in itertools.product(*map(range, weight.shape[2:]))
    ]
    at_once = max(1, _CACHED // (each * math.prod(sizes) * out.itemsize))
    for image, first in itertools.product(range(images), range(0, channels, at_once)):
        some = slice(first, first + at_once)
        for place, window in enumerate(windows):
            out[image, some].addcmul_(x[(image, some, None, *window)], taps[some, ..., place])
    return out.reshape(images, channels * each, *sizes)
