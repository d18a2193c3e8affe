"""The rules of `backends/caffe2/ops/search.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import RUNTIME, Nets, Row, both, check, weight
from tests.support.cases import boolean, case, f32, i64

SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]], [[0.2, 0.8, 0.7, 0.1, 0.4, 0.9]]], np.float32)
BOXES = np.array(
    [
        [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]],
        [[0, 1, 1, 0], [0, 0.6, 1, 1.6], [1, 1, 0, 2], [3, 3, 4, 4], [3, 3, 4, 4.2], [9, 9, 9, 9]],
    ],
    np.float32,
)

ROWS = both(
    [
        case("Compress", f32(3, 4), boolean(3) | (np.arange(3) == 1), axis=0),
        case("Compress", f32(3, 4, 2), np.array([False, True, True]), axis=1).named("short"),
        (case("Compress", i64(3, 4), boolean(12) | (np.arange(12) == 5)).named("flat"), RUNTIME),
        (case("NonZero", i64(3, 4, low=-1, high=2)), RUNTIME),
        (case("NonZero", boolean(2, 3, 4) | (np.arange(4) == 1)), RUNTIME),
        (case("NonZero", f32(6).round()), RUNTIME),
        case("ReverseSequence", f32(5, 3, 2), weight(5, 1, 3)),
        case("ReverseSequence", i64(3, 5), np.array([5, 1, 3]), batch_axis=0, time_axis=1),
        *((case("Unique", i64(9, low=0, high=4), sorted=s, outputs=4).named(f"sorted {s}"), RUNTIME) for s in (0, 1)),
        (case("Unique", f32(4, 3).round(), outputs=4).named("flat"), RUNTIME),
        (case("Unique", i64(6, 3, low=0, high=2), axis=0, outputs=4).named("rows"), RUNTIME),
        (case("Unique", i64(2, 6, low=0, high=2), axis=1, outputs=4).named("columns"), RUNTIME),
        *(
            (
                case(
                    "NonMaxSuppression",
                    BOXES,
                    SCORES,
                    weight(np.int64(most)),
                    weight(np.float32(0.5)),
                    weight(np.float32(0.25)),
                ),
                RUNTIME,
            )
            for most in (1, 3, 9)
        ),
        (case("NonMaxSuppression", BOXES, SCORES, np.array(2), np.array(0.3, np.float32)).named("computed"), RUNTIME),
        (case("NonMaxSuppression", BOXES, SCORES, weight(np.int64(3)), center_point_box=1).named("centre"), RUNTIME),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
