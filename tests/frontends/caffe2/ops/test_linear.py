"""The rules of `frontends/caffe2/ops/linear.py`: operators and arguments that the backend does not write."""

from __future__ import annotations

import pytest

from tests.frontends.caffe2.ops.support import Foreign, check
from tests.support.cases import Case, case, f32, params

ROWS = params(
    [
        case("FC", f32(2, 3, 4), f32(5, 12), f32(5)),
        case("FC", f32(2, 3, 4), f32(5, 4), f32(5), axis=2).named("axis"),
        case("FCTransposed", f32(2, 12), f32(12, 5), f32(5)),
        case("MatMul", f32(2, 3, 4), f32(12, 5)),
        case("MatMul", f32(4, 3), f32(5, 4), trans_a=1, trans_b=1).named("transposed"),
        case("BatchMatMul", f32(2, 4, 3), f32(2, 5, 4), trans_a=1, trans_b=1),
        case("Softmax", f32(2, 3, 4)),
        case("Softmax", f32(2, 3, 4), axis=2).named("last"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_nets_of_others(row: Case, foreign: Foreign) -> None:
    check(row, foreign)
