"""The rules of `frontends/pytorch/ops/index.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, boolean, case, f32, i64, params

SCALAR = np.array(1.5, dtype=np.float32)
SMALL = np.array([[1, 2, 2, 3, 1], [0, 0, 4, 4, 4]])

ROWS = [
    case("index_select", f32(3, 4), 1, np.array([2, 0])),
    case("gather", f32(3, 4), 1, np.array([[0, 3], [1, 1]])),
    case("take", f32(3, 4), np.array([[0, 11], [5, 5]])),
    case("take_along_dim", f32(2, 3), np.array([[0, 2, 1], [1, 1, 0]]), 1),
    case("take_along_dim", f32(2, 3), np.array([0, 5])).named("flat"),
    case("take_along_dim", f32(3, 3), np.array([[0, 2]]), 1).named("broadcast indices"),
    case("take_along_dim", f32(1, 3), np.array([[0], [2]]), 1).named("broadcast rows"),
    case("index", f32(4, 5), [np.array([0, 3])]),
    case("index", f32(4, 5), [None, np.array([[0, 3], [1, -1]])]).named("second"),
    case("index", f32(4, 5, 6), [np.array([0, 3]), np.array([[1], [2]])]).named("two"),
    case("index", f32(4, 5, 6), [None, np.array([0, 3]), np.array([1, 2])]).named("neighbours"),
    case("index", f32(4, 5, 6), [np.array([0, 3]), None, np.array([1, 2])]).named("apart"),
    case("index", f32(2, 3), [boolean(2, 3)]).named("mask"),
    case("index", f32(4, 3), [np.array([True, False, True, True])]).named("rows"),
    case("_unsafe_index", f32(4, 5), [np.array([0, 3])]),
    case("index_put", f32(4, 5), [np.array([0, 3])], f32(2, 5)),
    case("index_put", f32(4, 5), [np.array([0, 0])], f32(5), True).named("add"),
    case("index_put", f32(4, 5), [None, np.array([0, 3])], f32(4, 2)).named("second"),
    case("index_put", f32(4, 5), [boolean(4, 5)], SCALAR).named("mask"),
    case("index_put", f32(2, 3, 4), [boolean(2, 3)], SCALAR).named("outer mask"),
    case("index_put", f32(4, 5), [np.array([0, 3]), np.array([1, 2])], f32(2)).named("two"),
    case("_unsafe_index_put", f32(4), [np.array([0])], f32(1)),
    case("_index_put_impl", f32(4), [np.array([0])], f32(1)),
    case("nonzero", i64(3, 4, low=0, high=2)),
    case("argwhere", i64(3, 4, low=0, high=2)),
    case("nonzero", SCALAR).named("scalar"),
    case("nonzero_numpy", i64(3, 4, low=0, high=2)),
    case("masked_select", f32(2, 3), boolean(2, 3)),
    case("masked_select", f32(2, 3), boolean(3)).named("broadcast"),
    case("masked_scatter", f32(2, 3), boolean(2, 3), f32(6)),
    case("nonzero_static", SMALL, size=4),
    case("nonzero_static", SMALL, size=12, fill_value=-7).named("more"),
    case("put", f32(2, 3), np.array([1, 4]), f32(2)),
    case("put", f32(2, 3), np.array([1, 1]), f32(2), True).named("add"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
