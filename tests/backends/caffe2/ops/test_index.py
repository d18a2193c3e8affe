"""The rules of `backends/caffe2/ops/index.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import RUNTIME, Nets, Row, both, check, weight
from tests.support.cases import case, f32, i32, i64

HALF = f32(3, 4).astype(np.float16)
SEVEN = i64(7, 5)

ROWS = both(
    [
        case("Gather", f32(4, 3), i64(2, 2, low=-4, high=4)),
        case("Gather", f32(2, 4, 3), i64(2, 2, low=-4, high=4), axis=1),
        case("Gather", f32(2, 4, 3), weight(np.array(-1)), axis=-1).named("scalar"),
        case("Gather", i64(6), weight(i32(2, low=0)), axis=0).named("int32"),
        case("Slice", SEVEN, weight(1, 0), weight(4, 3)),
        case("Slice", SEVEN, weight(-3), weight(-1), weight(0)).named("negative"),
        case("Slice", f32(3, 7), weight(2), weight(np.iinfo(np.int64).max), weight(-1)).named("to the end"),
        case("Slice", f32(3, 7), weight(0), weight(99), weight(1)).named("beyond"),
        (case("Slice", f32(3, 7), weight(6), weight(0), weight(1), weight(-2)).named("backwards"), RUNTIME),
        (case("Slice", f32(3, 7), weight(-9), weight(-99), weight(0), weight(-1)).named("back from before"), RUNTIME),
        case("Slice", f32(3, 7), weight(1), weight(np.iinfo(np.int64).max), weight(1), weight(2)).named("step"),
        case("Slice", f32(3, 7), np.array([1]), np.array([2]), fixed=(0,)).named("computed"),
        case("Slice", f32(2, 3), weight(-3), weight(-1), weight(0)).named("from before the first"),
        case("Slice", f32(1, 3), weight(1), weight(-1), weight(0)).named("an end before the start"),
        case("Slice", f32(2, 3), weight(0), weight(-5), weight(0)).named("an end before the first"),
        case("Slice", f32(3, 3), weight(2), weight(1), weight(0)).named("bounds the wrong way round"),
        case("Slice", f32(3, 3), weight(-1), weight(2**63 - 1), weight(0)).named("the last"),
        case("Slice", f32(2, 5), np.array([-4]), np.array([-3]), weight(0)).named("computed before the first"),
        case("Slice", f32(3, 7, 4), np.array([-3, 0]), np.array([-1, 9]), weight(1, 2)).named("computed negative"),
        (case("GatherElements", f32(3, 4), i64(2, 4, low=-3, high=3)), RUNTIME),
        (case("GatherElements", f32(3, 4, 2), i64(3, 2, 2, low=0, high=4), axis=1), RUNTIME),
        case("Pad", f32(2, 3), weight(1, 2, 0, 1), weight(np.float32(0.5))),
        case("Pad", f32(2, 3, 4, 4), weight(0, 0, 1, 1, 0, 0, 1, 5)),
        case("Pad", i64(3, 4), weight(1, 3), weight(np.int64(7)), weight(-1)).named("axes"),
        case("Pad", f32(4, 5), weight(-1, 2, 0, -1)).named("negative"),
        case("Pad", f32(1, 5), weight(-1, 0, 1, 0)).named("of nothing"),
        case("Pad", f32(0, 3), weight(1, 2, 3, 0), weight(np.float32(0.5))).named("an empty axis"),
        case("Pad", HALF[:0], weight(2, 0, 0, 1)).named("an empty axis of float16"),
        case("Pad", f32(3, 4), weight(1, 2, 0, 3), mode="edge"),
        (case("Pad", f32(3, 4), weight(1, 2, 0, 3), mode="reflect"), RUNTIME),
        (case("Pad", f32(3, 4), weight(1, 2, 0, 3), mode="wrap"), RUNTIME),
        case("Pad", HALF, weight(1, 2, 0, 3)).named("float16"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
