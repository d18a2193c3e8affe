"""The rules of `frontends/tensorflow/ops/linalg.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

BYTES = np.random.default_rng(0).integers(-128, 128, (5, 9)).astype(np.int8)

ROWS = [
    case("MatMul", f32(2, 3), f32(3, 4)),
    case("MatMul", f32(3, 2), f32(4, 3), transpose_a=True, transpose_b=True).named("transposed"),
    case("BatchMatMul", f32(2, 2, 3), f32(2, 3, 4)),
    *(
        case(name, f32(2, 1, 3, 2), f32(4, 5, 3), adj_x=True, adj_y=True, **more)
        for name, more in (("BatchMatMulV2", {}), ("BatchMatMulV3", {"Tout": "float32"}))
    ),
    case("MatrixDeterminant", f32(2, 3, 3)),
    case("Cross", f32(2, 3), f32(2, 3, low=0)),
    case("LogMatrixDeterminant", f32(2, 3, 3)),
    case("LogMatrixDeterminant", f32(64, 64)).named("beyond float32"),
    case("LogMatrixDeterminant", (0.1 * np.eye(50)).astype(np.float32)).named("below float32"),
    case("LogMatrixDeterminant", np.zeros((2, 0, 0), np.float32)).named("of nothing"),
    case("LogMatrixDeterminant", (f32(80, 80) * 9 + 50 * np.eye(80)).astype(np.float32)).named("of many rows"),
    case("MatrixDeterminant", np.float64([[[1, 2], [3, 5]], [[0.5, 0.25], [2, 1]]])).named("float64"),
    case("BatchMatMulV3", BYTES, BYTES, Tout="int32", adj_x=False, adj_y=True).named("signed bytes"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
