"""Convolutions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from convert.semantics.windows import extent, same_pads, split_pads

from ..common import own_tensor
from ..rules import host, onnx_op
from ..torch_internals import check

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def window_pads(sizes: Any, kernel: Any, strides: Any, dilations: Any, auto_pad: Any, pads: Any) -> Any:
    """Return the pads before and after each spatial axis, as pairs; they are symbols if sizes are."""
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        spans = [extent(k, d) for k, d in zip(kernel, dilations, strict=True)]
        return [
            same_pads(n, span, s, auto_pad, torch.sym_max) for n, span, s in zip(sizes, spans, strides, strict=True)
        ]
    if auto_pad == "VALID" or pads is None:
        return [(0, 0)] * len(kernel)
    rank = len(kernel)
    return list(zip(pads[:rank], pads[rank:], strict=True))


def padded(x: Any, pairs: Any, value: Any = 0.0) -> Any:
    """Return x with pads at its last axes."""
    flat = [n for pair in reversed(pairs) for n in pair]
    return F.pad(x, flat, value=value)


def equal_pads(pairs: Any) -> Any:
    """Return the pads if they are equal before and after every axis, else None."""
    same = all(isinstance(a, int) and isinstance(b, int) and a == b >= 0 for a, b in pairs)
    return [a for a, _ in pairs] if same else None


@onnx_op("Conv")
def conv(t, x, w, b=None, *, auto_pad, dilations, group, kernel_shape, pads, strides):
    return convolve(x, w, b, auto_pad, dilations, group, pads, strides)


def convolve(x: Any, w: Any, b: Any, auto_pad: Any, dilations: Any, group: Any, pads: Any, strides: Any) -> Any:
    """Return a convolution of any rank; data and weights have the same dtype."""
    rank = w.dim() - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pairs = window_pads(x.shape[2:], w.shape[2:], strides, dilations, auto_pad, pads)
    equal = equal_pads(pairs)
    if equal is None:
        x, equal = padded(x, pairs), [0] * rank
    if _needs_own_strides(x, w, strides, equal, dilations, group):
        x = own_tensor(x)
    return _CONV[rank](x, w, b, strides, equal, dilations, group)


def _needs_own_strides(x: Any, w: Any, strides: Any, pads: Any, dilations: Any, group: Any) -> bool:
    """Return whether oneDNN's convolution is wrong if the channels of x are last in memory (PyTorch 2.13).

    This needs a stride along the width. oneDNN crashes the process if a window holds padding only. For a single input
    channel, no other stride and room for one window along the width, it reads elements outside the window.
    """
    if strides[-1] == 1:
        return False
    span = extent(w.shape[-1], dilations[-1])
    if pads[-1] >= span:
        return True
    width = x.shape[-1] + 2 * pads[-1]
    one_window = not isinstance(width, int) or width < span + strides[-1]
    return group == 1 and w.shape[1] == 1 and set(strides[:-1]) <= {1} and one_window


@onnx_op("ConvTranspose")
def conv_transpose(
    t, x, w, b=None, *, auto_pad, dilations, group, kernel_shape, output_padding, output_shape, pads, strides
):
    rank = w.dim() - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    extra = output_padding or [0] * rank
    spans = [extent(k, d) for k, d in zip(w.shape[2:], dilations, strict=True)]
    if output_shape or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        sizes = output_shape or [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
        totals = [
            s * (n - 1) + e + span - size
            for n, s, e, span, size in zip(x.shape[2:], strides, extra, spans, sizes, strict=True)
        ]
        if not output_shape:
            totals = [torch.sym_max(total, 0) for total in totals]
        pairs = [split_pads(total, auto_pad) for total in totals]
    else:
        pads = [0] * (2 * rank) if auto_pad == "VALID" or pads is None else pads
        pairs = list(zip(pads[:rank], pads[rank:], strict=True))
    equal = equal_pads(pairs)
    small = all(e < max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True))
    if equal is not None and small:
        return _TRANSPOSED[rank](x, w, b, strides, equal, extra, group, dilations)
    # PyTorch's pads are symmetric and its output_padding is less than a stride: compute the whole output and crop it.
    y = _TRANSPOSED[rank](x, w, None, strides, 0, 0, group, dilations)
    y = padded(y, [(-a, e - b_) for (a, b_), e in zip(pairs, extra, strict=True)])
    return y if b is None else y + b.reshape([-1, *[1] * rank])


@onnx_op("ConvInteger")
def conv_integer(t, x, w, x_zero=None, w_zero=None, *, auto_pad, dilations, group, kernel_shape, pads, strides):
    a = x.to(torch.int64) - (0 if x_zero is None else x_zero.to(torch.int64))
    b = w.to(torch.int64)
    if w_zero is not None:
        zero = w_zero.to(torch.int64)
        b = b - (zero if zero.dim() == 0 else zero.reshape([-1, *[1] * (w.dim() - 1)]))
    # Sums of products of bytes are exact in float64, which has fast kernels.
    y = convolve(a.to(torch.float64), b.to(torch.float64), None, auto_pad, dilations, group, pads, strides)
    return y.to(torch.int32)


@onnx_op("Col2Im")
@host("image_shape", "block_shape")
def col2im(t, x, image_shape, block_shape, *, dilations, pads, strides):
    image, block = t.ints(image_shape), t.ints(block_shape)
    for n in (*image, *block):
        if not isinstance(n, int):
            check(n >= 1)
    rank = len(image)
    dilations, strides, pads = dilations or [1] * rank, strides or [1] * rank, pads or [0] * (2 * rank)
    n = x.shape[0]
    taps: Any = 1
    for k in block:
        taps = taps * k
    channels = x.shape[1] // taps
    whole = [m + a + b for m, a, b in zip(image, pads[:rank], pads[rank:], strict=True)]
    counts = [(m - extent(k, d)) // s + 1 for m, k, d, s in zip(whole, block, dilations, strides, strict=True)]
    index = torch.zeros([1] * (2 * rank), dtype=torch.int64)
    for axis in range(rank):
        inner = (torch.arange(block[axis]) * dilations[axis]).reshape([-1 if i == axis else 1 for i in range(2 * rank)])
        outer = (torch.arange(counts[axis]) * strides[axis]).reshape(
            [-1 if i == axis + rank else 1 for i in range(2 * rank)]
        )
        index = index * whole[axis] + inner + outer
    size: Any = 1
    for m in whole:
        size = size * m
    y = torch.zeros([n, channels, size], dtype=x.dtype).index_add(2, index.reshape(-1), x.reshape([n, channels, -1]))
    y = y.reshape([n, channels, *whole])
    return padded(y, [(-a, -b) for a, b in zip(pads[:rank], pads[rank:], strict=True)])
