"""torchvision's operators, found by name: non-maximum suppression, region pooling, deformable convolutions."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.sizes import quotient, reshape, size
from ..common.values import cast
from ..rules import torch_op


@torch_op("torchvision::nms")
def nms(g, dets, scores, iou_threshold):
    """Return the indices of the boxes that are kept, the best score first; boxes are (x1, y1, x2, y2).

    In torchvision a box with x2 < x1 or y2 < y1 overlaps no other box, but ONNX would swap its corners: such a box is
    made empty.
    """
    boxes = g.Unsqueeze(cast(g, dets, torch.float32), [0])
    first, second = (g.Slice(boxes, np.array([n]), np.array([n + 2]), np.array([2])) for n in (0, 2))
    boxes = g.Concat(first, g.Max(first, second), axis=2)
    rows = g.Unsqueeze(cast(g, scores, torch.float32), [0, 1])
    most = g.Gather(g.Shape(dets), g.const(np.array([0])), axis=0)
    picked = g.NonMaxSuppression(boxes, rows, most, g.const(np.array([iou_threshold]), ir.DataType.FLOAT))
    return g.Gather(picked, 2, axis=1)


@torch_op("torchvision::roi_align")
def roi_align(g, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    return _emit_roi_align(g, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)


def _emit_roi_align(
    g: Graph, x: ir.Value, rois: ir.Value, scale: float, height: int, width: int, ratio: int, aligned: bool
) -> ir.Value:
    batch, boxes = _split_rois(g, rois)
    return g.RoiAlign(
        x,
        boxes,
        batch,
        spatial_scale=float(scale),
        output_height=height,
        output_width=width,
        sampling_ratio=max(ratio, 0),
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )


def _split_rois(g: Graph, rois: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Split rows (image, x1, y1, x2, y2) into the image's index, as int64, and the box."""
    batch = g.Gather(rois, 0, axis=1)
    return cast(g, batch, torch.int64), g.Slice(rois, np.array([1]), np.array([5]), np.array([1]))


@torch_op("torchvision::ps_roi_align")
def ps_roi_align(g, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    """Pool each bin from its own group of channels: all bins are pooled from all groups, and the matching pairs are
    kept.
    """
    bins = pooled_height * pooled_width
    every = _emit_roi_align(g, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, True)
    count, groups = size(g, rois, 0), quotient(g, size(g, input, 1), bins)
    pairs = reshape(g, every, [count, groups, bins * bins])
    own = g.Gather(pairs, g.const(np.arange(bins) * (bins + 1)), axis=2)
    return [reshape(g, own, [count, groups, pooled_height, pooled_width]), None]


@torch_op("torchvision::roi_pool")
def roi_pool(g, input, rois, spatial_scale, pooled_height, pooled_width):
    out = g.MaxRoiPool(input, rois, pooled_shape=[pooled_height, pooled_width], spatial_scale=float(spatial_scale))
    return [out, None]


@torch_op("torchvision::deform_conv2d")
def deform_conv2d(
    g, input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    groups, offset_groups, use_mask,
):  # fmt: skip
    return g.DeformConv(
        input,
        weight,
        offset,
        bias,
        mask if use_mask else None,
        kernel_shape=[_static_length(size(g, weight, i)) for i in (2, 3)],
        strides=[stride_h, stride_w],
        pads=[pad_h, pad_w, pad_h, pad_w],
        dilations=[dilation_h, dilation_w],
        group=groups,
        offset_group=offset_groups,
    )


def _static_length(length: int | ir.Value) -> int:
    if not isinstance(length, int):
        raise Unsupported("a deformable convolution whose kernel has a size that is not known")
    return length


torch_op.gap("averages over bins of whole pixels, which ONNX has no operator for", "torchvision::ps_roi_pool")
torch_op.gap("rotated boxes, which ONNX has no operator for", "torchvision::box_iou_rotated")
torch_op.gap("torchvision's operators on quantized tensors", "torchvision::qnms", "torchvision::qroi_align")
