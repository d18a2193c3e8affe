"""Convolutions, transposed convolutions and pools. Filters have the output channels first."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...common.lazy_reshape import transpose
from ...ops.conv import convolution, transposed_convolution
from ..rules import emit_tf, padding_name, tflite_op


@tflite_op("CONV_2D")
def conv_2d(
    g: Graph,
    x: ir.Value,
    filter: ir.Value,
    bias: ir.Value | None = None,
    *,
    padding: int,
    stride_h: int,
    stride_w: int,
    dilation_h_factor: int,
    dilation_w_factor: int,
) -> ir.Value:
    """CONV_2D; filter [out, H, W, in / groups]."""
    strides, dilations = [1, stride_h, stride_w, 1], [1, dilation_h_factor, dilation_w_factor, 1]
    weight = transpose(g, filter, [0, 3, 1, 2])
    return _add_bias(g, convolution(g, x, weight, strides, padding_name(padding), [], "NHWC", dilations), bias)


@tflite_op("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(
    g: Graph,
    x: ir.Value,
    filter: ir.Value,
    bias: ir.Value | None = None,
    *,
    padding: int,
    stride_h: int,
    stride_w: int,
    dilation_h_factor: int,
    dilation_w_factor: int,
) -> ir.Value:
    """DEPTHWISE_CONV_2D; filter [1, H, W, in · multiplier]."""
    strides, dilations = [1, stride_h, stride_w, 1], [1, dilation_h_factor, dilation_w_factor, 1]
    weight = transpose(g, filter, [3, 0, 1, 2])
    return _add_bias(g, convolution(g, x, weight, strides, padding_name(padding), [], "NHWC", dilations), bias)


@tflite_op("CONV_3D")
def conv_3d(
    g: Graph,
    x: ir.Value,
    filter: ir.Value,
    bias: ir.Value | None = None,
    *,
    padding: int,
    stride_d: int,
    stride_h: int,
    stride_w: int,
    dilation_d_factor: int,
    dilation_h_factor: int,
    dilation_w_factor: int,
) -> ir.Value:
    """CONV_3D; filter [D, H, W, in / groups, out], as in TensorFlow."""
    strides = [1, stride_d, stride_h, stride_w, 1]
    dilations = [1, dilation_d_factor, dilation_h_factor, dilation_w_factor, 1]
    weight = transpose(g, filter, [4, 3, 0, 1, 2])
    return _add_bias(g, convolution(g, x, weight, strides, padding_name(padding), [], "NDHWC", dilations), bias)


@tflite_op("TRANSPOSE_CONV")
def transpose_conv(
    g: Graph,
    output_shape: ir.Value,
    filter: ir.Value,
    x: ir.Value,
    bias: ir.Value | None = None,
    *,
    padding: int,
    stride_h: int,
    stride_w: int,
) -> ir.Value:
    """TRANSPOSE_CONV; filter [out, H, W, in]."""
    weight = transpose(g, filter, [3, 0, 1, 2])
    strides, ones = [1, stride_h, stride_w, 1], [1, 1, 1, 1]
    y = transposed_convolution(g, output_shape, weight, x, strides, padding_name(padding), [], "NHWC", ones)
    return _add_bias(g, y, bias)


@tflite_op("custom Convolution2DTransposeBias")
def transpose_conv_with_bias(
    g: Graph, x: ir.Value, filter: ir.Value, bias: ir.Value, *, padding: int, stride_h: int, stride_w: int
) -> ir.Value:
    """MediaPipe's transposed convolution; filter [out, H, W, in].

    SAME drops from the whole result what a convolution of the same sizes would have padded, so that the result may have
    fewer elements than stride times input (mediapipe/util/tflite/operations/transpose_conv_bias.cc).
    """
    sizes, kernel = ([n for n in g.shape(v)[1:3] if isinstance(n, int)] for v in (x, filter))
    if len(sizes) < 2 or len(kernel) < 2:
        raise Unsupported("a picture of a size that is not known")
    rows = list(zip((stride_h, stride_w), sizes, kernel, strict=True))
    cut = [max(0, k - (n - 1) % s - 1) if padding_name(padding) == "SAME" else 0 for s, n, k in rows]
    made = [s * (n - 1) + k - c for (s, n, k), c in zip(rows, cut, strict=True)]
    pads = [0, 0, *(part for c in cut for part in (c // 2, c - c // 2)), 0, 0]
    weight, target = transpose(g, filter, [3, 0, 1, 2]), g.const(np.array([1, *made, 1], np.int32))
    steps, ones = [1, stride_h, stride_w, 1], [1, 1, 1, 1]
    return _add_bias(g, transposed_convolution(g, target, weight, x, steps, "EXPLICIT", pads, "NHWC", ones), bias)


@tflite_op("CONV_3D_TRANSPOSE")
def conv_3d_transpose(
    g: Graph,
    output_shape: ir.Value,
    filter: ir.Value,
    x: ir.Value,
    bias: ir.Value | None = None,
    *,
    padding: int,
    stride_d: int,
    stride_h: int,
    stride_w: int,
    dilation_d_factor: int,
    dilation_h_factor: int,
    dilation_w_factor: int,
) -> ir.Value:
    """CONV_3D_TRANSPOSE; filter [D, H, W, out, in]."""
    strides = [1, stride_d, stride_h, stride_w, 1]
    dilations = [1, dilation_d_factor, dilation_h_factor, dilation_w_factor, 1]
    weight = transpose(g, filter, [4, 3, 0, 1, 2])
    y = transposed_convolution(g, output_shape, weight, x, strides, padding_name(padding), [], "NDHWC", dilations)
    return _add_bias(g, y, bias)


def _add_bias(g: Graph, y: ir.Value, bias: ir.Value | None) -> ir.Value:
    """Add a bias; converters write a bias of zeros if there is none."""
    if bias is None or _is_zero(bias):
        return y
    return emit_tf(g, "BiasAdd", [y, bias], {"data_format": "NHWC"})


def _is_zero(bias: ir.Value) -> bool:
    maker = bias.producer()
    if maker is not None and maker.op_type == "DequantizeLinear" and maker.inputs[0] is not None:
        bias = maker.inputs[0]
    return bias.const_value is not None and not bias.const_value.numpy().any()


def _pool_attributes(
    filter_height: int, filter_width: int, stride_h: int, stride_w: int, padding: int
) -> dict[str, object]:
    return {
        "ksize": [1, filter_height, filter_width, 1],
        "strides": [1, stride_h, stride_w, 1],
        "padding": padding_name(padding),
        "data_format": "NHWC",
    }


@tflite_op("MAX_POOL_2D")
def max_pool_2d(
    g: Graph, x: ir.Value, *, padding: int, stride_h: int, stride_w: int, filter_height: int, filter_width: int
) -> ir.Value:
    windows = _pool_attributes(filter_height, filter_width, stride_h, stride_w, padding)
    return emit_tf(g, "MaxPool", [x], {**windows, "explicit_paddings": []})


@tflite_op("AVERAGE_POOL_2D")
def average_pool_2d(
    g: Graph, x: ir.Value, *, padding: int, stride_h: int, stride_w: int, filter_height: int, filter_width: int
) -> ir.Value:
    return emit_tf(g, "AvgPool", [x], _pool_attributes(filter_height, filter_width, stride_h, stride_w, padding))


@tflite_op("L2_POOL_2D")
def l2_pool_2d(
    g: Graph, x: ir.Value, *, padding: int, stride_h: int, stride_w: int, filter_height: int, filter_width: int
) -> ir.Value:
    """L2_POOL_2D: the root of the mean of squares over the elements inside the image."""
    return g.Sqrt(
        emit_tf(g, "AvgPool", [g.Mul(x, x)], _pool_attributes(filter_height, filter_width, stride_h, stride_w, padding))
    )
