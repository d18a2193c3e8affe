"""The rules of `backends/caffe2/ops/pattern.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from tests.support.caffe2_support import RUNTIME, Nets, Row, both, check, weight
from tests.support.cases import case, f32, f64, i32, i64

ROWS = both(
    [
        case("Trilu", f32(2, 4, 5)),
        case("Trilu", i64(4, 5), weight(np.int64(-1)), upper=0),
        *(
            case("Trilu", f32(4, 5), weight(np.int64(k)), upper=u).named(f"{k} {u}")
            for k in (-(2**63), 2**63 - 1)
            for u in (0, 1)
        ),
        case("EyeLike", i64(4, 5), k=1, dtype=ir.DataType.FLOAT),
        case("OneHot", i64(2, 3, low=-4, high=4), weight(np.int64(4)), weight(np.array([0.5, 2], np.float32))),
        case("OneHot", i64(2, 3, low=-4, high=4), weight(np.int64(4)), weight(0, 1), axis=1),
        case("Hardmax", f32(2, 3, 4), axis=1),
        (case("CumSum", f32(2, 3, 4), weight(np.int64(1))), RUNTIME),
        (case("CumSum", f32(2, 5), weight(np.int64(-1)), exclusive=1, reverse=1), RUNTIME),
        case("TopK", f32(3, 7), weight(3), outputs=2),
        case("TopK", f32(3, 7, 2), weight(2), axis=1, largest=0, outputs=2),
        (case("CumSum", f64(3, 5), weight(np.int64(1)), exclusive=1).named("float64"), RUNTIME),
        (case("CumSum", i32(3, 5), weight(np.int64(0)), reverse=1).named("int32"), RUNTIME),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
