"""The custom operator at the end of single-shot detectors: decodes and suppresses boxes, and returns the best."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import tflite_op

_DOUBLE = ir.DataType.DOUBLE


tflite_op.limit(
    "custom TFLite_Detection_PostProcess",
    "several classes of one box; and where there are fewer detections than places, the kernel leaves what was in its "
    "memory behind them unless it suppresses each class by itself: there are zeros then",
)


@tflite_op("custom TFLite_Detection_PostProcess")
def detection_post_process(
    g: Graph,
    encodings: ir.Value,
    predictions: ir.Value,
    anchors: ir.Value,
    *,
    max_detections: int,
    max_classes_per_detection: int,
    detections_per_class: int,
    use_regular_nms: bool,
    nms_score_threshold: float,
    nms_iou_threshold: float,
    num_classes: int,
    scales: tuple[float, float, float, float],
) -> list[ir.Value]:
    """Return boxes [1, n, 4], classes [1, n], scores [1, n] and the number of valid ones [1], padded with zeros.

    Selects the best class of each anchor, or (regular) each class separately, and then the best overall
    (tensorflow/lite/kernels/detection_postprocess.cc).
    """
    columns = g.shape(predictions)[-1]
    if max_classes_per_detection != 1:
        raise Unsupported(f"max_classes_per_detection={max_classes_per_detection}: of one for each box only")
    if not isinstance(columns, int):
        raise Unsupported("a computed number of classes")
    boxes = _decoded_boxes(g, encodings, anchors, scales)
    # The first column may be the background.
    scores = g.Slice(g.Squeeze(predictions, [0]), [columns - num_classes], [columns], [1])
    # Scores at the threshold are kept; ONNX keeps only those above it.
    overlap, least = (np.array([n], np.float32) for n in (nms_iou_threshold, nms_score_threshold))
    ends = [overlap, np.nextafter(least, np.float32(-np.inf))]
    if use_regular_nms:
        by_class = g.Unsqueeze(g.Transpose(scores, perm=[1, 0]), [0])
        kept = g.NonMaxSuppression(g.Unsqueeze(boxes, [0]), by_class, [detections_per_class], *ends)
        places, classes = (g.Slice(kept, [k], [k + 1], [1]) for k in (2, 1))
        found = g.GatherND(scores, g.Concat(places, classes, axis=1))
        count = g.Min(g.Shape(found), [max_detections])
        found, order = g.TopK(found, count, axis=0, outputs=2)
        places, classes = (g.Gather(g.Squeeze(v, [1]), order, axis=0) for v in (places, classes))
    else:
        best, which = g.ReduceMax(scores, [1], keepdims=0), g.ArgMax(scores, axis=1, keepdims=0)
        kept = g.NonMaxSuppression(g.Unsqueeze(boxes, [0]), g.Unsqueeze(best, [0, 1]), [max_detections], *ends)
        places = g.Squeeze(g.Slice(kept, [2], [3], [1]), [1])
        classes, found = g.Gather(which, places, axis=0), g.Gather(best, places, axis=0)
        count = g.Shape(found)
    behind = g.Sub([max_detections], count)
    classes = g.Cast(classes, to=ir.DataType.FLOAT)
    rows = g.Pad(g.Gather(boxes, places, axis=0), g.Concat([0, 0], behind, [0], axis=0))
    lines = [g.Pad(v, g.Concat([0], behind, axis=0)) for v in (classes, found)]
    dims = [1, max_detections]
    padded = [g.facts(g.Unsqueeze(v, [0]), shape=dims) for v in lines]
    return [g.facts(g.Unsqueeze(rows, [0]), shape=[*dims, 4]), *padded, g.Cast(count, to=ir.DataType.FLOAT)]


def _decoded_boxes(
    g: Graph, encodings: ir.Value, anchors: ir.Value, scales: tuple[float, float, float, float]
) -> ir.Value:
    """Return [anchors, 4] of top, left, bottom, right from encoded centres and sizes, in float64, rounded as the kernel
    does.

    Boxes are encoded as in Faster R-CNN (Ren et al. 2015): offsets in units of an anchor's size, sizes as logarithms.
    """
    rows = g.Slice(g.Squeeze(encodings, [0]), [0], [4], [1])
    moved, grown = _halves(g, g.Div(g.Cast(rows, to=_DOUBLE), np.array(scales, np.float32).astype(np.float64)))
    centre, size = _halves(g, g.Cast(anchors, to=_DOUBLE))
    middle = g.Cast(g.Add(g.Mul(moved, size), centre), to=ir.DataType.FLOAT)
    half = g.Cast(g.Mul(g.Mul(g.Exp(grown), g.const(0.5, _DOUBLE)), size), to=ir.DataType.FLOAT)
    return g.Concat(g.Sub(middle, half), g.Add(middle, half), axis=1)


def _halves(g: Graph, x: ir.Value) -> list[ir.Value]:
    """Return the first two columns, and the last two."""
    return g.Split(x, axis=1, num_outputs=2, outputs=2)
