"""The rules of `frontends/caffe2/ops/index.py`: operators and arguments that the backend does not write."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.caffe2.ops.support import Foreign, check
from tests.support.cases import Case, case, f32, i64, params

ROWS = params(
    [
        case("Slice", f32(4, 5), starts=[0, 1], ends=[-1, -2]),
        case("Slice", f32(4, 5), starts=[1], ends=[3]).named("fewer axes"),
        case("Gather", f32(4, 5), i64(3, low=0, high=4)),
        case("BatchGather", f32(2, 5), i64(3, low=0, high=4)),
        case("BooleanMask", f32(4, 2), np.array([True, False, True, True])),
        case(
            "BatchOneHot",
            np.array([[0, 5], [2, 6]], np.int64),
            np.array([3, 2], np.int32),
            np.array([0, 1, 2, 5, 6]),
            weights=[1, 2],
        ),
        case("Bucketize", np.array([-1, 0, 0.5, 3], np.float32), boundaries=[-1.0, 0.0, 1.0]),
        case("Unique", np.array([3, 1, 3, 2], np.int64), outputs=2),
        case("ReversePackedSegs", f32(4, 2, 3), np.array([3, 4], np.int32)),
        case("OneHot", i64(4, low=0, high=3), np.array([3], np.int64)),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_nets_of_others(row: Case, foreign: Foreign) -> None:
    check(row, foreign)
