"""Rules for convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from convert.errors import Unsupported
from convert.graph.tensors import dims_of, lazy_tensor
from convert.semantics.windows import Window

from ..blob import Blob
from ..common.conv_transpose import transpose_by_convolution
from ..common.dtypes import FLOAT, cast, widen
from ..common.windows import known_sizes, window
from ..net import Net
from ..rules import onnx_op


@onnx_op("Conv")
def conv(
    net: Net,
    x: Blob,
    w: Blob,
    b: Blob | None,
    *,
    auto_pad: str,
    dilations: Sequence[int] | None,
    group: int,
    kernel_shape: Sequence[int] | None,
    pads: Sequence[int] | None,
    strides: Sequence[int] | None,
) -> Blob:
    """Convolution of any rank, group, dilation and pads."""
    made = window(net, x, kernel_shape or kernel_size(net, w), strides, dilations, pads, auto_pad)
    operands = [widen(net, v, FLOAT) for v in (x, w, b) if v is not None]
    y = net.op("Conv", operands, **window_arguments(made), dilations=list(made.dilations), group=group)
    return cast(net, y, x.dtype)


@onnx_op("ConvTranspose")
def conv_transpose(
    net: Net,
    x: Blob,
    w: Blob,
    b: Blob | None,
    *,
    auto_pad: str,
    dilations: Sequence[int] | None,
    group: int,
    kernel_shape: Sequence[int] | None,
    output_padding: Sequence[int] | None,
    output_shape: Sequence[int] | None,
    pads: Sequence[int] | None,
    strides: Sequence[int] | None,
) -> Blob:
    """Transposed convolution. Caffe2's is 2-D, so a 1-D one gets a dim of size 1; it ignores dilations, so zeros spread
    the kernel.

    Other cases become a convolution of the input with zeros between its elements.
    """
    kernel = list(kernel_shape or kernel_size(net, w))
    n = len(kernel)
    extra = list(output_padding or [0] * n)
    found = Window.of(kernel, strides, dilations, pads).transposed(known_sizes(net, x), extra, auto_pad, output_shape)
    if found is None:
        raise Unsupported("output_shape with a spatial size that is not fixed")
    made, extra = found
    data, weights, bias = widen(net, x, FLOAT), widen(net, w, FLOAT), None if b is None else widen(net, b, FLOAT)
    dilated = any(d > 1 for d in made.dilations)
    # Caffe2 takes output padding that is less than the stride.
    wide = any(e >= s for e, s in zip(extra, made.strides, strict=True))
    if n > 2 or min(made.pads) < 0 or wide or (w.content is None and dilated):
        return cast(net, transpose_by_convolution(net, data, weights, bias, made, extra, group), x.dtype)
    if dilated:
        w = _dilate_kernel(net, w, made)
        made = Window.of(kernel_size(net, w), made.strides, None, made.pads)
    operands = [widen(net, v, FLOAT) for v in (x, w)]
    if n == 1:
        operands = [net.ExpandDims(v, dims=[2]) for v in operands]
        made = Window.of([1, *made.kernel], [1, *made.strides], None, [0, *made.before, 0, *made.after])
        extra = [0, *extra]
    if b is not None:
        operands.append(widen(net, b, FLOAT))
    y = net.op("ConvTranspose", operands, **window_arguments(made), adjs=extra, group=group)
    return cast(net, net.Squeeze(y, dims=[2]) if n == 1 else y, x.dtype)


def window_arguments(made: Window) -> dict[str, Any]:
    """Return the arguments of Caffe2's windowed operators."""
    return {"kernels": list(made.kernel), "strides": list(made.strides), "pads": made.pads}


def kernel_size(net: Net, w: Blob) -> list[int]:
    """Return the kernel's size, from the shape of the weight."""
    sizes = net.shape(w)[2:]
    if not all(isinstance(s, int) for s in sizes):
        raise Unsupported("a weight whose size is not known and no kernel_shape")
    return [int(s) for s in sizes if isinstance(s, int)]


def _dilate_kernel(net: Net, w: Blob, made: Window) -> Blob:
    """Return a constant kernel with `dilations` − 1 zeros between its elements."""
    content = w.content
    if content is None:
        raise Unsupported("a ConvTranspose with dilations and a weight computed at run time")
    shape = list(dims_of(content))
    size = [*shape[:2], *made.spans]
    steps = (slice(None), slice(None), *(slice(None, None, d) for d in made.dilations))

    def make() -> np.ndarray:
        spread = np.zeros(size, content.numpy().dtype)
        spread[steps] = content.numpy()
        return spread

    return net.const(lazy_tensor(content.dtype, size, make))
