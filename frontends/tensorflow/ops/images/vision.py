"""Image operators: boxes, colours and contrast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ...common.conv_layout import padding_attributes, spatial_entries, to_channels_first, to_data_format
from ...common.half_precision import FLOAT16, in_float32
from ...common.lazy_reshape import cast, int64
from ...rules import tf_op
from ..pool import widened_for_pool
from .soft_suppression import suppress_softly


@tf_op("MaxPoolWithArgmax")
def max_pool_with_argmax(
    g: Graph,
    input: ir.Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    Targmax: ir.DataType,
    padding: str,
    include_batch_in_index: bool,
) -> list[ir.Value]:
    """MaxPoolWithArgmax. ONNX counts indices in NCHW over the batch; TensorFlow in HWC, per image by default."""
    wide = widened_for_pool(g, input)
    x = to_channels_first(g, wide, "NHWC")
    kernel, steps = spatial_entries(ksize, "NHWC", "ksize"), spatial_entries(strides, "NHWC", "strides")
    pads = padding_attributes(g.shape(x)[2:], kernel, steps, [1, 1], padding)
    values, where = g.MaxPool(x, kernel_shape=kernel, strides=steps, outputs=2, **pads)
    area = g.ReduceProd(g.Shape(input, start=1, end=3), [0], keepdims=0)
    channels = g.Squeeze(g.Shape(input, start=3), [0])
    place = g.Mod(to_data_format(g, where, "NHWC"), area)
    place = g.Add(g.Mul(place, channels), g.Range(0, channels, 1))
    if include_batch_in_index:
        batch = g.Range(0, g.Squeeze(g.Shape(input, start=0, end=1), [0]), 1)
        start = g.Mul(batch, g.Mul(area, channels))
        place = g.Add(place, g.Unsqueeze(start, [1, 2, 3]))
    return [cast(g, to_data_format(g, values, "NHWC"), g.dtype(input)), cast(g, place, Targmax)]


@tf_op("NonMaxSuppressionV2")
@in_float32(FLOAT16)
def non_max_suppression_v2(
    g: Graph, boxes: ir.Value, scores: ir.Value, max_output_size: ir.Value, iou_threshold: ir.Value
) -> ir.Value:
    return _non_max_suppression(g, boxes, scores, max_output_size, iou_threshold, None)


@tf_op("NonMaxSuppressionV3")
@in_float32(FLOAT16)
def non_max_suppression_v3(
    g: Graph,
    boxes: ir.Value,
    scores: ir.Value,
    max_output_size: ir.Value,
    iou_threshold: ir.Value,
    score_threshold: ir.Value,
) -> ir.Value:
    return _non_max_suppression(g, boxes, scores, max_output_size, iou_threshold, score_threshold)


@tf_op("NonMaxSuppressionV4")
@in_float32(FLOAT16)
def non_max_suppression_v4(
    g: Graph,
    boxes: ir.Value,
    scores: ir.Value,
    max_output_size: ir.Value,
    iou_threshold: ir.Value,
    score_threshold: ir.Value,
    *,
    pad_to_max_output_size: bool,
) -> list[ir.Value]:
    found = _non_max_suppression(g, boxes, scores, max_output_size, iou_threshold, score_threshold)
    count = g.Squeeze(g.Shape(found), [0])
    if pad_to_max_output_size:
        lacking = g.Sub(g.Reshape(int64(g, max_output_size), [1]), g.Shape(found))
        found = g.Pad(found, g.Concat(np.zeros(1, np.int64), lacking, axis=0))
    return [found, g.Cast(count, to=ir.DataType.INT32)]


@tf_op("NonMaxSuppressionV5")
@in_float32(FLOAT16)
def non_max_suppression_v5(
    g: Graph,
    boxes: ir.Value,
    scores: ir.Value,
    max_output_size: ir.Value,
    iou_threshold: ir.Value,
    score_threshold: ir.Value,
    soft_nms_sigma: ir.Value,
    *,
    pad_to_max_output_size: bool,
) -> list[ir.Value]:
    """NonMaxSuppressionV5. With `soft_nms_sigma`, scores of overlapping boxes are lowered, and returned lowered."""
    sigma = g.static(soft_nms_sigma)
    if sigma is not None and sigma.item() == 0:
        found = _non_max_suppression(g, boxes, scores, max_output_size, iou_threshold, score_threshold)
        kept = g.Gather(scores, found, axis=0)
    else:
        limits = max_output_size, iou_threshold, score_threshold, soft_nms_sigma
        found, kept = suppress_softly(g, boxes, scores, *limits)
    count = g.Cast(g.Squeeze(g.Shape(found), [0]), to=ir.DataType.INT32)
    if pad_to_max_output_size:
        lacking = g.Sub(g.Reshape(int64(g, max_output_size), [1]), g.Shape(found))
        found, kept = (g.Pad(x, g.Concat(np.zeros(1, np.int64), lacking, axis=0)) for x in (found, kept))
    return [found, kept, count]


def _non_max_suppression(
    g: Graph, boxes: ir.Value, scores: ir.Value, most: ir.Value, overlap: ir.Value, least: ir.Value | None
) -> ir.Value:
    """Return indices of the kept boxes, by ONNX's operator on one image and one class."""
    found = g.NonMaxSuppression(
        g.Unsqueeze(boxes, [0]),
        g.Unsqueeze(scores, [0, 1]),
        g.Reshape(int64(g, most), [1]),
        g.Reshape(overlap, [1]),
        None if least is None else g.Reshape(least, [1]),
    )
    index = g.Squeeze(g.Slice(found, [2], [3], [1]), [1])
    return g.facts(g.Cast(index, to=ir.DataType.INT32), shape=[None])


