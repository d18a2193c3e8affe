"""Sizes of sliding windows: kernel, strides, dilations and pads of convolutions and pools, made explicit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from convert.errors import Unsupported

from ..blob import Blob
from ..net import Net


@dataclass(frozen=True)
class Window:
    """A window over the spatial dims; `pads` are all those at the beginning, then all those at the end."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def extent(self, i: int) -> int:
        """How many cells the window spans along spatial axis `i`."""
        return (self.kernel[i] - 1) * self.dilations[i] + 1


def window(
    net: Net,
    x: Blob,
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
) -> Window:
    """The window of a node with ONNX's defaults filled in and `auto_pad` turned into pads."""
    n = len(kernel)
    made = Window(list(kernel), list(strides or [1] * n), list(dilations or [1] * n), list(pads or [0] * 2 * n))
    if auto_pad in ("NOTSET", ""):
        return made
    if auto_pad == "VALID":
        return Window(made.kernel, made.strides, made.dilations, [0] * 2 * n)
    totals = [_same_pad(net, x, made, i) for i in range(n)]
    small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
    ends = [*small, *large] if auto_pad == "SAME_UPPER" else [*large, *small]
    return Window(made.kernel, made.strides, made.dilations, ends)


def _same_pad(net: Net, x: Blob, made: Window, i: int) -> int:
    """The total pad along spatial axis `i` that gives ceil(size / stride) windows (ONNX, auto_pad)."""
    stride, extent = made.strides[i], made.extent(i)
    if stride == 1:
        return extent - 1
    size = net.shape(x)[2 + i]
    if not isinstance(size, int):
        raise Unsupported("auto_pad with a stride over 1 and a spatial size that is not fixed")
    return max(0, (-(-size // stride) - 1) * stride + extent - size)


def ceil_pads(net: Net, x: Blob, made: Window) -> list[int]:
    """Pads with which rounding down gives as many windows as `ceil_mode` does.

    A window that would start beyond the input and its first pad is left out (ONNX MaxPool-22, PyTorch). Where the size
    is not known, stride − 1 more cells at the end have the same effect, unless such a window could arise.
    """
    n = made.rank
    pads = list(made.pads)
    for i in range(n):
        stride, extent, begin, end = made.strides[i], made.extent(i), made.pads[i], made.pads[n + i]
        size = net.shape(x)[2 + i]
        if stride == 1:
            continue
        if not isinstance(size, int):
            if end + stride - 1 >= extent:
                raise Unsupported("ceil_mode with windows that may lie in the pad, and a size that is not fixed")
            pads[n + i] = end + stride - 1
            continue
        count = -(-(size + begin + end - extent) // stride) + 1
        if (count - 1) * stride >= size + begin:
            count -= 1
        pads[n + i] = max(end, (count - 1) * stride + extent - size - begin)
        if (size + begin + pads[n + i] - extent) // stride + 1 > count:
            pads[n + i] = (count - 1) * stride + extent - size - begin
    return pads


def window_counts(net: Net, x: Blob, made: Window) -> list[int]:
    """How many windows there are along each spatial axis, rounding down."""
    found = []
    for i in range(made.rank):
        size = net.shape(x)[2 + i]
        if not isinstance(size, int):
            raise Unsupported("windows that are gathered, over spatial dims that are not fixed")
        found.append((size + made.pads[i] + made.pads[made.rank + i] - made.extent(i)) // made.strides[i] + 1)
    return found
