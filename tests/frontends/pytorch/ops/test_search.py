"""The rules of `frontends/pytorch/ops/search.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, i64, params

ROWS = [
    case("bucketize", f32(2, 3), np.array([-1.0, 0.0, 1.0], np.float32)),
    case("bucketize", i64(3), np.array([-1, 0, 1]), right=True, out_int32=True).named("right"),
    case("searchsorted", np.sort(f32(2, 5)), f32(2, 3)),
    case("searchsorted", np.sort(f32(5)), f32(2, 3), right=True).named("one"),
    *(
        case("searchsorted", f32(2, 5), f32(2, 3), right=right).named(f"not in order {right}")
        for right in (False, True)
    ),
    case("searchsorted", f32(0), f32(2, 3)).named("nothing"),
    case("isin", i64(2, 3), np.array([0, 1])),
    case("isin", i64(2, 3), np.zeros(0, np.int64)).named("nothing"),
    case("isin", i64(2, 3), np.array([0, 1]), invert=True).named("not"),
    *(case("histc", f32(20), 5, *ends).named(f"{ends}") for ends in ((), (-1, 1), (0, 0))),
    case("histogram", f32(20), 4),
    case("histogram", f32(20), 4, range=[-1.0, 1.0]).named("range"),
    case("histogram", f32(20), np.array([-2.0, -0.5, 0.25, 2.0], np.float32), weight=f32(20), density=True).named(
        "edges"
    ),
    case("histogram", f32(0), 3).named("nothing"),
    case("bincount", np.array([3, 1, 3, 0])),
    case("bincount", np.array([3, 1, 3, 0]), f32(4), 6).named("weights"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
