"""The rules of `frontends/caffe2/ops/norm.py`: operators and arguments that the backend does not write."""

from __future__ import annotations

import pytest

from tests.frontends.caffe2.ops.support import Foreign, check
from tests.support.cases import Case, case, f32, params

ROWS = params(
    [
        case("SpatialBN", f32(2, 5, 5, 3), f32(3), f32(3), f32(3), f32(3, low=0.5), is_test=1, order="NHWC"),
        case("InstanceNorm", f32(2, 3, 5, 5), f32(3), f32(3)),
        case("GroupNorm", f32(2, 4, 5, 5), f32(4), f32(4), group=2, is_test=1),
        case("LayerNorm", f32(2, 3, 4), outputs=3),
        case("Normalize", f32(2, 3)),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_nets_of_others(row: Case, foreign: Foreign) -> None:
    check(row, foreign)
