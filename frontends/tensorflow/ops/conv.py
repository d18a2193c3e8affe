"""Convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import dims_of, lazy_tensor

from ..common import shape_values
from ..common.conv_layout import (
    explicit_pads,
    is_channels_last,
    padding_attributes,
    spatial_entries,
    to_channels_first,
    to_data_format,
)
from ..common.lazy_reshape import int64, transpose
from ..patterns.conv1d import fold_pad
from ..rules import tf_op


@tf_op("Conv2D")
def conv2d(
    g: Graph,
    input: ir.Value,
    filter: ir.Value,
    *,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
    dilations: Sequence[int],
) -> ir.Value:
    return convolution(
        g, input, transpose(g, filter, [3, 2, 0, 1]), strides, padding, explicit_paddings, data_format, dilations
    )


@tf_op("Conv3D")
def conv3d(
    g: Graph,
    input: ir.Value,
    filter: ir.Value,
    *,
    strides: Sequence[int],
    padding: str,
    data_format: str,
    dilations: Sequence[int],
) -> ir.Value:
    return convolution(g, input, transpose(g, filter, [4, 3, 0, 1, 2]), strides, padding, [], data_format, dilations)


@tf_op("DepthwiseConv2dNative")
def depthwise_conv2d(
    g: Graph,
    input: ir.Value,
    filter: ir.Value,
    *,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
    dilations: Sequence[int],
) -> ir.Value:
    weight = _depthwise_weight(g, filter)
    last = g.shape(input)[-1 if is_channels_last(data_format) else 1] if input.shape is not None else None
    channels = next((c for c in (g.shape(filter)[2], last) if isinstance(c, int)), None)
    if channels is None:
        raise Unsupported("a depthwise convolution of a number of channels that is not static")
    return convolution(
        g, input, weight, strides, padding, explicit_paddings, data_format, dilations,
        group=channels,
    )  # fmt: skip


def _depthwise_weight(g: Graph, filter: ir.Value) -> ir.Value:
    """Return [H, W, C, M] as [C·M, 1, H, W]; output channel c·M + m in both. A quantized weight stays integers."""
    tensor, maker = filter.const_value, filter.producer()
    if maker is not None and maker.op_type == "DequantizeLinear" and maker.inputs[0] is not None:
        parameters, axis = [g.static(p) for p in maker.inputs[1:]], maker.attributes.get("axis")
        if maker.inputs[0].const_value is not None and all(p is not None for p in parameters):
            along = None if axis is None else axis.as_int() % 4
            many = [_per_output_channel(p, along, g.shape(filter)) for p in parameters if p is not None]
            return g.DequantizeLinear(_depthwise_weight(g, maker.inputs[0]), *many, axis=None if along is None else 0)
    if tensor is None:
        moved = g.Transpose(filter, perm=[2, 3, 0, 1])
        height, width = g.shape(filter)[:2]
        if not isinstance(height, int) or not isinstance(width, int):
            made = g.Reshape(moved, g.Concat([-1, 1], g.Shape(moved, start=2, end=4), axis=0), allowzero=1)
            return g.facts(made, g.dtype(filter), [None, 1, height, width])
        return g.Reshape(moved, np.array([-1, 1, height, width], np.int64))
    h, w, c, m = dims_of(tensor)
    shape = [c * m, 1, h, w]
    make = lambda: tensor.numpy().transpose(2, 3, 0, 1).reshape(shape)  # noqa: E731
    return g.initializer(filter.name or "filter", lazy_tensor(tensor.dtype, shape, make))


def _per_output_channel(parameter: np.ndarray, axis: int | None, dims: Sequence[object]) -> np.ndarray:
    """Return a scale or zero point, per channel (`axis` 2) or per channel's output (3), for each output channel."""
    channels, each = dims[2:]
    if axis not in (None, 2, 3) or not isinstance(channels, int) or not isinstance(each, int):
        raise Unsupported("weights quantized along the kernel's height or width")
    return parameter if axis is None else np.repeat(parameter, each) if axis == 2 else np.tile(parameter, channels)


