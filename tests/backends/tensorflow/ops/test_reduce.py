"""The rules of `backends/tensorflow/ops/reduce.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const, ints, number
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, boolean, case, f32, i32, i64, params

ROWS = [
    *(
        case(name, f32(2, 3, 4, low=0.5), const([1]), keepdims=keep)
        for name in (
            "ReduceSum",
            "ReduceMean",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSum",
            "ReduceLogSumExp",
            "ReduceSumSquare",
        )
        for keep in (0, 1)
    ),
    case("ReduceSum", f32(2, 3, 4)),
    case("ReduceMean", f32(2, 3, 4), const([-1, 0])),
    case("ReduceSum", f32(2, 3, 4), ints(1, 2)),
    case("ReduceSum", f32(2, 3, 4), ints(), keepdims=0),
    case("ReduceSum", f32(2, 3), noop_with_empty_axes=1),
    case("ReduceSum", f32(2, 3), ints(), noop_with_empty_axes=1),
    case("ReduceSum", i64(2, 3), const([0])),
    case("ReduceMax", i64(2, 3).astype(np.uint8), const([0])),
    case("ReduceMax", boolean(2, 3), const([1])).named("bool"),
    case("ReduceMax", np.zeros((2, 0), np.int8), const([1])).named("of no bytes"),
    case("ReduceMin", np.zeros((2, 0), np.int16), const([1])).named("of no shorts"),
    case("ReduceMin", boolean(2, 3), const([1])).named("bool"),
    case("ReduceProd", i32(2, 3), const([0])),
    *(
        case(name, f32(3, 4, 5), axis=axis, keepdims=keep)
        for name in ("ArgMax", "ArgMin")
        for axis, keep in ((0, 1), (-1, 0))
    ),
    *(case(name, i32(3, 9, low=0, high=2), axis=1, select_last_index=1) for name in ("ArgMax", "ArgMin")),
    case("CumSum", f32(3, 4), const(1)),
    case("CumSum", f32(3, 4), number(0, np.int32), exclusive=1),
    case("CumSum", i64(3, 4), const([-1]), reverse=1),
    case("CumSum", i32(5), const(0), exclusive=1, reverse=1),
    case("CumProd", f32(3, 4), const(1)),
    # In float16 the sum of 4096 ones is 2048, and the square of 300 is infinite.
    *(
        case(name, np.ones((4096, 3), np.float16), const([0])).named("of many halves")
        for name in ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
    ),
    case("ReduceMean", np.full((2, 8192), 20, np.float16), const([1])).named("of halves whose sum is none"),
    case("ReduceL2", np.full((2, 3), 300, np.float16), const([1])).named("of halves whose squares are none"),
    case("CumSum", np.ones((3000, 2), np.float16), const(0)).named("of many halves"),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
