"""Judge which boxes a target has selected from its own boxes and scores.

Equal scores are common in 8 bits, and runtimes order them in their own ways. So this does not suppress boxes again, but
checks what holds for every order:

- each detection is a candidate
- no two of a class overlap by more than allowed
- a missing candidate overlaps with a detection that is at least as good, or comes behind a limit

The selection is that of `--postprocess detection` (`selection_problem`), or rows of ONNX's NonMaxSuppression
(`rows_problem`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from convert.request.detections import CANDIDATE_NAMES, NAMES, Detections
from convert.runtimes.detections import corners_of, overlap

_NEAR = 1e-4
"""Allowed difference of overlaps, and of corners relative to the largest: the operator decodes boxes in float32."""

Arrays = Mapping[str, np.ndarray]


def selection_problem(candidates: Arrays, found: Arrays, how: Detections) -> str:
    """Return what is wrong with the detections `found`, or an empty string.

    candidates: boxes [1, n, 4] and scores [1, classes, n], by `CANDIDATE_NAMES`. found: the outputs `NAMES`.
    """
    (boxes,), (scores,) = (candidates[name] for name in CANDIDATE_NAMES)
    shapes = (1, how.limit, 4), (1, how.limit), (1, how.limit), (1,)
    for name, shape in zip(NAMES, shapes, strict=True):
        if found[name].shape != shape:
            return f"{name} is {list(found[name].shape)}, not {list(shape)}"
    (corners,), (classes,), (best,), (number,) = (found[name] for name in NAMES)
    count = int(number)
    if count != number or not 0 <= count <= how.limit:
        return f"there are {number} detections of at most {how.limit}"
    if any(part[count:].any() for part in (corners, classes, best)):
        return "there are numbers behind the last detection"
    if (np.diff(best[:count]) > 0).any():
        return "detections are not in the order of their scores"
    if not np.isin(classes[:count], np.arange(len(scores))).all():
        return "there is a class that the scores lack"
    last = best[count - 1] if count == how.limit else -np.inf
    for kind, own in enumerate(scores):
        places = classes[:count] == kind
        if problem := _problem_of_class(boxes, own, corners[:count][places], best[:count][places], last, how):
            return f"class {kind}: {problem}"
    return ""


def rows_problem(boxes: np.ndarray, scores: np.ndarray, rows: np.ndarray, how: Detections) -> str:
    """Return what is wrong with rows [k, 3] (image, class, box) that NonMaxSuppression has selected, or "".

    boxes: [images, n, 4] in the form of `how`. scores: [images, classes, n].
    """
    images, classes, _ = scores.shape
    if ((rows < 0) | (rows >= scores.shape)).any():
        return "a row has an image, class or box that there is not"
    groups = rows[:, 0] * classes + rows[:, 1]
    if (np.diff(groups) < 0).any():
        return "rows are not in the order of images and classes"
    for image in range(images):
        corners = corners_of(boxes[image], how)
        for kind in range(classes):
            chosen = rows[groups == image * classes + kind, 2].tolist()
            own = scores[image, kind]
            if (np.diff(own[chosen]) > 0).any():
                return f"class {kind}: rows are not in the order of their scores"
            if problem := _problem_of_places(corners, own, chosen, -np.inf, how):
                return f"class {kind}: {problem}"
    return ""


def _problem_of_class(
    boxes: np.ndarray, scores: np.ndarray, corners: np.ndarray, best: np.ndarray, last: float, how: Detections
) -> str:
    """Return what is wrong with the detections of one class. last: the score from which the limit of all cuts off."""
    margin = _NEAR * np.abs(boxes).max(initial=0)
    chosen: list[int] = []
    for box, score in zip(corners, best, strict=True):
        near = (scores == score) & (np.abs(boxes - box).max(1) <= margin)
        near[chosen] = False
        if not near.any():
            return f"the detection {box.round(3).tolist()} with score {score:.4f} is none of the boxes"
        chosen.append(int(near.argmax()))
    return _problem_of_places(boxes, scores, chosen, last, how)


def _problem_of_places(
    boxes: np.ndarray, scores: np.ndarray, chosen: Sequence[int], last: float, how: Detections
) -> str:
    """Return what is wrong with the boxes of one class, by number, that were chosen."""
    per_class, iou, least = how.thresholds
    kept, best = boxes[chosen], scores[chosen]
    if len(set(chosen)) < len(chosen):
        return "a box is selected twice"
    if len(chosen) > per_class or (best <= np.float32(least)).any():
        return f"there are {len(chosen)} detections of at most {per_class}, or some below the least score"
    for place in range(1, len(chosen)):
        if overlap(kept[place], kept[:place]).max() > iou + _NEAR:
            return "two detections overlap by more than allowed"
    if chosen and len(chosen) == per_class:
        last = max(last, float(best.min()))
    missing = np.setdiff1d(np.flatnonzero((scores > np.float32(least)) & (scores > last)), chosen)
    for place in missing:
        better = kept[best >= scores[place]]
        if not len(better) or overlap(boxes[place], better).max() <= iou - _NEAR:
            return f"the box {boxes[place].round(3).tolist()} with score {scores[place]:.4f} is missing"
    return ""
