"""The rules of `frontends/pytorch/ops/sort.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_other_sizes, check_unknown_sizes
from tests.support.cases import Case, case, f32, i64, params

MISSING = np.array([[1, np.nan, 3, 2], [np.nan, np.nan, np.nan, np.nan], [4, 3, 2, 1]], np.float32)
SMALL = np.array([[1, 2, 2, 3, 1], [0, 0, 4, 4, 4]])

ROWS = [
    case("topk", f32(3, 5), 2),
    case("topk", f32(3, 5), 2, 0, False).named("smallest"),
    case("sort", f32(3, 5)),
    case("sort", f32(3, 5), 0, True).named("down"),
    case("sort.stable", i64(8), stable=True),
    case("argsort", f32(3, 5), 1),
    case("argsort.stable", i64(8), stable=True),
    case("msort", f32(3, 2)),
    case("median.dim", MISSING, 1).named("nan"),
    case("nanmedian.dim", MISSING[::2], 1).named("nan"),
    *(case(name, f32(3, 5)) for name in ("median", "nanmedian", "mode")),
    *(case(name, f32(3, 5), 1, True).named("keep") for name in ("median.dim", "nanmedian.dim", "mode")),
    case("mode", SMALL, 1).named("int"),
    *(case("kthvalue", f32(3, 5), k, 1) for k in (1, 3)),
    case("kthvalue", f32(3, 5), 2, 0, True).named("keep"),
    case("_unique2", SMALL, True, True, True),
    case("unique_dim", SMALL, 1, True, True, True),
    case("unique_consecutive", SMALL, True, True),
    case("unique_consecutive", SMALL, True, True, 1).named("dim"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


MIDDLE = ("median.dim", "nanmedian.dim", "median", "nanmedian", "kthvalue", "mode", "sort")


@pytest.mark.parametrize("row", params(row for row in ROWS if row.operator in MIDDLE))
def test_rule_agrees_at_other_sizes_than_the_example(row: Case) -> None:
    check_other_sizes(row)
