"""Sliding windows: kernel, strides, dilations and pads of convolutions and pools, made explicit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from convert.errors import Unsupported
from convert.semantics.windows import ceil_pad, extent, same_pads, window_count

from ..blob import Blob
from ..net import Net


@dataclass(frozen=True)
class Window:
    """A window over the spatial dims; `pads` are all beginnings, then all ends."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def extent(self, i: int) -> int:
        """Return how many elements the window spans along spatial axis `i`."""
        return extent(self.kernel[i], self.dilations[i])


def window(
    net: Net,
    x: Blob,
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
) -> Window:
    """Return the window of a node, with ONNX's defaults filled in and `auto_pad` turned into pads."""
    n = len(kernel)
    made = Window(list(kernel), list(strides or [1] * n), list(dilations or [1] * n), list(pads or [0] * 2 * n))
    if auto_pad in ("NOTSET", ""):
        return made
    if auto_pad == "VALID":
        return Window(made.kernel, made.strides, made.dilations, [0] * 2 * n)
    found = [_same_pads(net, x, made, i, auto_pad) for i in range(n)]
    return Window(made.kernel, made.strides, made.dilations, [before for before, _ in found] + [a for _, a in found])


def _same_pads(net: Net, x: Blob, made: Window, i: int, auto_pad: str) -> tuple[int, int]:
    """Return the pads along spatial axis `i` that give ceil(size / stride) windows (ONNX, auto_pad)."""
    size = net.shape(x)[2 + i] if made.strides[i] > 1 else 0  # the size has no effect for a stride of 1
    if not isinstance(size, int):
        raise Unsupported("auto_pad with a stride over 1 and a spatial size that is not fixed")
    return same_pads(size, made.extent(i), made.strides[i], auto_pad)


def ceil_pads(net: Net, x: Blob, made: Window) -> list[int]:
    """Return pads with which rounding down gives the number of windows of `ceil_mode`.

    If the size is unknown, stride − 1 more elements at the end have the same effect, unless a window could start in the
    padding.
    """
    n = made.rank
    pads = list(made.pads)
    for i in range(n):
        stride, begin, end = made.strides[i], made.pads[i], made.pads[n + i]
        size = net.shape(x)[2 + i]
        if stride == 1:
            continue
        if not isinstance(size, int):
            if end + stride - 1 >= made.extent(i):
                raise Unsupported("ceil_mode with windows that may lie in the pad, and a size that is not fixed")
            pads[n + i] = end + stride - 1
            continue
        pads[n + i] = ceil_pad(size, made.extent(i), stride, begin, end)
    return pads


def window_counts(net: Net, x: Blob, made: Window) -> list[int]:
    """Return the number of windows along each spatial axis; a window that does not fit is left out."""
    found = []
    for i in range(made.rank):
        size = net.shape(x)[2 + i]
        if not isinstance(size, int):
            raise Unsupported("windows that are gathered, over spatial dims that are not fixed")
        found.append(window_count(size, made.extent(i), made.strides[i], made.pads[i], made.pads[made.rank + i]))
    return found
