"""Sliding windows of convolutions and pools: their number, and the pads that auto_pad, ceil_mode and output_shape mean.

Sources: ONNX Conv-22, MaxPool-22, AveragePool-22, ConvTranspose-22. Sizes of inputs may be numbers, None if unknown, or
scalar tensors of a framework, which then passes its own `maximum`. Kernels may be tensors too; strides and dilations
are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

Size = Any
"""A number, or a scalar tensor if the size is unknown during conversion."""


@dataclass(frozen=True)
class Window:
    """One window for each spatial axis: kernel size, stride, dilation, and the pads before and after the input.

    Negative pads remove elements. `same`: the pads depend on sizes that are unknown during conversion, and are those of
    SAME_UPPER.
    """

    kernel: tuple[Size, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[Size, ...]
    after: tuple[Size, ...]
    same: bool = False

    @classmethod
    def of(
        cls,
        kernel: Sequence[Size],
        strides: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        pads: Sequence[Size] | None = None,
    ) -> Window:
        """Return the window of ONNX's attributes; `pads` are all beginnings, then all ends. Missing ones have ONNX's
        defaults.
        """
        n = len(kernel)
        ones, pads = (1,) * n, tuple(pads or (0,) * 2 * n)
        return cls(tuple(kernel), tuple(strides or ones), tuple(dilations or ones), pads[:n], pads[n:])

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel)

    @property
    def spans(self) -> tuple[Size, ...]:
        """How many elements the dilated kernel spans along each axis."""
        return tuple(extent(k, d) for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def pads(self) -> list[Size]:
        """The pads in ONNX's order: all beginnings, then all ends."""
        return [*self.before, *self.after]

    @property
    def pairs(self) -> list[tuple[Size, Size]]:
        """The pads before and after each axis."""
        return list(zip(self.before, self.after, strict=True))

    @property
    def is_unpadded(self) -> bool:
        return not self.same and all(isinstance(p, int) and p == 0 for p in self.pads)

    @property
    def equal_pads(self) -> list[int] | None:
        """The pads of each axis if they are known, not negative, and equal before and after; else None."""
        same = all(isinstance(a, int) and isinstance(b, int) and a == b >= 0 for a, b in self.pairs)
        return list(self.before) if same else None

    @property
    def unpadded(self) -> Window:
        """The same windows over an input that is already padded."""
        return self.with_pads([(0, 0)] * self.rank)

    def with_pads(self, pairs: Sequence[tuple[Size, Size]]) -> Window:
        """Return the window with pads (before, after) for each axis."""
        return replace(self, before=tuple(b for b, _ in pairs), after=tuple(a for _, a in pairs), same=False)

    def counts(self, sizes: Sequence[Size]) -> list[Size]:
        """Return the number of windows along each axis of an input of `sizes`."""
        parts = zip(sizes, self.spans, self.strides, self.before, self.after, strict=True)
        return [window_count(*part) for part in parts]

    def with_auto_pad(
        self, sizes: Sequence[Size | None], auto_pad: str, maximum: Callable[[Any, Any], Any] = max
    ) -> Window | None:
        """Return the window with the pads of `auto_pad`; None if these depend on a size that is None."""
        if auto_pad == "VALID":
            return self.unpadded
        if not auto_pad.startswith("SAME"):
            return self
        pairs = [same_pads(n, r, s, auto_pad, maximum) for n, r, s in zip(sizes, self.spans, self.strides, strict=True)]
        return None if None in pairs else self.with_pads([pair for pair in pairs if pair is not None])

    def with_ceil_mode(self, sizes: Sequence[int | None]) -> Window:
        """Return a window that has, by rounding down, as many windows as ceil_mode; None is an unknown size."""
        parts = zip(sizes, self.spans, self.strides, self.before, self.after, strict=True)
        return replace(self, after=tuple(ceil_pad(*part) for part in parts))

    def has_same_pads(self, sizes: Sequence[Size | None]) -> bool:
        """Return whether there are pads, and they are known to be those of SAME_UPPER for inputs of `sizes`, or have
        their effect.
        """
        if self.same or self.is_unpadded or not all(isinstance(n, int) for n in (*self.spans, *self.pads)):
            return self.same
        known = [n if isinstance(n, int) else None for n in sizes]
        return self.with_auto_pad(known, "SAME_UPPER") == self

    def transposed(
        self,
        sizes: Sequence[Size | None],
        extra: Sequence[Size],
        auto_pad: str,
        output_shape: Sequence[int] | None,
        maximum: Callable[[Any, Any], Any] = max,
    ) -> tuple[Window, list[Size]] | None:
        """Return the window of a transposed convolution with explicit pads, and its output padding.

        None if `output_shape` needs a size that is None. If it asks for more elements than there are, these are added
        at the end, as in onnxruntime: ONNX leaves that open.
        """
        if not output_shape:
            if not auto_pad.startswith("SAME"):
                return self.unpadded if auto_pad == "VALID" else self, list(extra)
            parts = zip(self.spans, self.strides, extra, strict=True)
            return self.with_pads([transposed_same_pads(*part, auto_pad) for part in parts]), list(extra)
        known = [n for n in sizes if n is not None]
        if len(known) < len(sizes):
            return None
        axes = zip(known, self.spans, self.strides, extra, output_shape[-self.rank :], strict=True)
        totals = [(n - 1) * s + r + e - wanted for n, r, s, e, wanted in axes]
        pairs = [split_pads(maximum(total, 0), auto_pad) for total in totals]
        return self.with_pads(pairs), [e + maximum(-total, 0) for e, total in zip(extra, totals, strict=True)]

    def is_transposed_same(self, extra: Sequence[Size]) -> bool:
        """Return whether a transposed convolution gives n · stride elements for n, and removes the rest as SAME_UPPER
        does. extra: its output padding.
        """
        parts = list(zip(self.spans, self.strides, self.pairs, extra, strict=True))
        if not all(isinstance(size, int) for r, _, (b, a), e in parts for size in (r, b, a, e)):
            return False
        return all(r >= s and (b, a - e) == split_pads(r - s, "SAME_UPPER") for r, s, (b, a), e in parts)


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
    size: Size | None, span: Size, stride: int, auto_pad: str, maximum: Callable[[Any, Any], Any] = max
) -> tuple[Size, Size] | None:
    """Return the pads before and after that give ceil(size / stride) windows; None if they depend on an unknown size.

    An odd pad is after (SAME_UPPER) or before.

    The pads are never negative, even if the stride skips elements, as in TensorFlow, where this rule comes from. ONNX's
    formula does not cover that case; onnxruntime removes elements then.
    """
    if stride == 1:
        return split_pads(span - 1, auto_pad)
    if size is not None:
        return split_pads(maximum((-(-size // stride) - 1) * stride + span - size, 0), auto_pad)
    # For some sizes no window reaches the element after the end, which then has no effect.
    small = isinstance(span, int) and (span == 1 or (span == 2 and auto_pad == "SAME_UPPER"))
    return (0, span - 1) if small else None


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


def ceil_pad(size: int | None, span: int, stride: int, before: int, after: int) -> int:
    """Return the pad after the input that gives as many windows, rounded down, as ceil_mode does.

    ceil_mode rounds the number of windows up, and leaves out those that would start in the padding after the input
    (ONNX MaxPool-22; PyTorch does the same). With m elements and pads before them, these are
    min(⌈(m + after − span) / stride⌉ + 1, ⌈m / stride⌉). Since ⌈x / stride⌉ = ⌊(x + stride − 1) / stride⌋, the first
    is what a pad of after + stride − 1 gives, and the second what a pad of span − 1 gives, for every size. If the size
    is known, the result is `after` if that is enough, else the least pad.
    """
    longest = min(after + stride - 1, span - 1)
    if stride == 1 or size is None:
        return longest
    least = (window_count(size, span, stride, before, longest) - 1) * stride + span - size - before
    return max(least, min(after, least + stride - 1))