def convolution(
    g: Graph,
    input: ir.Value,
    weight: ir.Value,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
    dilations: Sequence[int],
    group: int | None = None,
) -> ir.Value:
    """Return a convolution with `weight` in ONNX's layout, [out, in / groups, *kernel]; `group` defaults to what fits
    it.
    """
    x = to_channels_first(g, input, data_format)
    steps, spread = (
        spatial_entries(strides, data_format, "strides"),
        spatial_entries(dilations, data_format, "dilations"),
    )
    channels, inner = g.shape(x)[1], g.shape(weight)[1]
    if group is None:
        group = channels // inner if isinstance(channels, int) and isinstance(inner, int) else 1
    if not all(isinstance(d, int) for d in g.shape(weight)[2:]):
        explicit = explicit_pads(explicit_paddings, data_format) if padding == "EXPLICIT" else None
        y = _convolve_by_open_kernel(g, x, weight, steps, spread, explicit, padding, group)
        return to_data_format(g, y, data_format)
    kernel = _static_sizes(g.shape(weight)[2:])
    if padding == "EXPLICIT":
        pads: dict[str, object] = {"pads": explicit_pads(explicit_paddings, data_format)}
    else:
        pads = padding_attributes(g.shape(x)[2:], kernel, steps, spread, padding)
    x, pads = fold_pad(g, x, pads)
    y = g.Conv(x, weight, kernel_shape=kernel, strides=steps, dilations=spread, group=group, **pads)
    return to_data_format(g, y, data_format)


def _convolve_by_open_kernel(
    g: Graph,
    x: ir.Value,
    weight: ir.Value,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: list[int] | None,
    padding: str,
    group: int,
) -> ir.Value:
    """Convolve with a kernel of run-time size: compute the padding of SAME, and pad first."""
    attributes = {"strides": strides, "dilations": dilations, "group": group}
    if pads is not None or padding == "VALID":
        y = g.Conv(x, weight, pads=pads or [0] * (2 * len(strides)), **attributes)
        return g.facts(y, g.dtype(x), [g.shape(x)[0], g.shape(weight)[0], *[None] * len(strides)])
    if padding != "SAME":
        raise Unsupported(f"padding={padding!r} is not handled")
    rank, (s, d) = g.rank(x), (np.array(v, np.int64) for v in (strides, dilations))
    sizes, one = g.Shape(x, start=2, end=rank), np.ones(rank - 2, np.int64)
    reach = g.Add(g.Mul(g.Sub(g.Shape(weight, start=2, end=rank), one), d), one)
    steps = g.Div(g.Add(sizes, s - 1), s)
    total = g.Max(g.Sub(g.Add(g.Mul(g.Sub(steps, one), s), reach), sizes), np.zeros(rank - 2, np.int64))
    before, none = g.Div(total, 2 * one), np.zeros(2, np.int64)
    padded = g.Pad(x, g.Concat(none, before, none, g.Sub(total, before), axis=0))
    y = g.Conv(padded, weight, pads=[0] * (2 * len(strides)), **attributes)
    return g.facts(y, g.dtype(x), [g.shape(x)[0], g.shape(weight)[0], *[None] * (rank - 2)])


def _static_sizes(dims: Sequence[object]) -> list[int]:
    if not all(isinstance(d, int) for d in dims):
        raise Unsupported("the kernel's size depends on data")
    return [int(d) for d in dims]  # type: ignore[call-overload]


@tf_op("Conv2DBackpropInput")
def conv2d_backprop_input(
    g: Graph,
    input_sizes: ir.Value,
    filter: ir.Value,
    out_backprop: ir.Value,
    *,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
    dilations: Sequence[int],
) -> ir.Value:
    weight = transpose(g, filter, [3, 2, 0, 1])
    return transposed_convolution(
        g, input_sizes, weight, out_backprop, strides, padding, explicit_paddings, data_format, dilations
    )


@tf_op("Conv3DBackpropInputV2")
def conv3d_backprop_input(
    g: Graph,
    input_sizes: ir.Value,
    filter: ir.Value,
    out_backprop: ir.Value,
    *,
    strides: Sequence[int],
    padding: str,
    data_format: str,
    dilations: Sequence[int],
) -> ir.Value:
    weight = transpose(g, filter, [4, 3, 0, 1, 2])
    return transposed_convolution(g, input_sizes, weight, out_backprop, strides, padding, [], data_format, dilations)


