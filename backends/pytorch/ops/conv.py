"""Convolutions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from convert.semantics.windows import Window, extent

from ..common import own_tensor
from ..rules import host, onnx_op
from ..torch_internals import check

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def windows(x: Any, kernel: Any, strides: Any, dilations: Any, pads: Any, auto_pad: Any) -> Window:
    """Return the windows over the spatial axes of x; pads are symbols if sizes are."""
    made = Window.of(kernel, strides, dilations, pads).with_auto_pad(x.shape[2:], auto_pad, torch.sym_max)
    assert made is not None  # no size is None
    return made


def padded(x: Any, window: Window, value: Any = 0.0) -> Any:
    """Return x with the pads of a window at its last axes; negative ones remove elements."""
    return F.pad(x, [n for pair in reversed(window.pairs) for n in pair], value=value)


@onnx_op("Conv")
def conv(t, x, w, b=None, *, auto_pad, dilations, group, kernel_shape, pads, strides):
    return convolve(x, w, b, windows(x, w.shape[2:], strides, dilations, pads, auto_pad), group)


def convolve(x: Any, w: Any, b: Any, window: Window, group: Any) -> Any:
    """Return a convolution of any rank; data and weights have the same dtype."""
    pads = window.equal_pads
    if pads is None:
        x, pads = padded(x, window), [0] * window.rank
    if _needs_own_strides(x, w, window.strides, pads, window.dilations, group):
        x = own_tensor(x)
    return _CONV[window.rank](x, w, b, list(window.strides), pads, list(window.dilations), group)


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
    given, extra = Window.of(w.shape[2:], strides, dilations, pads), output_padding or [0] * (w.dim() - 2)
    made = given.transposed(x.shape[2:], extra, auto_pad, output_shape, torch.sym_max)
    assert made is not None  # no size is None
    window, extra = made
    pads, strides, dilations = window.equal_pads, list(window.strides), list(window.dilations)
    small = all(isinstance(e, int) and e < max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True))
    if pads is not None and small:
        return _TRANSPOSED[window.rank](x, w, b, strides, pads, extra, group, dilations)
    # PyTorch's pads are symmetric and its output_padding is less than a stride: compute the whole output and crop it.
    y = _TRANSPOSED[window.rank](x, w, None, strides, 0, 0, group, dilations)
    y = padded(y, window.with_pads([(-a, e - b_) for (a, b_), e in zip(window.pairs, extra, strict=True)]))
    return y if b is None else y + b.reshape([-1, *[1] * window.rank])


@onnx_op("Col2Im")
@host("image_shape", "block_shape")
def col2im(t, x, image_shape, block_shape, *, dilations, pads, strides):
    image, block = t.ints(image_shape), t.ints(block_shape)
    for n in (*image, *block):
        if not isinstance(n, int):
            check(n >= 1)
    rank = len(image)
    window = Window.of(block, strides, dilations, pads)
    n = x.shape[0]
    taps: Any = 1
    for k in block:
        taps = taps * k
    channels = x.shape[1] // taps
    whole = [m + a + b for m, a, b in zip(image, window.before, window.after, strict=True)]
    counts = window.counts(image)
    index = torch.zeros([1] * (2 * rank), dtype=torch.int64)
    for axis in range(rank):
        inner = torch.arange(block[axis]) * window.dilations[axis]
        outer = torch.arange(counts[axis]) * window.strides[axis]
        index = index * whole[axis] + _along(inner, axis, 2 * rank) + _along(outer, axis + rank, 2 * rank)
    size: Any = 1
    for m in whole:
        size = size * m
    y = torch.zeros([n, channels, size], dtype=x.dtype).index_add(2, index.reshape(-1), x.reshape([n, channels, -1]))
    y = y.reshape([n, channels, *whole])
    return padded(y, window.with_pads([(-a, -b) for a, b in window.pairs]))


def _along(numbers: Any, axis: int, rank: int) -> Any:
    """Return a vector as a tensor of `rank` dims along one axis."""
    return numbers.reshape([-1 if i == axis else 1 for i in range(rank)])
