"""The rules of `frontends/tensorflow/ops/ragged/tensors.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

INNER = np.array([0, 2, 2, 5, 6], np.int64)
"""Rows of 2, 0, 3 and 1 values, and of 1 and 3 of those rows."""
OUTER = np.array([0, 1, 4], np.int64)
"""Rows of 2, 0, 3 and 1 values, and of 1 and 3 of those rows."""
SIX = f32(6)
WORDS = np.array(["a", "b", "c", "d", "e", "ü"], object)

ROWS = [
    case(
        "RaggedRange",
        np.array([2, 5, 3, 8], np.int32),
        np.array([5, 5, 9, 2], np.int32),
        np.array([1, 1, 4, -2], np.int32),
    ),
    case("RaggedRange", 0, np.array([3, 0, 2], np.int32), 1).named("scalars"),
    case("RaggedRange", f32(3), f32(3, low=2, high=4), np.float32(0.4), Tsplits="int32").named("float"),
    case("RaggedGather", [INNER], SIX, np.array([2, 0, 1, 2], np.int32), OUTPUT_RAGGED_RANK=1),
    case("RaggedGather", [OUTER, INNER], f32(6, 2), np.array([1, 0, 1], np.int64), OUTPUT_RAGGED_RANK=2).named(
        "nested"
    ),
    case("RaggedGather", [INNER], SIX, np.array([[2, 0, 3], [1, 2, 2]], np.int32), OUTPUT_RAGGED_RANK=2).named(
        "matrix"
    ),
    case("RaggedTensorToSparse", [INNER], SIX),
    case("RaggedTensorToSparse", [OUTER, INNER], WORDS).named("nested"),
    case("RaggedTensorToSparse", [INNER], f32(6, 2)).named("matrix").xfail("values with dims of their own"),
    *(
        case("RaggedTensorToTensor", shape, SIX, np.float32(9), [INNER], row_partition_types=["ROW_SPLITS"]).named(
            f"{shape}"
        )
        for shape in (-1, [-1, -1], [4, 5], [3, 2], [-1, 2])
    ),
    case(
        "RaggedTensorToTensor",
        -1,
        f32(6, 2),
        np.float32(9),
        [OUTER, INNER],
        row_partition_types=["ROW_SPLITS", "ROW_SPLITS"],
    ).named("nested"),
    case("RaggedTensorToTensor", -1, WORDS, np.array("-", object), [INNER], row_partition_types=["ROW_SPLITS"]).named(
        "words"
    ),
    case(
        "RaggedTensorToTensor",
        -1,
        SIX,
        np.float32(9),
        [np.int64(4), np.array([0, 0, 2, 2, 2, 3], np.int64)],
        row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS"],
    ).named("row of each value"),
    case(
        "RaggedTensorToTensor",
        -1,
        SIX,
        np.float32(9),
        [np.int64(2), np.array([0, 1, 1, 1], np.int64), INNER],
        row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS"],
    ).named("rows of rows, and splits of these"),
    case("RaggedTensorToTensor", -1, SIX, np.float32(9), [INNER], row_partition_types=["ROW_LIMITS"])
    .named("limits")
    .xfail("rows that are given as limits"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
