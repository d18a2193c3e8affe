"""The rules of `frontends/tensorflow/ops/sparse.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import check, with_batch
from tests.support.cases import Case, case, f32, i64, params

TABLE = f32(6, 3)
PICKED = np.int32([4, 0, 5, 1])
SEGMENTS = np.int32([0, 0, 2, 2])
INDICES = np.int64([[0, 1], [1, 3], [2, 0]])

ROWS = [
    case("SparseSegmentSum", TABLE, PICKED, SEGMENTS),
    case("SparseSegmentMean", TABLE, PICKED, SEGMENTS),
    case("SparseSegmentSqrtN", TABLE, PICKED, SEGMENTS),
    case("SparseSegmentSumWithNumSegments", TABLE, PICKED, SEGMENTS, np.int32(4)),
    case("SparseSegmentMeanWithNumSegments", TABLE, PICKED, SEGMENTS, np.int32(4)),
    case("SparseTensorDenseMatMul", INDICES, f32(3), np.int64([3, 4]), f32(4, 2)),
    case("SparseTensorDenseMatMul", INDICES, f32(3), np.int64([3, 4]), f32(2, 3), adjoint_a=True, adjoint_b=True),
    case(
        "SparseTensorDenseMatMul",
        np.int64([[0, 1], [0, 1], [2, 0]]),
        f32(3),
        np.int64([3, 4]),
        np.float32([[1, 2], [3, np.inf], [np.nan, 4], [5, 6]]),
    ).named("a place twice, NaN where nothing is"),
    case("SparseReduceSum", INDICES, f32(3), np.int64([3, 4]), [1]),
    case("SparseReduceSum", INDICES, f32(3), np.int64([3, 4]), [0], keep_dims=True),
    case("SparseReshape", INDICES, np.int64([3, 4]), np.int64([2, 6])),
    case("SparseReshape", INDICES, np.int64([3, 4]), np.int64([2, -1, 3])),
    case("HistogramFixedWidth", f32(20), np.float32([-1.5, 1.0]), 5),
    case("HistogramFixedWidth", i64(4, 5).astype(np.float32), np.float32([-4.0, 4.0]), 3, dtype="int64"),
    case("SparseSegmentSqrtNWithNumSegments", f32(6, 3), np.int32([4, 0, 5, 1]), np.int32([0, 0, 2, 2]), np.int32(4)),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