@tf_op("AdjustContrastv2")
def adjust_contrast(g: Graph, images: ir.Value, contrast_factor: ir.Value) -> ir.Value:
    mean = g.ReduceMean(images, [-3, -2])
    return g.Add(g.Mul(g.Sub(images, mean), cast(g, contrast_factor, g.dtype(images))), mean)


@tf_op("RGBToHSV")
def rgb_to_hsv(g: Graph, images: ir.Value) -> ir.Value:
    hue, value, span = _hue_and_range(g, images)
    zero, one = g.const(0.0, images.dtype), g.const(1.0, images.dtype)
    saturation = g.Where(g.Greater(value, zero), g.Div(span, g.Where(g.Greater(value, zero), value, one)), zero)
    return g.Concat(hue, saturation, value, axis=-1)


def _hue_and_range(g: Graph, images: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return hue, the largest channel, and its distance from the smallest.

    The hue is a position on the colour circle, relative to the largest channel (colorspace_op.h).
    """
    red, green, blue = g.Split(images, axis=-1, num_outputs=3, outputs=3)
    value = g.Max(red, green, blue)
    span = g.Sub(value, g.Min(red, green, blue))
    zero, one = g.const(0.0, images.dtype), g.const(1.0, images.dtype)
    sixth = g.Div(g.const(1.0 / 6.0, images.dtype), g.Where(g.Greater(span, zero), span, one))
    of_red = g.Mul(sixth, g.Sub(green, blue))
    of_green = g.Add(g.Mul(sixth, g.Sub(blue, red)), g.const(2.0 / 6.0, images.dtype))
    of_blue = g.Add(g.Mul(sixth, g.Sub(red, green)), g.const(4.0 / 6.0, images.dtype))
    hue = g.Where(g.Equal(red, value), of_red, g.Where(g.Equal(green, value), of_green, of_blue))
    hue = g.Where(g.Greater(span, zero), hue, zero)
    return g.Where(g.Less(hue, zero), g.Add(hue, one), hue), value, span


@tf_op("HSVToRGB")
def hsv_to_rgb(g: Graph, images: ir.Value) -> ir.Value:
    hue, saturation, value = g.Split(images, axis=-1, num_outputs=3, outputs=3)
    one = g.const(1.0, images.dtype)
    return g.Mul(g.Add(g.Sub(one, saturation), g.Mul(saturation, _pure_color(g, hue))), value)


def _pure_color(g: Graph, hue: ir.Value) -> ir.Value:
    """Return the colour of a hue, with a smallest channel of 0 and a largest of 1."""
    zero, one, two = (g.const(n, hue.dtype) for n in (0.0, 1.0, 2.0))
    sixths = g.Mul(hue, g.const(6.0, hue.dtype))
    red = g.Sub(g.Abs(g.Sub(sixths, g.const(3.0, hue.dtype))), one)
    green = g.Sub(two, g.Abs(g.Sub(sixths, two)))
    blue = g.Sub(two, g.Abs(g.Sub(sixths, g.const(4.0, hue.dtype))))
    return g.Clip(g.Concat(red, green, blue, axis=-1), zero, one)


@tf_op("AdjustSaturation")
def adjust_saturation(g: Graph, images: ir.Value, scale: ir.Value) -> ir.Value:
    hue, saturation, value = g.Split(rgb_to_hsv(g, images), axis=-1, num_outputs=3, outputs=3)
    scaled = g.Clip(g.Mul(saturation, cast(g, scale, g.dtype(images))), 0.0, 1.0)
    return hsv_to_rgb(g, g.Concat(hue, scaled, value, axis=-1))


@tf_op("AdjustHue")
def adjust_hue(g: Graph, images: ir.Value, delta: ir.Value) -> ir.Value:
    """AdjustHue: the colour is rotated between the smallest and the largest channel, which may be negative
    (adjust_hue_op.cc).
    """
    hue, value, span = _hue_and_range(g, images)
    turned = g.Add(hue, cast(g, delta, g.dtype(images)))
    pure = _pure_color(g, g.Sub(turned, g.Floor(turned)))
    return g.Add(g.Sub(value, span), g.Mul(span, pure))
