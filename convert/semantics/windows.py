"""Sliding windows of convolutions and pools along one axis: pads of auto_pad and ceil_mode, and the number of windows.

Sources: ONNX Conv-22, MaxPool-22, AveragePool-22. Sizes may be numbers, or scalar tensors of a framework, which then
passes its own `minimum` and `maximum`. Kernels, strides and dilations are numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Size = Any
"""A number, or a scalar tensor if the size is unknown."""


def extent(kernel: Size, dilation: int) -> Size:
    """Return how many elements a dilated kernel spans."""
    return (kernel - 1) * dilation + 1


def window_count(size: Size, span: Size, stride: int, before: Size, after: Size) -> Size:
    """Return how many windows of `span` elements fit completely into the padded input."""
    return (size + before + after - span) // stride + 1


def channel_window(size: int, channels: Size) -> tuple[int, int]:
    """Return how many channels before and after its own LRN sums (ONNX LRN-13).

    If `channels` is known, the result is limited to existing channels.
    """
    before = (size - 1) // 2
    most = max(channels - 1, 0) if isinstance(channels, int) else size
    return min(before, most), min(size - 1 - before, most)


def same_pads(
    size: Size, span: Size, stride: int, auto_pad: str, maximum: Callable[[Any, Any], Any] = max
) -> tuple[Size, Size]:
    """Return the pads before and after that give ceil(size / stride) windows.

    An odd pad is after (SAME_UPPER) or before.

    The pads are never negative, even if the stride skips elements, as in TensorFlow, where this rule comes from. ONNX's
    formula does not cover that case; onnxruntime removes elements then.
    """
    total = maximum((-(-size // stride) - 1) * stride + span - size, 0) if stride > 1 else span - 1
    return split_pads(total, auto_pad)


def transposed_same_pads(span: int, stride: int, extra: int, auto_pad: str) -> tuple[int, int]:
    """Return how much SAME removes before and after a transposed convolution, so that n elements become n · stride.

    `extra` is the output padding. Neither number is negative. If the span is shorter than the stride, the formula in
    ONNX's text would add zeros; ONNX's inference and onnxruntime instead return fewer than n · stride elements, and so
    does this function.
    """
    return split_pads(max(span - stride + extra, 0), auto_pad)


def split_pads(total: Size, auto_pad: str) -> tuple[Size, Size]:
    """Return half of the pads for each side; an odd one is after (SAME_UPPER) or before (all other modes)."""
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
    """Return the pad after the input that gives as many windows, rounded down, as ceil_mode does.

    The result is `after` if that pad is enough.

    Windows that would start in the padding after the input are left out (ONNX MaxPool-22; PyTorch does the same).
    """
    if stride == 1:
        return after
    started = -(-(size + before) // stride)
    count = minimum(-(-(size + before + after - span) // stride) + 1, started)
    least = (count - 1) * stride + span - size - before
    return maximum(least, minimum(after, least + stride - 1))


def open_ceil_pad(span: int, stride: int, after: int) -> int | None:
    """Return the pad after the input that is equivalent to ceil_mode for every size; None if there is none.

    floor((m + stride - 1) / stride) is ceil(m / stride). If the span is long enough for the stride, the last window
    always begins before the padding, so that none is left out.
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
    """Return the pads before and after one axis, with auto_pad and ceil_mode resolved.

    SAME_* has ceil(size / stride) windows in any case.
    """
    if auto_pad.startswith("SAME"):
        return same_pads(size, span, stride, auto_pad, maximum)
    before, after = (0, 0) if auto_pad == "VALID" else pads
    return before, ceil_pad(size, span, stride, before, after, minimum, maximum) if ceil_mode else after
