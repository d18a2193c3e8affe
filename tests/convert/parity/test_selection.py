"""What a target selects from its own boxes and scores, with equal scores in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from convert.parity.compare.selection import selection_problem
from convert.request.detections import CANDIDATE_NAMES, Detections
from convert.runtimes.detections import candidates, detect

HOW = Detections(form="yxyx", classes_first=True, limit=30, per_class=8, score=0.3, iou=0.4)


def boxes_and_scores(seed: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return forty boxes, and scores of three classes of which many are equal."""
    rng = np.random.default_rng(seed)
    low, size = rng.random((1, 40, 2)) * 0.7, 0.1 + rng.random((1, 40, 2)) * 0.2
    boxes = np.concatenate([low, low + size], 2).astype(np.float32)
    return boxes, np.round(rng.random((1, 3, 40)) * steps).astype(np.float32) / np.float32(steps)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("limit", "per_class"), [(30, 8), (30, 2), (4, 8)])
def test_equal_scores_may_be_taken_in_any_order(seed: int, limit: int, per_class: int) -> None:
    how = replace(HOW, limit=limit, per_class=per_class)
    boxes, scores = boxes_and_scores(seed, 8)
    order = np.random.default_rng(seed).permutation(40)
    given = candidates(boxes, scores, how)
    for found in (detect(boxes, scores, how), detect(boxes[:, order], scores[..., order], how)):
        assert selection_problem(given, found, how) == ""


def drop(found: dict[str, np.ndarray]) -> None:
    """Leave out the best detection."""
    for name in ("detection_boxes", "detection_classes", "detection_scores"):
        found[name][0] = np.concatenate([found[name][0, 1:], 0 * found[name][0, :1]])
    found["num_detections"] -= 1


def double(found: dict[str, np.ndarray]) -> None:
    """Return the best detection twice, the second time in the place of another one."""
    for name in ("detection_boxes", "detection_classes", "detection_scores"):
        found[name][0, 1] = found[name][0, 0]


def move(found: dict[str, np.ndarray]) -> None:
    found["detection_boxes"][0, 2] += 0.01


def other_class(found: dict[str, np.ndarray]) -> None:
    found["detection_classes"][0, 0] = (found["detection_classes"][0, 0] + 1) % 3


def lacking_class(found: dict[str, np.ndarray]) -> None:
    found["detection_classes"][0, 0] = 3


def unsorted(found: dict[str, np.ndarray]) -> None:
    for name in ("detection_boxes", "detection_classes", "detection_scores"):
        found[name][0, :2] = found[name][0, 1::-1]


def remains(found: dict[str, np.ndarray]) -> None:
    found["detection_scores"][0, -1] = 0.1


def many(found: dict[str, np.ndarray]) -> None:
    found["num_detections"] += 30


@pytest.mark.parametrize("defect", [drop, double, move, other_class, lacking_class, unsorted, remains, many])
def test_a_defect_is_found(defect: Callable[[dict[str, np.ndarray]], None]) -> None:
    boxes, scores = boxes_and_scores(0, 1000)
    found = detect(boxes, scores, HOW)
    defect(found)
    assert selection_problem(candidates(boxes, scores, HOW), found, HOW)


@pytest.mark.parametrize("changed", [{"iou": 0.2}, {"iou": 0.7}, {"score": 0.5}, {"score": 0.1}, {"per_class": 4}])
def test_another_setting_is_found(changed: dict[str, float]) -> None:
    boxes, scores = boxes_and_scores(1, 1000)
    how = replace(HOW, limit=90, per_class=30)
    given = candidates(boxes, scores, how)
    assert list(given) == list(CANDIDATE_NAMES)
    assert selection_problem(given, detect(boxes, scores, how), how) == ""
    assert selection_problem(given, detect(boxes, scores, replace(how, **changed)), how)  # type: ignore[arg-type]
