"""The rules of `frontends/tensorflow/ops/assign.py` against TensorFlow."""

from __future__ import annotations

import pytest

from tests.frontends.tensorflow.ops.tf_support import check
from tests.support.cases import Case, case, f32, params

ROWS = [
    case("TensorStridedSliceUpdate", f32(3, 4), [0, 1], [2, 4], [1, 2], f32(2, 2)),
    case("TensorStridedSliceUpdate", f32(3, 4), [1, 0], [2, 0], [1, 1], f32(4), end_mask=2, shrink_axis_mask=1).named(
        "row"
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)
