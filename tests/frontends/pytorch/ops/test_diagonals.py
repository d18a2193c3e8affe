"""The rules of `frontends/pytorch/ops/diagonals.py` against PyTorch."""

from __future__ import annotations

import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, params

ROWS = [
    case("diagonal", f32(3, 4)),
    case("diagonal", f32(2, 3, 4), 1, -2, -1).named("above"),
    case("diagonal", f32(4, 3), -2).named("below"),
    case("diagonal_copy", f32(3, 3)),
    case("linalg_diagonal", f32(2, 3, 3), offset=1),
    case("diag_embed", f32(2, 3)),
    case("diag_embed", f32(2, 3), 1).named("above"),
    case("diag_embed", f32(2, 3), -1, 0, 2).named("below"),
    case("diag", f32(3)),
    case("diag", f32(3, 4), 1).named("read"),
    case("unfold", f32(2, 7), 1, 3, 2),
    case("unfold_copy", f32(5), 0, 2, 1),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
