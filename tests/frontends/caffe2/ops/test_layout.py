"""The rules of `frontends/caffe2/ops/layout.py`: operators and arguments that the backend does not write."""

from __future__ import annotations

import pytest

from tests.frontends.caffe2.ops.support import Foreign, check
from tests.support.cases import Case, case, f32, params

ROWS = params(
    [
        case("NCHW2NHWC", f32(1, 3, 4, 5)),
        case("NHWC2NCHW", f32(1, 4, 5, 3)),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_nets_of_others(row: Case, foreign: Foreign) -> None:
    check(row, foreign)
