"""The rules of `backends/keras/ops/arithmetic.py` against onnxruntime: the shared rows of its operators, and more."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.backends.tensorflow.ops.onnx_cases import const
from tests.support.cases import Case, case, f32, i32, params

NEAR = np.array([0.1, 0.1 + 1e-10, 0.1 - 1e-10, 0.3])
BYTES, WORDS = np.array([0, 1, 7, 250], np.uint8), np.array([3000000001, 4294967295, 31, 0], np.uint32)
COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")

ROWS = [
    *shared_rows(__name__),
    case("Add", f32(2, 3, 5), const(f32(3, 5))).named("parameter"),
    case("Add", f32(1, 1), const(f32(1, 1))).named("numbers"),
    *(
        case(name, i32(4, 1), i32(3, 1, 5)).named("of both shapes")
        for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
    ),
    # A file stores scalars as numbers without a dtype.
    *(case(operator, NEAR, const(np.array(0.1))).named("scalar of float64") for operator in COMPARISONS),
    case("Mod", NEAR * 7, const(np.array(0.1)), fmod=1).named("scalar of float64"),
    case("Mod", f32(4).astype(np.float16), const(np.array(1.5, np.float16)), fmod=1).named("scalar of float16"),
    case("Mod", BYTES, const(np.array(100, np.uint8))).named("scalar of bytes"),
    case("Mod", WORDS.astype(np.int8), const(np.array(3, np.int8))).named("scalar of int8"),
    case("Mod", WORDS, const(np.array([7, 1000, 4000000000, 5], np.uint32)), fmod=1).named("fmod of uint32"),
    case("BitShift", const(np.array(200, np.uint8)), BYTES, direction="LEFT").named("scalar of bytes"),
    case("BitShift", const(np.array(1, np.uint32)), WORDS, direction="LEFT").named("scalar of uint32"),
    case("BitShift", const(np.array(3000000000, np.uint32)), WORDS, direction="RIGHT").named("large scalar of uint32"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)
