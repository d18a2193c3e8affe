"""The rules of `backends/caffe2/ops/reduce.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import pytest

from tests.support.caffe2_support import RUNTIME, Nets, Row, both, check, weight
from tests.support.cases import case, f32, f64, i64

AXES = weight(1)

ROWS = both(
    [
        *(
            case(name, f32(2, 3, 4, low=0.1), AXES, keepdims=0)
            for name in (
                "ReduceSum",
                "ReduceMax",
                "ReduceMin",
                "ReduceMean",
                "ReduceL1",
                "ReduceL2",
                "ReduceSumSquare",
                "ReduceLogSum",
                "ReduceLogSumExp",
            )
        ),
        *(
            case(name, f32(2, 3, 4, 5), weight(-1, -2)).named("keep")
            for name in ("ReduceSum", "ReduceMean", "ReduceMax")
        ),
        *(case(name, f32(2, 3, 4)).named("all") for name in ("ReduceSum", "ReduceMean", "ReduceLogSumExp")),
        case("ReduceSum", f32(2, 3), keepdims=0).named("scalar"),
        case("ReduceSum", i64(2, 3, 4), AXES).named("int64"),
        case("ReduceMin", f64(2, 3, 4), AXES).named("float64"),
        case("ReduceSumSquare", f32(2, 3), noop_with_empty_axes=1).named("noop"),
        case("ReduceSum", f32(2, 3), i64(1, low=1, high=2)).xfail("the axes are computed"),
        *(case(name, f32(2, 3, 4), axis=1, keepdims=0) for name in ("ArgMax", "ArgMin")),
        *(case(name, f32(2, 3, 4), axis=-1) for name in ("ArgMax", "ArgMin")),
        (case("ArgMax", i64(3, 9), axis=1, select_last_index=1).named("last"), RUNTIME),
        (case("ReduceProd", f32(3, 7, 2), weight(1)), RUNTIME),
        (case("ReduceProd", i64(3, 5), keepdims=0), RUNTIME),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
