"""The rule of `frontends/tensorflow/lite/ops/detection.py` against ai-edge-litert."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends.tensorflow.lite import runner

from convert.errors import BadInput, Unsupported
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.lite.ops.lite_files import Result, constant, handmade, opened, packed
from tests.frontends.tensorflow.lite.ops.lite_support import check, file_case
from tests.frontends.tensorflow.ops.tf_support import run, same
from tests.support.cases import Case, f32, params
from tests.support.tensorflow_helper import read

OPTIONS = {
    "max_detections": 6, "max_classes_per_detection": 1, "num_classes": 3, "nms_score_threshold": 0.25,
    "nms_iou_threshold": 0.4, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip
ENCODINGS = f32(1, 12, 4)
ANCHORS = np.float32([[y, x, h, 0.4] for y in (0.3, 0.7) for x in (0.2, 0.4, 0.8) for h in (0.3, 0.6)])
SCORES = f32(1, 12, 4, low=0.0, high=1.0)
SCORES[0, 3] = 0.25  # at the threshold


def detector(anchors: int = 12, raw: bytes | None = None, **more: Any) -> Callable[[], bytes]:
    """Return a file with that operator only."""

    def make() -> bytes:
        from flatbuffers import flexbuffers

        results = [Result((1, 6, 4)), Result((1, 6)), Result((1, 6)), Result((1,))]
        parts = [ENCODINGS[:, :anchors], SCORES[:, :anchors], constant(ANCHORS[:anchors])]
        model = opened(handmade("CUSTOM", parts, results)())
        model.operatorCodes[0].customCode = "TFLite_Detection_PostProcess"
        options = flexbuffers.Dumps(OPTIONS | more) if raw is None else raw
        model.subgraphs[0].operators[0].customOptions = np.frombuffer(bytes(options), np.uint8)
        return packed(model)

    return make


def row(label: str, scores: np.ndarray = SCORES, **more: Any) -> Case:
    anchors = scores.shape[1]
    return file_case(
        "custom TFLite_Detection_PostProcess", detector(anchors, **more), ENCODINGS[:, :anchors], scores
    ).named(label)


ROWS = [
    row("the best class of each"),
    row("no background", num_classes=4),
    row("each class by itself", use_regular_nms=True, detections_per_class=3),
    row("each class, few", SCORES[:, :2], use_regular_nms=True),
    row("each class, nothing above the threshold", SCORES - 1, use_regular_nms=True),
    row("each class, all that there are", use_regular_nms=True, nms_score_threshold=0.0),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row)


@pytest.mark.parametrize("scores", [SCORES[:, :2], SCORES - 1])
def test_behind_the_best_class_of_each_there_are_zeros(scores: np.ndarray, tmp_path: Path) -> None:
    """The kernel leaves uninitialized memory there, so only the counted boxes are compared."""
    path, feeds = tmp_path / "m.tflite", {"x0": ENCODINGS[:, : scores.shape[1]], "x1": scores}
    path.write_bytes(detector(scores.shape[1])())
    source = Source("tflite", path)
    (expected,) = runner.run(source, [feeds], precision="float32", options=Options())
    got = run(read(source), feeds)
    count = int(expected["y3"].item())
    assert 0 <= count < 6
    same(got["y3"], expected["y3"])
    for name in ("y0", "y1", "y2"):
        same(got[name][:, :count], expected[name][:, :count])
        assert not got[name][:, count:].any()


def test_several_classes_of_one_box_are_refused() -> None:
    with pytest.raises(Unsupported, match="max_classes_per_detection=2"):
        check(row("two", max_classes_per_detection=2))


@pytest.mark.parametrize("raw", [b"", b"\x01\x02", b"\xff" * 40])
def test_options_that_are_none_are_refused(raw: bytes) -> None:
    with pytest.raises(BadInput, match="damaged"):
        check(row("damaged", raw=raw))
