"""What a target selects from its own boxes and scores, with equal scores in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from convert.parity.compare.selection import rows_problem, selection_problem
from convert.parity.pairing.selected import find_selected
from convert.request.detections import CANDIDATE_NAMES, ROWS, Detections
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


def rows_of(boxes: np.ndarray, scores: np.ndarray, how: Detections) -> np.ndarray:
    """Return the rows that onnxruntime selects."""
    ort = pytest.importorskip("onnxruntime")
    most, iou, least = how.thresholds
    numbers = {"most": np.array([most]), "iou": np.float32([iou]), "least": np.float32([least])}
    nodes = [helper.make_node("NonMaxSuppression", ["boxes", "scores", *numbers], ["rows"])]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("boxes", "scores")]
    outputs = [helper.make_tensor_value_info("rows", TensorProto.INT64, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in numbers.items()])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    session = ort.InferenceSession(proto.SerializeToString())
    return np.asarray(session.run(None, {"boxes": boxes, "scores": scores})[0])


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_onnxruntime_are_right_with_equal_scores_in_any_order(seed: int) -> None:
    pairs = [boxes_and_scores(seed + k, 8) for k in (0, 10)]
    boxes, scores = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    order = np.random.default_rng(seed).permutation(40)
    moved = rows_of(boxes[:, order], scores[..., order], HOW)
    moved[:, 2] = order[moved[:, 2]]
    for rows in (rows_of(boxes, scores, HOW), moved):
        assert len(rows)
        assert rows_problem(boxes, scores, rows, HOW) == ""


CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "one is missing": lambda rows: rows[1:],
    "one is twice": lambda rows: rows[[0, *range(len(rows))]],
    "another class": lambda rows: np.concatenate([rows[:1] * [1, 0, 1] + [0, 2, 0], rows[1:]]),
    "another box": lambda rows: np.concatenate([rows[:1] * [1, 1, 0] + [0, 0, 7], rows[1:]]),
    "no such box": lambda rows: np.concatenate([rows[:1] * [1, 1, 0] + [0, 0, 40], rows[1:]]),
    "the order of scores": lambda rows: rows[[1, 0, *range(2, len(rows))]],
    "the order of classes": lambda rows: np.concatenate([rows[rows[:, 1] > 0], rows[rows[:, 1] == 0]]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_defect_of_rows_is_found(change: str) -> None:
    boxes, scores = boxes_and_scores(0, 1000)
    assert rows_problem(boxes, scores, CHANGES[change](rows_of(boxes, scores, HOW)), HOW)


@pytest.mark.parametrize("changed", [{"iou": 0.2}, {"iou": 0.7}, {"score": 0.5}, {"score": 0.1}, {"per_class": 4}])
def test_rows_of_another_setting_are_found(changed: dict[str, float]) -> None:
    boxes, scores = boxes_and_scores(1, 1000)
    how = replace(HOW, per_class=30)
    assert rows_problem(boxes, scores, rows_of(boxes, scores, how), how) == ""
    assert rows_problem(boxes, scores, rows_of(boxes, scores, replace(how, **changed)), how)  # type: ignore[arg-type]


def test_the_tensors_that_rows_were_selected_from_are_found() -> None:
    """They are not the nearest ones: scores before they were rounded are nearer."""
    boxes, scores = boxes_and_scores(0, 1000)
    exact = dict(zip(CANDIDATE_NAMES, (boxes.astype(np.float64), scores.astype(np.float64)), strict=True))
    coarse = np.round(scores * 16) / np.float32(16)
    rows = rows_of(boxes, coarse, HOW)
    run = {"1": scores[0] + np.float32(1e-4), "2": boxes, "3": coarse, "4": rows, "5": scores[:, ::-1], "out": boxes}
    found = find_selected([exact], [run], HOW)
    assert found is not None
    assert found.numbers == (("candidate_boxes", 2), ("candidate_scores", 3))
    assert found.problem == ""
    np.testing.assert_array_equal(found.arrays[0][ROWS], rows)
    del run["3"]
    found = find_selected([exact], [run], HOW)
    assert found is not None
    assert found.problem
    del run["1"], run["5"]
    assert find_selected([exact], [run], HOW) is None
