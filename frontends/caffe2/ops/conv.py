"""Convolutions, pools and other sliding windows, with arguments normalized by `windows.normalize_window_args`."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.semantics.windows import Window

from ..rules import caffe2_op
from ..windows import Sizes, make_window, with_legacy_pads
from .layout import as_channels_first, from_channels_first


@caffe2_op("Conv", "Conv1D", "Conv2D", "Conv3D")
def conv(
    g: Graph, x: ir.Value, w: ir.Value, b: ir.Value | None = None, *, order: str = "NCHW", group: int = 1,
    kernels: Sizes = None, strides: Sizes = None, pads: Sizes = None, dilations: Sizes = None, legacy_pad: int = 0,
) -> ir.Value:  # fmt: skip
    x, w = as_channels_first(g, x, order), as_channels_first(g, w, order)
    made = make_window(g.rank(x) - 2, kernels or kernel_sizes(g, w), strides, pads, dilations)
    made = with_legacy_pads(made, g.shape(x)[2:], legacy_pad)
    y = g.Conv(
        x, w, b, kernel_shape=made.kernel, strides=made.strides, pads=made.pads, dilations=made.dilations, group=group
    )
    return from_channels_first(g, y, order)


def kernel_sizes(g: Graph, w: ir.Value) -> list[int]:
    """Return the kernel's size, from the shape of the weight."""
    return [d for d in g.shape(w)[2:] if isinstance(d, int)]


@caffe2_op("ConvFusion")
def conv_fusion(
    g: Graph, *inputs: ir.Value, fusion_type: int = 0, order: str = "NCHW", group: int = 1, kernels: Sizes = None,
    strides: Sizes = None, pads: Sizes = None, dilations: Sizes = None,
) -> ir.Value:  # fmt: skip
    """IDEEP's ConvFusion: a convolution, followed by (1) a ReLU, (2) the sum with the last input, (3) both."""
    added = inputs[-1] if fusion_type in (2, 3) else None
    own = inputs if added is None else inputs[:-1]
    y = conv(g, *own, order=order, group=group, kernels=kernels, strides=strides, pads=pads, dilations=dilations)
    y = y if added is None else g.Add(y, added)
    return g.Relu(y) if fusion_type in (1, 3) else y


@caffe2_op("ConvTranspose")
def conv_transpose(
    g: Graph, x: ir.Value, w: ir.Value, b: ir.Value | None = None, *, order: str = "NCHW", group: int = 1,
    adjs: Sequence[int] = (), adj: int = 0, adj_h: int = 0, adj_w: int = 0, kernels: Sizes = None,
    strides: Sizes = None, pads: Sizes = None, dilations: Sizes = None,
) -> ir.Value:  # fmt: skip
    """ConvTranspose. Dilations other than 1 are refused: the runtime ignores them, so the intended result is
    unclear.
    """
    x, w = as_channels_first(g, x, order), as_channels_first(g, w, order)
    n = g.rank(x) - 2
    made = _check_undilated(
        make_window(n, kernels or kernel_sizes(g, w), strides, pads, dilations), "transposed convolution"
    )
    extra = list(adjs) or ([adj] * n if adj else [adj_h, adj_w][:n] if adj_h or adj_w else [0] * n)
    y = g.ConvTranspose(
        x, w, b, kernel_shape=made.kernel, strides=made.strides, pads=made.pads, output_padding=extra, group=group
    )
    return from_channels_first(g, y, order)


@caffe2_op("MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D")
def max_pool(
    g: Graph, x: ir.Value, *, order: str = "NCHW", global_pooling: int = 0, kernels: Sizes = None,
    strides: Sizes = None, pads: Sizes = None, dilations: Sizes = None, legacy_pad: int = 0,
) -> ir.Value:  # fmt: skip
    x = as_channels_first(g, x, order)
    if global_pooling:
        return from_channels_first(g, g.GlobalMaxPool(x), order)
    made = _check_undilated(make_window(g.rank(x) - 2, kernels, strides, pads, dilations))
    made = with_legacy_pads(made, g.shape(x)[2:], legacy_pad)
    return from_channels_first(g, g.MaxPool(x, kernel_shape=made.kernel, strides=made.strides, pads=made.pads), order)


@caffe2_op("AveragePool", "AveragePool1D", "AveragePool2D", "AveragePool3D")
def average_pool(
    g: Graph, x: ir.Value, *, order: str = "NCHW", global_pooling: int = 0, count_include_pad: int = 0,
    kernels: Sizes = None, strides: Sizes = None, pads: Sizes = None, dilations: Sizes = None, legacy_pad: int = 0,
) -> ir.Value:  # fmt: skip
    x = as_channels_first(g, x, order)
    if global_pooling:
        return from_channels_first(g, g.GlobalAveragePool(x), order)
    made = _check_undilated(make_window(g.rank(x) - 2, kernels, strides, pads, dilations))
    made = with_legacy_pads(made, g.shape(x)[2:], legacy_pad)
    y = g.AveragePool(
        x, kernel_shape=made.kernel, strides=made.strides, pads=made.pads, count_include_pad=count_include_pad
    )
    return from_channels_first(g, y, order)


