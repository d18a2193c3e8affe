"""The rules of `frontends/tensorflow/ops/sparse/places.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

AT = np.int64([[0, 1], [1, 3], [2, 0], [2, 2]])
SHUFFLED = AT[[2, 0, 3, 1]]
OTHER = np.int64([[0, 0], [1, 3], [2, 3]])
SHAPE = np.int64([3, 4])
CUBE = np.int64([[0, 0, 2], [0, 1, 0], [1, 1, 1], [1, 1, 2]])
SUMS = np.float32([1.0, -0.5, 2.0])

ROWS = [
    case("SparseReorder", SHUFFLED, f32(4), SHAPE),
    case("SparseReorder", CUBE[::-1].copy(), f32(4), np.int64([2, 2, 3])).named("three dims"),
    case("SparseReorder", AT[:0], f32(0), SHAPE).named("nothing"),
    case("SparseSlice", AT, f32(4), SHAPE, np.int64([1, 0]), np.int64([2, 3])),
    case("SparseSlice", AT, f32(4), SHAPE, np.int64([0, 2]), np.int64([9, 9])).named("beyond the end"),
    case("SparseSlice", AT, f32(4), SHAPE, np.int64([0, 0]), np.int64([1, 1])).named("nothing in it"),
    *(
        case("SparseConcat", [AT, OTHER, AT], [f32(4), f32(3), f32(4)], [SHAPE] * 3, concat_dim=d).named(f"along {d}")
        for d in (0, 1, -1)
    ),
    case("SparseAdd", AT, f32(4), SHAPE, OTHER, f32(3), SHAPE, np.float32(0)),
    case("SparseAdd", OTHER, SUMS, SHAPE, OTHER, np.float32([0.5, 0.5, -1.0]), SHAPE, np.float32(0.75)).named("small"),
    case("SparseSoftmax", AT, f32(4), SHAPE),
    case("SparseSoftmax", CUBE, f32(4), np.int64([2, 2, 3])).named("three dims"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
