"""Resizes, space-to-depth and space-to-batch, boxes, and spectra."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
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
def non_max_suppression_v4(
    g: Graph, boxes: ir.Value, scores: ir.Value, count: ir.Value, overlap: ir.Value, *least: ir.Value
) -> list[ir.Value]:
    """NON_MAX_SUPPRESSION_V4. The kernel also drops boxes at the threshold
    (kernels/internal/reference/non_max_suppression.h), so ONNX gets the next lower number.
    """
    below = g.Max(emit_tf(g, "NextAfter", [overlap, g.const(np.array(-np.inf, np.float32))]), np.float32(0))
    found = [boxes, scores, count, below, *least]
    chosen, valid = emit_tf(g, "NonMaxSuppressionV4", found, {"pad_to_max_output_size": True})
    known = g.static(overlap)
    if known is not None and known > 0:
        return [chosen, valid]
    # Every pair of boxes reaches a threshold of 0 or less, so only the best box remains.
    valid = g.Where(g.LessOrEqual(overlap, np.float32(0)), g.Min(valid, np.int32(1)), valid)
    places = g.Range(np.int32(0), g.Cast(g.Squeeze(g.Shape(chosen), [0]), to=ir.DataType.INT32), np.int32(1))
    return [g.Where(g.Less(places, valid), chosen, np.int32(0)), valid]


@tflite_op("RFFT2D")
def rfft2d(g: Graph, x: ir.Value, length: ir.Value) -> ir.Value:
    return emit_tf(g, "RFFT2D", [x, length])
