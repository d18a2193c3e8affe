"""Rules for pooling."""

from __future__ import annotations

from collections.abc import Sequence

from convert.errors import Unsupported

from ..dtypes import FLOAT, cast, widen
from ..net import Blob, Net
from ..padding import pad_constant
from ..rules import onnx
from ..windows import Window, ceil_pads, window
from .conv import arguments


@onnx("MaxPool")
def max_pool(
    net: Net,
    x: Blob,
    *,
    auto_pad: str,
    ceil_mode: int,
    dilations: Sequence[int] | None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None,
    storage_order: int,
    strides: Sequence[int] | None,
) -> Blob:
    """`storage_order` concerns the indices only, which Caffe2 has on CUDA alone."""
    made = window(net, x, kernel_shape, strides, dilations, pads, auto_pad)
    if any(d > 1 for d in made.dilations):
        raise Unsupported("a dilated MaxPool")
    if ceil_mode:
        made = Window(made.kernel, made.strides, made.dilations, ceil_pads(net, x, made))
    wide = widen(net, x, FLOAT)
    if any(p >= k for p, k in zip(made.pads, made.kernel * 2, strict=True)):
        wide, made = pad_constant(net, wide, _all_dims(made), -3.4028234663852886e38), _unpadded(made)
    return cast(net, net.MaxPool(wide, **arguments(made)), x.dtype)


@onnx("AveragePool")
def average_pool(
    net: Net,
    x: Blob,
    *,
    auto_pad: str,
    ceil_mode: int,
    count_include_pad: int,
    dilations: Sequence[int] | None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None,
    strides: Sequence[int] | None,
) -> Blob:
    """With `ceil_mode`, cells beyond the explicit pads do not count: zeros are put around the input first."""
    made = window(net, x, kernel_shape, strides, dilations, pads, auto_pad)
    if any(d > 1 for d in made.dilations):
        raise Unsupported("a dilated AveragePool")
    wide = widen(net, x, FLOAT)
    counted = bool(count_include_pad) and any(made.pads)
    if ceil_mode:
        ends = ceil_pads(net, x, made)
        if counted:
            wide, counted = pad_constant(net, wide, _all_dims(made), 0.0), False
            ends = [e - p for e, p in zip(ends, made.pads, strict=True)]
        made = Window(made.kernel, made.strides, made.dilations, ends)
    y = net.AveragePool(wide, **arguments(made), count_include_pad=int(counted))
    return cast(net, y, x.dtype)


@onnx("GlobalAveragePool")
def global_average_pool(net: Net, x: Blob) -> Blob:
    return _global(net, "AveragePool", x)


@onnx("GlobalMaxPool")
def global_max_pool(net: Net, x: Blob) -> Blob:
    return _global(net, "MaxPool", x)


def _global(net: Net, operator: str, x: Blob) -> Blob:
    return cast(net, net.op(operator, [widen(net, x, FLOAT)], global_pooling=1), x.dtype)


def _all_dims(made: Window) -> list[int]:
    return [0, 0, *made.pads[: made.rank], 0, 0, *made.pads[made.rank :]]


def _unpadded(made: Window) -> Window:
    return Window(made.kernel, made.strides, made.dilations, [0] * 2 * made.rank)
