"""The rules of `frontends/pytorch/ops/pixels.py` against PyTorch."""

from __future__ import annotations

import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, params

ROWS = [
    case("pixel_shuffle", f32(2, 8, 3, 4), 2),
    case("pixel_shuffle", f32(8, 3, 4), 2).named("single"),
    case("pixel_shuffle", f32(2, 2, 4, 3, 2), 2).named("deep"),
    case("pixel_unshuffle", f32(2, 3, 4, 6), 2),
    case("pixel_unshuffle", f32(2, 1, 4, 6), 2).named("one channel"),
    case("channel_shuffle", f32(2, 6, 3, 3), 2),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
