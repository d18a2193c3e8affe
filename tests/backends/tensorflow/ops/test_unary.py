"""The rules of `backends/tensorflow/ops/unary.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import HALVES, SPECIAL, f16
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, boolean, case, f32, f64, i32, i64, params

ROWS = [
    *(
        case(name, f32(2, 3, 4))
        for name in (
            "Abs",
            "Atan",
            "Asinh",
            "Ceil",
            "Cos",
            "Cosh",
            "Erf",
            "Exp",
            "Floor",
            "Identity",
            "Neg",
            "Sigmoid",
            "Sign",
            "Sin",
            "Sinh",
            "Softsign",
            "Tan",
            "Tanh",
        )
    ),
    *(case(name, f32(2, 3, low=-0.9, high=0.9)) for name in ("Acos", "Asin", "Atanh")),
    *(case(name, f32(2, 3, low=1.1, high=3)) for name in ("Acosh", "Log", "Reciprocal", "Sqrt")),
    case("Round", HALVES),
    case("Abs", i64(7)),
    case("Abs", i64(7, low=0).astype(np.uint8)),
    case("Sign", i32(7)),
    case("Sign", i64(7)),
    case("Neg", i64(7)),
    case("Sign", i64(7).astype(np.int8)),
    case("Sign", i64(7, low=0).astype(np.uint8)),
    *(case("Sign", np.array([0, 1, 2**31 + 7], dtype)) for dtype in (np.uint32, np.uint64)),
    case("Sign", np.array([0, 1, 2**64 - 1], np.uint64)).named("beyond int64"),
    case("Sigmoid", f16(5)),
    case("Exp", f64(5)),
    case("IsNaN", SPECIAL),
    case("IsInf", SPECIAL),
    case("IsInf", SPECIAL, detect_negative=0),
    case("IsInf", SPECIAL, detect_positive=0),
    case("IsInf", SPECIAL, detect_positive=0, detect_negative=0),
    case("Not", boolean(2, 3)),
    case("BitwiseNot", i32(5)),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
