"""Resizes, blocks between space, depth and batch, boxes, and spectra."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from convert.graph import Graph

from ..rules import emit_tf, tf_rule, tflite_op


def _resize_rule(operator: str) -> Callable[..., ir.Value]:
    def rule(g: Graph, x: ir.Value, size: ir.Value, *, align_corners: bool, half_pixel_centers: bool) -> ir.Value:
        return emit_tf(
            g, operator, [x, size], {"align_corners": align_corners, "half_pixel_centers": half_pixel_centers}
        )

    return rule


def _block_rule(operator: str) -> Callable[..., ir.Value]:
    def rule(g: Graph, x: ir.Value, *, block_size: int) -> ir.Value:
        return emit_tf(g, operator, [x], {"block_size": block_size, "data_format": "NHWC"})

    return rule


tflite_op.same(_resize_rule, RESIZE_BILINEAR="ResizeBilinear", RESIZE_NEAREST_NEIGHBOR="ResizeNearestNeighbor")
tflite_op.same(_block_rule, SPACE_TO_DEPTH="SpaceToDepth", DEPTH_TO_SPACE="DepthToSpace")
tflite_op.same(tf_rule, SPACE_TO_BATCH_ND="SpaceToBatchND", BATCH_TO_SPACE_ND="BatchToSpaceND")


@tflite_op("NON_MAX_SUPPRESSION_V4")
def non_max_suppression_v4(g: Graph, *inputs: ir.Value) -> list[ir.Value]:
    return emit_tf(g, "NonMaxSuppressionV4", list(inputs), {"pad_to_max_output_size": True})


@tflite_op("RFFT2D")
def rfft2d(g: Graph, x: ir.Value, length: ir.Value) -> ir.Value:
    return emit_tf(g, "RFFT2D", [x, length])
