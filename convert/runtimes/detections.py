"""Detections of boxes and scores, on arrays: what the outputs of a source are compared by with `--postprocess`.

Suppression is that of ONNX's NonMaxSuppression, class by class; the best detections of all classes follow in the order
of their scores, and zeros behind them, as in tensorflow/lite/kernels/detection_postprocess.cc.
"""

from __future__ import annotations

import numpy as np

from convert.request.detections import CANDIDATE_NAMES, CENTRES, DELTAS, NAMES, Detections

Array = np.ndarray


def candidates(boxes: Array, scores: Array, how: Detections) -> dict[str, Array]:
    """Return what detections are selected from, by `CANDIDATE_NAMES`."""
    by_class = scores[0] if how.classes_first else scores[0].T
    by_class = by_class[1:] if how.background else by_class
    return dict(zip(CANDIDATE_NAMES, (corners_of(boxes[0], how)[None], by_class[None]), strict=True))


def detect(boxes: Array, scores: Array, how: Detections) -> dict[str, Array]:
    """Return boxes [1, limit, 4] (top, left, bottom, right), classes and scores [1, limit], and their number [1]."""
    (corners,), (by_class,) = candidates(boxes, scores, how).values()
    rows = [(kind, place) for kind, own in enumerate(by_class) for place in _kept(corners, own, how)]
    rows = sorted(rows, key=lambda row: -by_class[row])[: how.limit]
    found = np.zeros((how.limit, 4), boxes.dtype), np.zeros(how.limit, boxes.dtype), np.zeros(how.limit, boxes.dtype)
    for number, (kind, place) in enumerate(rows):
        found[0][number], found[1][number], found[2][number] = corners[place], kind, by_class[kind, place]
    arrays = (*(part[None] for part in found), np.array([len(rows)], boxes.dtype))
    return dict(zip(NAMES, arrays, strict=True))


def corners_of(boxes: Array, how: Detections) -> Array:
    """Return boxes [n, 4] as the smaller and the larger corner, y first if the form says which column is x."""
    columns = boxes[:, [1, 0, 3, 2]] if how.x_first else boxes
    first, second = columns[:, :2], columns[:, 2:]
    if how.form in DELTAS and how.anchors is not None:
        anchors, scales = how.anchors.astype(boxes.dtype), np.array(how.scales, boxes.dtype)
        if how.x_first:
            anchors, scales = anchors[:, [1, 0, 3, 2]], scales[[1, 0, 3, 2]]
        first = first / scales[:2] * anchors[:, 2:] + anchors[:, :2]
        second = np.exp(second / scales[2:]) * anchors[:, 2:]
    if how.form in (*CENTRES, *DELTAS):
        first, second = first - second / 2, first + second / 2
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], 1)


def _kept(corners: Array, scores: Array, how: Detections) -> list[int]:
    """Return the boxes of one class that suppression keeps, the best first."""
    per_class, iou, least = how.thresholds
    kept: list[int] = []
    for place in np.argsort(-scores, kind="stable"):
        if len(kept) == per_class or not scores[place] > np.float32(least):
            break
        if not kept or overlap(corners[place], corners[kept]).max() <= np.float32(iou):
            kept.append(int(place))
    return kept


def overlap(box: Array, others: Array) -> Array:
    """Return intersection over union of one box with others; 0 for an empty one."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    common = np.prod(np.maximum(sides, 0), 1)
    areas = np.prod(box[2:] - box[:2]), np.prod(others[:, 2:] - others[:, :2], 1)
    return np.where((areas[0] > 0) & (areas[1] > 0), common / np.maximum(areas[0] + areas[1] - common, 1e-30), 0)
