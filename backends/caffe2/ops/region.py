"""Rules for regions of an image, and for the ATen operator that samples an image."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.graph.values import known_dims

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..net import Net
from ..rules import onnx_op


@onnx_op("MaxRoiPool")
def max_roi_pool(net: Net, x: Blob, rois: Blob, *, pooled_shape: Sequence[int], spatial_scale: float) -> Blob:
    height, width = pooled_shape
    operands = [widen(net, v, FLOAT) for v in (x, rois)]
    y = net.op("RoIPool", operands, pooled_h=height, pooled_w=width, spatial_scale=spatial_scale, is_test=1)
    return cast(net, y, x.dtype)


def _is_mean(node: ir.Node) -> bool:
    """Return whether Caffe2's RoIAlign, which takes the mean of the samples, computes the node."""
    return node.attributes.get_string("mode", "avg") == "avg"


@onnx_op("RoiAlign", when=_is_mean)
def roi_align(
    net: Net,
    x: Blob,
    rois: Blob,
    batch: Blob,
    *,
    coordinate_transformation_mode: str,
    mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
) -> Blob:
    """RoiAlign-22. Caffe2's regions start with the index of their image."""
    column = net.facts(net.ExpandDims(cast(net, batch, ir.DataType.FLOAT), dims=[1]), FLOAT[0], (None, 1))
    regions = net.op("Concat", [column, widen(net, rois, FLOAT)], axis=1, outputs=2)[0]
    y = net.op(
        "RoIAlign",
        [widen(net, x, FLOAT), regions],
        pooled_h=output_height,
        pooled_w=output_width,
        spatial_scale=spatial_scale,
        sampling_ratio=sampling_ratio,
        aligned=int(coordinate_transformation_mode == "half_pixel"),
    )
    return cast(net, y, x.dtype)


def _is_picture(node: ir.Node) -> bool:
    return node.inputs[0] is not None and len(known_dims(node.inputs[0]) or ()) == 4


@onnx_op("GridSample", when=_is_picture)
def grid_sample(net: Net, x: Blob, grid: Blob, *, align_corners: int, mode: str, padding_mode: str) -> Blob:
    """GridSample-22 of an image by PyTorch's kernel; `legalize` leaves it only if nets may have the operator ATen."""
    arguments = {
        "interpolation_mode": ("linear", "nearest", "cubic").index(mode),
        "padding_mode": ("zeros", "border", "reflection").index(padding_mode),
        "align_corners": align_corners,
    }
    operands = [widen(net, v, FLOAT) for v in (x, grid)]
    sampled = net.op("ATen", operands, operator="grid_sampler", **arguments)
    return cast(net, net.facts(sampled, FLOAT[0], (*net.shape(x)[:2], *net.shape(grid)[1:-1])), x.dtype)
