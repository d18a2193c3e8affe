"""The rules of `frontends/tensorflow/ops/array.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

ROWS = [
    case("ConcatV2", [f32(2, 3), f32(2, 1)], 1),
    case("ConcatV2", [f32(2, 3), f32(2, 1)], np.int32(-1)).named("axis by data"),
    case("Concat", np.int32(1), [f32(2, 3, 2), f32(2, 1, 2)]).named("axis by data"),
    case("Split", np.int32(-2), f32(2, 6, 2), num_split=3).named("axis by data"),
    case("SplitV", f32(2, 6), np.array([1, -1, 2], np.int32), 1, num_split=3).named("sizes by data"),
    case("SplitV", f32(2, 6), np.array([4, 2], np.int32), np.int32(1), num_split=2).named("all by data"),
    case("ReverseV2", f32(2, 3, 4), np.array([0, -1], np.int32)).named("axes by data"),
    case("Roll", f32(3, 5), np.array([1, 8], np.int32), np.array([1, -2], np.int32)).named("all by data"),
    case("Concat", -1, [f32(2, 3), f32(2, 1)]),
    *(case("Pack", [f32(2, 3), f32(2, 3, low=0)], axis=axis) for axis in (0, -1)),
    case("Unpack", f32(2, 3), num=3, axis=1),
    case("Unpack", f32(1, 3), num=1).named("single"),
    case("Split", 1, f32(2, 6), num_split=3),
    case("Split", 1, f32(2, 6), num_split=1).named("single"),
    case("SplitV", f32(2, 6), [1, -1, 2], 1, num_split=3),
    case("ReverseV2", f32(2, 3, 4), [0, -1]),
    case("ReverseSequence", f32(2, 5, 3), np.array([2, 4], np.int32), seq_dim=1, batch_dim=0),
    case("ReverseSequence", f32(5, 3, 2), np.array([2, 4], np.int32), seq_dim=0, batch_dim=2).named("elsewhere"),
    case("Roll", f32(3, 5), [1, -2], [0, 1]),
    *(case("Roll", f32(3, 5), shift, axis).named(f"{shift}") for shift, axis in ((5, 0), (-4, 0), ([7, 3], [0, 1]))),
    case("InvertPermutation", np.array([2, 0, 1, 3], np.int32)),
    case("Roll", f32(3, 5), np.int32(-7), 1).named("by data"),
    case("Roll", f32(3, 5), np.array([1, 8], np.int32), [0, -1]).named("by data, two axes"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
