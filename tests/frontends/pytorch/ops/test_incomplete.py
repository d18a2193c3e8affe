"""The rules of `frontends/pytorch/ops/incomplete.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, params

WIDE = np.linspace(-12, 12, 49, dtype=np.float32)
ABOVE = np.linspace(0.05, 12, 24, dtype=np.float32)
LARGE = np.array([1.01e8, 1e9, 1e10, 1e15])
NEAR = np.array([0.5, 0.98, 1 - 3e-5, 1 - 1e-8, 1, 1 + 1e-8, 1 + 3e-5, 1.02, 2])
ENDS = np.array([0, 1, -1, 9, -9, 200, np.inf, -np.inf, np.nan], np.float32)
ORDERS = np.array([0, 0.01, 1, 300, np.inf, np.nan], np.float32)

ROWS = [
    *(case(name, WIDE) for name in ("special_erfcx", "special_log_ndtr")),
    *(case(name, ENDS).named("ends") for name in ("special_erfcx", "special_log_ndtr")),
    *(
        case(name, np.repeat(ABOVE, 24), np.tile(4 * ABOVE, 24))
        for name in ("igamma", "igammac", "special_gammainc", "special_gammaincc")
    ),
    *(case(name, ORDERS[:, None], ENDS).named("ends") for name in ("igamma", "igammac")),
    *(case(name, LARGE[:, None], LARGE[:, None] * NEAR).named("large") for name in ("igamma", "igammac")),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