def _check_undilated(made: Window, what: str = "pool") -> Window:
    if any(d != 1 for d in made.dilations):
        raise Unsupported(f"a dilated {what}, which Caffe2 does not have")
    return made


@caffe2_op("LRN")
def local_response_normalization(
    g: Graph, x: ir.Value, *, size: int, alpha: float, beta: float, bias: float = 1.0, order: str = "NCHW",
    outputs: Sequence[str] = (),
) -> list[ir.Value]:  # fmt: skip
    """LRN, and the sum by a power of which it divides, if the net names it."""
    x = as_channels_first(g, x, order)
    y = g.LRN(x, size=size, alpha=alpha, beta=beta, bias=bias)
    if len(outputs) < 2:
        return [from_channels_first(g, y, order)]
    before = (size - 1) // 2
    window, pads = [size, 1, 1], [before, 0, 0, size - 1 - before, 0, 0]
    squares = g.Unsqueeze(g.Mul(x, x), [1])
    mean = g.AveragePool(squares, kernel_shape=window, pads=pads, count_include_pad=1)
    scale = g.Add(g.Mul(g.Squeeze(mean, [1]), alpha), bias)
    return [from_channels_first(g, y, order), from_channels_first(g, scale, order)]


@caffe2_op("PadImage")
def pad_image(
    g: Graph, x: ir.Value, *, mode: str = "constant", value: float = 0.0, order: str = "NCHW", pads: Sizes = None
) -> ir.Value:
    x = as_channels_first(g, x, order)
    top, left, bottom, right = make_window(2, 1, 1, pads).pads
    around = [0, 0, top, left, 0, 0, bottom, right]
    return from_channels_first(g, g.Pad(x, around, value if mode == "constant" else None, mode=mode), order)


@caffe2_op("ResizeNearest")
def resize_nearest(
    g: Graph, x: ir.Value, *, width_scale: float = 1.0, height_scale: float = 1.0, order: str = "NCHW"
) -> ir.Value:
    """ResizeNearest: the element at floor(i / scale)."""
    y = g.Resize(
        as_channels_first(g, x, order), None, [1.0, 1.0, height_scale, width_scale],
        mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip
    return from_channels_first(g, y, order)


@caffe2_op("UpsampleBilinear")
def upsample_bilinear(
    g: Graph, x: ir.Value, *, width_scale: float = 1.0, height_scale: float = 1.0, order: str = "NCHW"
) -> ir.Value:
    """UpsampleBilinear, with aligned corners."""
    y = g.Resize(
        as_channels_first(g, x, order), None, [1.0, 1.0, height_scale, width_scale],
        mode="linear", coordinate_transformation_mode="align_corners",
    )  # fmt: skip
    return from_channels_first(g, y, order)


@caffe2_op("RoIAlign")
def roi_align(
    g: Graph, x: ir.Value, rois: ir.Value, *, spatial_scale: float = 1.0, pooled_h: int = 1, pooled_w: int = 1,
    sampling_ratio: int = -1, aligned: int = 0, order: str = "NCHW",
) -> ir.Value:  # fmt: skip
    """RoIAlign. Boxes are rows of [image, x1, y1, x2, y2], or of four numbers if there is one image."""
    if g.shape(rois)[1] == 5:
        image = g.Cast(g.Squeeze(g.Slice(rois, [0], [1], [1]), [1]), to=ir.DataType.INT64)
        boxes = g.Slice(rois, [1], [5], [1])
    else:
        image = g.Expand(0, g.Shape(rois, end=1))
        boxes = rois
    y = g.RoiAlign(
        as_channels_first(g, x, order), boxes, image,
        output_height=pooled_h, output_width=pooled_w, spatial_scale=spatial_scale,
        sampling_ratio=max(sampling_ratio, 0),
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )  # fmt: skip
    return from_channels_first(g, y, order)


@caffe2_op("RoIPool")
def roi_pool(
    g: Graph, x: ir.Value, rois: ir.Value, *, is_test: int = 0, spatial_scale: float = 1.0, pooled_h: int = 1,
    pooled_w: int = 1, order: str = "NCHW",
) -> ir.Value:  # fmt: skip
    if not is_test:
        raise Unsupported("is_test=0: the net is one for training")
    y = g.MaxRoiPool(
        as_channels_first(g, x, order), rois, pooled_shape=[pooled_h, pooled_w], spatial_scale=spatial_scale
    )
    return from_channels_first(g, y, order)
