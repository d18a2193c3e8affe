"""The rules of `frontends/pytorch/ops/cumulative.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, i32, i64, params

MISSING = np.array([[1, np.nan, 3, 2], [np.nan, np.nan, np.nan, np.nan], [4, 3, 2, 1]], np.float32)

ROWS = [
    case("cumsum", f32(2, 3), 1),
    case("cumsum", i32(2, 3), -1).named("int"),
    case("diff", f32(3, 5)),
    case("diff", i64(4, 3), 1, 0).named("int"),
    case("diff", i64(4, 6), 3).named("several times"),
    case("diff", f32(2, 4), 0).named("no times"),
    case("diff", f32(2, 2), 3).named("more often than elements"),
    case("diff", f32(3, 5) > 0, 2).named("bool"),
    case("diff", i64(3, 5), 1, -1, i64(3, 1), i64(3, 2)).named("with ends"),
    case("diff", np.array([[3, 250], [7, 1]], np.uint8)).named("bytes"),
    *(case(name, f32(3, 5), 1) for name in ("cumprod", "cummax", "cummin", "logcumsumexp")),
    *(case(name, MISSING, 1).named("nan") for name in ("cummax", "cummin")),
    *(case(name, i64(7), 0).named("int") for name in ("cumprod", "cummax", "cummin")),
    *(case(name, np.array(2.0, np.float32), 0).named("0-d") for name in ("cumprod", "cummax", "logcumsumexp")),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
