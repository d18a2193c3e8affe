"""The rules of `frontends/tensorflow/ops/segment.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, i32, i64, params

IDS = np.array([0, 0, 2, 3, 3], np.int32)
MIXED = np.array([3, -1, 0, 3, 1], np.int32)
EMPTY = np.zeros(0, np.float32)

ROWS = [
    *(case(f"Segment{kind}", f32(5, 3), IDS) for kind in ("Sum", "Prod", "Max", "Min", "Mean")),
    *(case(f"UnsortedSegment{kind}", f32(5, 3), MIXED, 5) for kind in ("Sum", "Prod", "Max", "Min")),
    case("UnsortedSegmentSum", i32(2, 3, 2), np.array([[0, 2, -1], [2, 2, 1]], np.int32), 4).named("rank 2"),
    case("SegmentMax", i32(5, 2), IDS).named("int32"),
    case("Bincount", np.array([1, 3, 3, 9], np.int32), 5, f32(4)),
    case("Bincount", np.array([1, 3, 3, 9], np.int32), 5, EMPTY).named("unweighted"),
    case("DenseBincount", i32(2, 6, low=0, high=5), 4, f32(2, 6), binary_output=False),
    *(
        case("RaggedBincount", np.int64([0, 2, 2, 5]), np.int32([3, 1, 0, 9, 3]), 4, w, binary_output=b).named(
            f"{len(w)} weights{', binary' if b else ''}"
        )
        for w in (f32(5), EMPTY)
        for b in (False, True)
    ),
    case("DenseBincount", i64(2, 6, low=0, high=5), np.int64(4), EMPTY, binary_output=True).named("binary"),
    case("DenseBincount", i32(2, 6, low=0, high=5), 4, f32(2, 6), binary_output=True).named("binary with weights"),
    case("DenseBincount", np.zeros((2, 0), np.int64), np.int64(4), EMPTY, binary_output=True).named("binary, nothing"),
    case("DenseBincount", i32(2, 6, low=0, high=5), 4, np.full((2, 6), np.nan, np.float32)).named("of NaN"),
    *(
        case(name, np.full(3, value, np.float32), np.array([0, 0, 2], np.int32)).named(f"of {value}")
        for name, value in (("SegmentMax", -np.inf), ("SegmentMin", np.inf))
    ),
    *(
        case(name, np.zeros((0, 2), np.float32), np.zeros(0, np.int32)).named("no rows")
        for name in ("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin")
    ),
    *(
        case(name, f32(3, 2), np.zeros(0, np.int32), np.zeros(0, np.int32)).named("no rows")
        for name in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
    ),
    *(case(name, np.array([5, 1, 5, 2, 1, 7], np.int32)) for name in ("Unique", "UniqueWithCounts")),
    case("UniqueV2", np.array([5, 1, 5, 2, 1, 7], np.float32), [0], out_idx="int64"),
    case("UniqueWithCountsV2", np.array([5, 1, 5, 2, 1, 7], np.float32), [0], out_idx="int64"),
    case("ListDiff", np.array([5, 1, 5, 2, 1, 7], np.int32), np.array([1, 7], np.int32)),
    case("DynamicPartition", f32(5, 2), np.array([1, 0, 2, 1, 0], np.int32), num_partitions=3),
    case("DynamicPartition", f32(2, 3), np.array([[1, 0, 2], [1, 0, 1]], np.int32), num_partitions=3).named("rank 2"),
    *(
        case(name, [np.array([0, 3], np.int32), np.array([[1, 2], [3, 4]], np.int32)], [f32(2, 3), f32(2, 2, 3)])
        for name in ("DynamicStitch", "ParallelDynamicStitch")
    ),
    case("Bucketize", f32(2, 5), boundaries=[-1.0, 0.0, 0.5]),
    case("Bucketize", np.float32([np.nan, -np.inf, 0, np.inf]), boundaries=[-1.0, 0.0]).named("NaN"),
    *(
        case(name, np.float32([[1, 2, 2]]), np.float32([[np.nan, 2, 3]])).named("NaN")
        for name in ("LowerBound", "UpperBound")
    ),
    *(
        case(name, np.array([[0, 1, 1, 4]], np.float32), np.array([[1, -1, 5]], np.float32))
        for name in ("LowerBound", "UpperBound")
    ),
    case("SparseToDense", [[0, 1], [2, 0]], [3, 2], f32(2), np.float32(-1)),
    case("SparseToDense", [1, 3], [5], np.float32(2), np.float32(0)).named("scalar"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
