"""The rules of `frontends/caffe2/ops/reduce.py`: operators and arguments that the backend does not write."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.caffe2.ops.support import Foreign, check
from tests.support.cases import Case, case, f32, params

ROWS = params(
    [
        case("Range", np.array([2], np.int32), np.array([7], np.int32)),
        case("Range", np.array([5], np.int32)).named("stop"),
        *(
            case("Range", *(np.array([n], np.float32) for n in ends)).named("to ".join(f"{n} " for n in ends).strip())
            for ends in ((0.0, 0.3, 0.1), (1.0, -0.2, -0.4), (-0.31, 0.29, 0.2), (3.0, 1.0, 0.25))
        ),
        case("Range", np.array([2.5], np.float32)).named("stop of floats"),
        case("ReduceSum", f32(2, 3, 4), axes=[1]),
        case("ReduceMean", f32(2, 3, 4), axes=[0, 2], keepdims=0),
        case("ReduceL2", f32(2, 3), axes=[1]),
        case("ReduceL1", f32(2, 3), axes=[1]),
        case("ArgMax", f32(2, 3)),
        case("ArgMin", f32(2, 3), axis=0, keepdims=0),
        case("TopK", f32(2, 5), k=2, outputs=2),
        case("SumElements", f32(2, 3)),
        case("SumElements", f32(2, 3), average=1).named("average"),
        case("SumSqrElements", f32(2, 3)),
        *(
            case(f"Reduce{end}{kind}", f32(2, 3, 4), **more)
            for end in ("Front", "Back")
            for kind in ("Sum", "Mean", "Max")
            for more in ({}, {"num_reduce_dim": 2})
        ),
        *(case(name, f32(2, 3, 4)) for name in ("RowwiseMax", "ColwiseMax", "ReduceTailSum")),
        *(
            case(name, f32(3, 4), f32(3, 4, low=0.0))
            for name in ("DotProduct", "SquaredL2Distance", "L1Distance", "CosineSimilarity")
        ),
        case("CosineSimilarity", np.zeros((2, 3), np.float32), f32(2, 3)).named("zeros"),
        case("DotProduct", f32(4), f32(4)).named("numbers"),
        case("L1Distance", f32(2, 3, 4), f32(2, 3, 4, low=0.0)).named("matrices"),
        case("Moments", f32(2, 3), axes=[1], outputs=2),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_nets_of_others(row: Case, foreign: Foreign) -> None:
    check(row, foreign)