def transposed_convolution(
    g: Graph,
    sizes: ir.Value,
    weight: ir.Value,
    gradient: ir.Value,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
    dilations: Sequence[int],
) -> ir.Value:
    """Return the gradient of a convolution for its input, of shape `sizes`: ConvTranspose with that output shape."""
    x = to_channels_first(g, gradient, data_format)
    steps, spread = (
        spatial_entries(strides, data_format, "strides"),
        spatial_entries(dilations, data_format, "dilations"),
    )
    kernel = _static_sizes(g.shape(weight)[2:])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, spread, strict=True)]
    target, source = _spatial_dims(sizes, data_format), g.shape(x)[2:]
    first, wide = g.shape(x)[1], g.shape(weight)[0]
    group = 1
    if isinstance(first, int) and isinstance(wide, int) and first != wide:
        raise Unsupported("a transposed convolution in groups")
    shape = {"kernel_shape": kernel, "strides": steps, "dilations": spread, "group": group}
    if padding == "EXPLICIT":
        before = explicit_pads(explicit_paddings, data_format)[: len(kernel)]
    elif padding == "VALID":
        before = [0] * len(kernel)
    elif all(isinstance(t, int) for t in target):
        totals = [max((-(-int(t) // s) - 1) * s + r - int(t), 0) for t, s, r in zip(target, steps, reach, strict=True)]
        before = [t // 2 for t in totals]
    else:
        before = None
    if before is not None and all(isinstance(d, int) for d in (*target, *source)):
        full = [s * (int(n or 0) - 1) + r for s, n, r in zip(steps, source, reach, strict=True)]
        after = [f - b - int(t) for f, b, t in zip(full, before, target, strict=True)]
        extra = [max(-a, 0) for a in after]
        if all(e < max(s, d) for e, s, d in zip(extra, steps, spread, strict=True)):
            y = g.ConvTranspose(x, weight, pads=[*before, *(max(a, 0) for a in after)], output_padding=extra, **shape)
            return to_data_format(g, y, data_format)
    y = g.ConvTranspose(x, weight, **shape)
    return to_data_format(g, _crop_output(g, y, sizes, before, steps, reach, data_format), data_format)


def _spatial_dims(sizes: ir.Value, data_format: str) -> list[Any]:
    content = shape_values.content(sizes)
    count = len(data_format) - 2
    if content is None:
        return [None] * count
    items = content.tolist()
    if len(items) == count:  # TensorFlow also takes the spatial sizes alone
        return items
    return items[1:-1] if data_format[-1] == "C" else items[2:]


def _crop_output(
    g: Graph,
    y: ir.Value,
    sizes: ir.Value,
    before: Sequence[int] | None,
    strides: Sequence[int],
    reach: Sequence[int],
    data_format: str,
) -> ir.Value:
    """Return the part of a full transposed convolution that SAME or VALID keeps, computed at run time."""
    count = len(strides)
    start = 1 if data_format[-1] == "C" else 2
    wanted = int64(g, sizes)
    if g.shape(sizes) != (count,):
        wanted = g.Slice(wanted, [start], [start + count], [0])
    if before is None:
        s, r = np.array(strides, np.int64), np.array(reach, np.int64)
        steps = g.Div(g.Add(wanted, s - 1), s)
        total = g.Max(
            g.Sub(g.Add(g.Mul(g.Sub(steps, np.ones(count, np.int64)), s), r), wanted), np.zeros(count, np.int64)
        )
        first = g.Div(total, np.full(count, 2, np.int64))
    else:
        first = g.const(np.array(before, np.int64))
    axes = np.arange(2, 2 + count, dtype=np.int64)
    have = g.Slice(g.Shape(y), [2], [2 + count], [0])
    lacking = g.Max(g.Sub(g.Add(first, wanted), have), np.zeros(count, np.int64))
    none = np.zeros(2, np.int64)
    padded = g.Pad(y, g.Concat(none, np.zeros(count, np.int64), none, lacking, axis=0))
    part = g.Slice(padded, first, g.Add(first, wanted), axes)
    return g.facts(part, shape=[*g.shape(y)[:2], *_spatial_dims(sizes, data_format)])
