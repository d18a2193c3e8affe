"""The rules of `frontends/pytorch/ops/integers.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, i32, params

NUMBERS = np.array([0, 1, -4, 6, 9, -12, 30])

ROWS = [
    *(case(name, NUMBERS[:, None], NUMBERS) for name in ("gcd", "lcm")),
    case("gcd", i32(9, low=-90, high=90), i32(9, low=0, high=90)).named("int32"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
