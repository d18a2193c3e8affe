"""Sliding windows of Caffe2's operators, which have explicit pads only."""

from __future__ import annotations

from collections.abc import Sequence

from convert.errors import Unsupported
from convert.semantics.windows import Window

from ..blob import Blob
from ..net import Net


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
    made = Window.of(kernel, strides, dilations, pads).with_auto_pad(known_sizes(net, x), auto_pad)
    if made is None:
        raise Unsupported("auto_pad with a stride over 1 and a spatial size that is not fixed")
    return made


def known_sizes(net: Net, x: Blob) -> list[int | None]:
    """Return the spatial dims of `x`; None for those that are not fixed."""
    return [d if isinstance(d, int) else None for d in net.shape(x)[2:]]


def window_counts(net: Net, x: Blob, made: Window) -> list[int]:
    """Return the number of windows along each spatial axis; a window that does not fit is left out."""
    sizes = known_sizes(net, x)
    if None in sizes:
        raise Unsupported("windows that are gathered, over spatial dims that are not fixed")
    return made.counts(sizes)


def pads_of_all_dims(made: Window) -> list[int]:
    """Return the pads of a window, with zeros for batch and channels."""
    return [0, 0, *made.before, 0, 0, *made.after]
