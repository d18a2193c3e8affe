"""The rules of `backends/caffe2/ops/logic.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import Nets, Row, both, check, weight
from tests.support.cases import boolean, case, f32, i64

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, 88.0, -88.0, np.inf, -np.inf, np.nan], np.float32)
HALF = f32(3, 4).astype(np.float16)

ROWS = both(
    [
        case("IsNaN", SPECIAL),
        case("IsInf", SPECIAL),
        case("IsInf", SPECIAL, detect_negative=0),
        case("Not", boolean(3, 4)),
        case("BitwiseNot", i64(3, 4)),
        case("BitwiseNot", i64(3, 4, low=0, high=200).astype(np.uint8)),
        *(case(name, f32(3, 4), f32(4)) for name in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")),
        *(case(name, i64(3, 4), i64(4)).named("int64") for name in ("Equal", "Greater", "LessOrEqual")),
        case("Equal", boolean(3, 4), boolean(4)).named("bool"),
        *(case(name, boolean(3, 4), boolean(4)) for name in ("And", "Or", "Xor")),
        *(case(name, i64(3, 4), i64(4)) for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
        case("BitwiseXor", i64(3, low=0, high=99).astype(np.uint8), i64(3, low=0, high=255).astype(np.uint8)),
        case("Where", boolean(3, 4), f32(3, 4), f32(3, 4)),
        case("Where", boolean(3, 1), f32(4), weight(np.float32(-np.inf))),
        case("Where", boolean(4), SPECIAL.reshape(3, 4), f32(1)).named("special"),
        case("Where", boolean(3, 1), i64(4), i64(2, 1, 1)).named("int64"),
        case("Where", boolean(3, 1), HALF, HALF[:1]).named("float16"),
        case("Where", boolean(3, 1), boolean(4), boolean(3, 4)).named("bool"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
