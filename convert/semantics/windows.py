"""Sliding windows of convolutions and pools along one axis: pads of auto_pad and of ceil_mode, and how many there are.

Sources: ONNX Conv-22, MaxPool-22, AveragePool-22. Sizes may be numbers or scalar tensors of a framework, which then
gives its own `minimum` and `maximum`; kernels, strides and dilations are numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Size = Any
"""A number, or a scalar tensor where it is not known."""


def extent(kernel: Size, dilation: int) -> Size:
    """How many elements a dilated kernel spans."""
    return (kernel - 1) * dilation + 1


def window_count(size: Size, span: Size, stride: int, before: Size, after: Size) -> Size:
    """How many windows of `span` elements lie in the padded input, rounding down."""
    return (size + before + after - span) // stride + 1


def channel_window(size: int, channels: Size) -> tuple[int, int]:
    """How many channels before and after its own LRN sums (ONNX LRN-13); those that there are, where that is known."""
    before = (size - 1) // 2
    most = max(channels - 1, 0) if isinstance(channels, int) else size
    return min(before, most), min(size - 1 - before, most)


def same_pads(
    size: Size, span: Size, stride: int, auto_pad: str, maximum: Callable[[Any, Any], Any] = max
) -> tuple[Size, Size]:
    """Pads before and after that give ceil(size / stride) windows; the odd one is after (SAME_UPPER) or before.

    Never negative, where the stride leaves elements out: so TensorFlow, whose rule it is. ONNX's formula says nothing
    about it; onnxruntime cuts elements off then.
    """
    total = maximum((-(-size // stride) - 1) * stride + span - size, 0) if stride > 1 else span - 1
    return split_pads(total, auto_pad)


def transposed_same_pads(span: int, stride: int, extra: int, auto_pad: str) -> tuple[int, int]:
    """What SAME takes off a transposed convolution, before and after, so that n elements become n · stride.

    extra: its output padding. Never less than nothing: of a span shorter than the stride, ONNX's own inference and
    onnxruntime leave the result shorter than n · stride, where the formula of its text would add zeros.
    """
    return split_pads(max(span - stride + extra, 0), auto_pad)


def split_pads(total: Size, auto_pad: str) -> tuple[Size, Size]:
    """Half of the pads before and half after; of an odd number one more after (SAME_UPPER) or before (all others)."""
    small = total // 2
    return (small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small)


def ceil_pad(
    size: Size,
    span: Size,
    stride: int,
    before: Size,
    after: Size,
    minimum: Callable[[Any, Any], Any] = min,
    maximum: Callable[[Any, Any], Any] = max,
) -> Size:
    """The pad after with which rounding down gives as many windows as ceil_mode: `after` itself if that is enough.

    Windows that would start in the pad after the input are left out (ONNX MaxPool-22; PyTorch does the same).
    """
    if stride == 1:
        return after
    started = -(-(size + before) // stride)
    count = minimum(-(-(size + before + after - span) // stride) + 1, started)
    least = (count - 1) * stride + span - size - before
    return maximum(least, minimum(after, least + stride - 1))


def open_ceil_pad(span: int, stride: int, after: int) -> int | None:
    """The pad after with which rounding down gives as many windows as ceil_mode, whatever the size is; None if none is.

    floor((m + stride - 1) / stride) is ceil(m / stride). The last window begins before the pad where the span is long
    enough for the stride, so that none is left out.
    """
    return after + stride - 1 if span >= stride + after else None


def axis_pads(
    size: Size,
    span: Size,
    stride: int,
    pads: tuple[Size, Size],
    auto_pad: str,
    ceil_mode: int = 0,
    minimum: Callable[[Any, Any], Any] = min,
    maximum: Callable[[Any, Any], Any] = max,
) -> tuple[Size, Size]:
    """Pads before and after one axis, with auto_pad and ceil_mode resolved; SAME_* has ceil(size / stride) already."""
    if auto_pad.startswith("SAME"):
        return same_pads(size, span, stride, auto_pad, maximum)
    before, after = (0, 0) if auto_pad == "VALID" else pads
    return before, ceil_pad(size, span, stride, before, after, minimum, maximum) if ceil_mode else after
