"""The rules of `frontends/tensorflow/ops/sparse/tensors.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, i64, params

TABLE = f32(6, 3)
PICKED = np.int32([4, 0, 5, 1])
SEGMENTS = np.int32([0, 0, 2, 2])
INDICES = np.int64([[0, 1], [1, 3], [2, 0]])

ROWS = [
    case("SparseSegmentSum", TABLE, PICKED, SEGMENTS),
    case("SparseSegmentMean", TABLE, PICKED, SEGMENTS),
    case("SparseSegmentSqrtN", TABLE, PICKED, SEGMENTS),
    case("SparseSegmentSum", TABLE, PICKED, SEGMENTS, sparse_gradient=True).named("of a sparse gradient"),
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
    *(
        case(name, INDICES, f32(3), np.int64([3, 4]), f32(*dims, low=0.5)).named(f"{name} {dims}")
        for name in ("SparseDenseCwiseMul", "SparseDenseCwiseDiv", "SparseDenseCwiseAdd")
        for dims in ((3, 4), (4,), (3, 1))
    ),
    case("SparseTensorDenseAdd", INDICES, f32(3), np.int64([3, 4]), f32(3, 4)),
    case("SparseReduceSum", INDICES, f32(3), np.int64([3, 4]), [1]),
    case("SparseReduceSum", INDICES, f32(3), np.int64([3, 4]), [0], keep_dims=True),
    case("SparseReshape", INDICES, np.int64([3, 4]), np.int64([2, 6])),
    case("SparseReshape", INDICES, np.int64([3, 4]), np.int64([2, -1, 3])),
    case("HistogramFixedWidth", f32(20), np.float32([-1.5, 1.0]), 5),
    case("HistogramFixedWidth", i64(4, 5).astype(np.float32), np.float32([-4.0, 4.0]), 3, dtype="int64"),
    case("HistogramFixedWidth", np.float32(np.arange(10) / 10), np.float32([0, 1]), 10).named("at the ends of bins"),
    case("HistogramFixedWidth", f32(20).astype(np.float64), np.array([-1.5, 1.0]), 5).named("float64"),
    case("HistogramFixedWidth", np.int32([1, 5, 9, 9, 3, -4, 12]), np.int32([0, 10]), 4).named("int32"),
    case("HistogramFixedWidth", np.int64([1, 5, 9, 9, 3, -4, 1 << 40]), np.int64([0, 10]), 4).named("int64"),
    *(
        case("UnravelIndex", np.array(places, kind), np.array(dims, kind)).named(f"{places} {np.dtype(kind).name}")
        for places, dims in (([1, 7, 11], [3, 4]), (5, [2, 3, 2]))
        for kind in (np.int32, np.int64)
    ),
    case("SparseSegmentSqrtNWithNumSegments", f32(6, 3), np.int32([4, 0, 5, 1]), np.int32([0, 0, 2, 2]), np.int32(4)),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
