"""Convolutions and pools of bytes with ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph
from convert.patterns.matcher import number

from ...common.conv_layout import padding_attributes, spatial_entries, to_channels_first, to_data_format
from ...common.lazy_reshape import transpose
from ...common.quantized_ranges import float_to_quantized_unclamped, product_range, saturate_cast, static_zero_point
from ...patterns.matching import inputs_of
from ...rules import tf_op
from ..pool import max_pool

_INT32, _UINT8 = ir.DataType.INT32, ir.DataType.UINT8
FILTERS = tf_op.limit(
    "QuantizedConv2D",
    "signed weights, which are for oneDNN's kernels, and weights whose range is data or does not hold zero: "
    "ConvInteger has the level of zero in a byte",
)


@tf_op("QuantizedConv2D")
def quantized_conv2d(
    g: Graph, input: ir.Value, filter: ir.Value, min_input: ir.Value, max_input: ir.Value, min_filter: ir.Value,
    max_filter: ir.Value, *, strides: Sequence[int], padding: str, dilations: Sequence[int],
) -> list[ir.Value]:  # fmt: skip
    zero = static_zero_point(g, min_filter, max_filter, _UINT8)
    if g.dtype(filter) != _UINT8 or zero is None or not 0 <= zero <= 255:
        raise Unsupported(FILTERS)
    if set(dilations) != {1}:
        raise Unsupported("dilations, for which there is no kernel")
    weight, steps = transpose(g, filter, [3, 2, 0, 1]), spatial_entries(strides, "NHWC", "strides")
    kernel = [_static_size(k, "the kernel's size") for k in g.shape(weight)[2:]]
    x, pads = _image_and_pads(g, to_channels_first(g, input, "NHWC"), kernel, steps, padding)
    attributes = {"strides": steps, "pads": pads, "kernel_shape": kernel}
    at = static_zero_point(g, min_input, max_input, _UINT8)
    if at is not None and 0 <= at <= 255:
        y = g.node("ConvInteger", [x, weight, np.uint8(at), np.uint8(zero)], attributes)
    elif at is None and _holds_zero(min_input, max_input):
        byte = saturate_cast(g, float_to_quantized_unclamped(g, np.float32(0), min_input, max_input, _UINT8), _UINT8)
        y = g.node("ConvInteger", [x, weight, byte, np.uint8(zero)], attributes)
    else:
        y = _convolve_around_zero(
            g, x, weight, float_to_quantized_unclamped(g, np.float32(0), min_input, max_input, _UINT8), zero, attributes
        )
    return [to_data_format(g, y, "NHWC"), *product_range(g, (min_input, max_input), (min_filter, max_filter))]


def _holds_zero(low: ir.Value, high: ir.Value) -> bool:
    """Return whether a range was created to include zero, as QuantizeV2 does, so that the level of zero is a byte."""
    ends = inputs_of(low, "Min"), inputs_of(high, "Max")
    return all(any(number(v) == 0.0 for v in end) for end in ends)


def _static_size(size: Dim, what: str) -> int:
    if not isinstance(size, int):
        raise Unsupported(f"{what} depends on data")
    return size


def _image_and_pads(
    g: Graph, x: ir.Value, kernel: Sequence[int], steps: Sequence[int], padding: str
) -> tuple[ir.Value, list[int]]:
    """Return the image and its pads; this kernel centres windows, also for VALID."""
    before, after, cropped = [], [], []
    for size, k, s in zip(g.shape(x)[2:], kernel, steps, strict=True):
        total = k - 1 if padding == "SAME" else 0
        if s > 1:
            n = _static_size(size, "with strides, the place of the first window")
            total = (-(-n // s) - 1) * s + k - n if padding == "SAME" else -((n - k) % s)
        first = int((total + (padding == "VALID")) / 2)
        before.append(max(first, 0))
        after.append(max(total - first, 0) if total > 0 else 0)
        cropped.append(max(-first, 0))
    if any(cropped):
        x = g.Slice(x, cropped, [2**31 - 1] * 2, [2, 3])
    return x, [*before, *after]


def _convolve_around_zero(
    g: Graph, x: ir.Value, weight: ir.Value, at: ir.Value, zero: int, attributes: dict[str, Any]
) -> ir.Value:
    """Convolve with a zero level that may exceed a byte. TensorFlow pads with a zero level above 255 modulo 256."""
    inside = g.Clip(at, np.int64(0), np.int64(255))
    y = g.node("ConvInteger", [x, weight, g.Cast(inside, to=_UINT8), np.uint8(zero)], attributes)
    missing = g.Cast(g.Sub(at, inside), to=_INT32)
    whole = g.ReduceSum(g.Sub(g.Cast(weight, to=_INT32), np.int32(zero)), [1, 2, 3])
    whole = g.Transpose(whole, perm=[1, 0, 2, 3])
    if not any(attributes["pads"]):
        return g.Sub(y, g.Mul(missing, whole))
    covered = g.node("ConvInteger", [_ones_like_image(g, x, 1), weight, np.uint8(0), np.uint8(zero)], attributes)
    wrapped = g.Sub(g.Mod(at, np.int64(256)), at)
    border = g.Cast(g.Where(g.Greater(at, np.int64(255)), wrapped, np.int64(0)), to=_INT32)
    return g.Add(g.Sub(y, g.Mul(missing, covered)), g.Mul(border, g.Sub(whole, covered)))


def _ones_like_image(g: Graph, x: ir.Value, first: int) -> ir.Value:
    """Return ones in the shape of an image, with the dims before `first` set to 1."""
    dims = [1] * first + list(g.shape(x)[first:])
    size = np.array(dims) if all(isinstance(d, int) for d in dims) else None
    if size is None:
        size = g.Concat(np.ones(first, np.int64), g.Slice(g.Shape(x), [first], [4]), axis=0)
    return g.facts(g.Expand(g.const(np.uint8(1)), size), shape=dims)


@tf_op("QuantizedMaxPool")
def quantized_max_pool(
    g: Graph, input: ir.Value, min_input: ir.Value, max_input: ir.Value, *, ksize: Sequence[int],
    strides: Sequence[int], padding: str,
) -> list[ir.Value]:  # fmt: skip
    y = max_pool(g, input, ksize=ksize, strides=strides, padding=padding, explicit_paddings=[], data_format="NHWC")
    return [y, min_input, max_input]


@tf_op("QuantizedAvgPool")
def quantized_avg_pool(
    g: Graph, input: ir.Value, min_input: ir.Value, max_input: ir.Value, *, ksize: Sequence[int],
    strides: Sequence[int], padding: str,
) -> list[ir.Value]:  # fmt: skip
    """QuantizedAvgPool: the mean over the elements inside the image, truncated; signed bytes are summed with an offset
    of 128.
    """
    dtype, x = g.dtype(input), to_channels_first(g, input, "NHWC")
    if dtype != _UINT8:
        x = g.Cast(g.Add(g.Cast(x, to=_INT32), np.int32(128)), to=_UINT8)
    kernel, steps = spatial_entries(ksize, "NHWC", "ksize"), spatial_entries(strides, "NHWC", "strides")
    channels = _static_size(g.shape(x)[1], "how many channels there are")
    pads = padding_attributes(g.shape(x)[2:], kernel, steps, [1, 1], padding)
    attributes = {"strides": steps, "kernel_shape": kernel, **pads}
    ones = g.const(np.ones([channels, 1, *kernel], np.uint8))
    total = g.node("ConvInteger", [x, ones], {**attributes, "group": channels})
    count = g.node("ConvInteger", [_ones_like_image(g, x, 2), np.ones([1, 1, *kernel], np.uint8)], attributes)
    if dtype != _UINT8:
        total = g.Sub(total, g.Mul(count, np.int32(128)))
    return [to_data_format(g, g.Cast(g.Div(total, count), to=dtype), "NHWC"), min_input, max_input]
