"""The rules of `frontends/tensorflow/ops/bits.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, i32, i64, params

EDGES = np.array(
    [0, -0.0, 1, -1, 1e-45, -1e-45, 1.1754944e-38, 3e38, -3.4028235e38, np.inf, -np.inf, np.nan], np.float32
)
NUMBERS = np.concatenate([EDGES, (f32(20) * np.exp2(np.arange(-140, 120, 13))).astype(np.float32)])
_RATIO = np.exp2(np.arange(-1070, 1020, 97, dtype=np.float64))
WIDE = np.concatenate(
    [[0, -0.0, 1.5, -2, 5e-324, -1e-310, np.finfo(float).tiny, np.finfo(float).max, np.inf, -np.inf], 1.1 * _RATIO]
)
SIGNED = np.array([-9, -8, -1, 0, 7, 1 << 30], np.int32)
BY = np.array([1, 3, 2, 5, 1, 3], np.int32)
# Shifts by the width, by more, or by a negative number.
FAR = np.array([7, 8, 32, 65, -3])

ROWS = [
    *(
        case(name, np.array([3, 200, 7], np.uint8), np.array([1, 2, 3], np.uint8))
        for name in ["LeftShift", "RightShift"]
    ),
    case("NextAfter", np.repeat(NUMBERS, 3), np.tile(np.array([np.inf, -np.inf, 1], np.float32), len(NUMBERS))),
    case("NextAfter", np.array([1, -1e-310, 0, 5], np.float64), np.array([2, 1, -1, 5], np.float64)).named("float64"),
    case("Bitcast", NUMBERS[np.isfinite(NUMBERS)], type="int32"),
    case("Bitcast", NUMBERS[~np.isnan(NUMBERS)], type="uint8").named("bytes"),
    case("Bitcast", NUMBERS.view(np.int32), type="float32").named("back"),
    case("Bitcast", NUMBERS.view(np.uint8).reshape(-1, 4), type="float32").named("of bytes"),
    case("Bitcast", f32(3, 4).astype(np.float16), type="int16").named("float16"),
    case("Bitcast", i32(3, 4, low=-9, high=9), type="uint32").named("unsigned"),
    case("Bitcast", i64(3, low=-9, high=9) * 3**37, type="int32").named("halves"),
    case("Bitcast", i32(3, 2, low=-9, high=9), type="int64").named("pairs"),
    case("Bitcast", WIDE, type="int64").named("float64"),
    case("Bitcast", WIDE.view(np.int64), type="float64").named("float64 back"),
    case("Bitcast", WIDE.view(np.uint32).reshape(-1, 2), type="float64").named("float64 of pairs"),
    *(
        case("PopulationCount", np.resize([-5, 7, 1, -1, 0, 97, -128], 21).astype(dtype)).named(dtype)
        for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    ),
    case("PopulationCount", np.array([[2**63 - 1, -(2**63)], [-(2**40), 3**35]])).named("large"),
    case("LeftShift", SIGNED, BY),
    case("RightShift", SIGNED, BY),
    *(
        case(name, np.resize([-5, 7, 1, -1], 20).astype(dtype), np.repeat(FAR, 4).astype(dtype)).named(dtype)
        for name in ("LeftShift", "RightShift")
        for dtype in ("int8", "uint8", "int32", "uint32", "int64", "uint64")  # onnxruntime has none of 16 bits
    ),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
