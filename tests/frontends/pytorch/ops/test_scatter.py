"""The rules of `frontends/pytorch/ops/scatter.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, params

IDS = np.array([[0, 2], [1, 1]])

ROWS = [
    case("fill_diagonal_", f32(3, 4), 2.5),
    case("fill_diagonal_", f32(9, 3), 2, True).named("wrapped"),
    case("fill_diagonal_", f32(3, 3, 3), 1).named("cube"),
    case("scatter", f32(3, 4), 1, IDS, f32(2, 2)),
    case("scatter.src", f32(3, 4), 1, IDS, f32(3, 3)),
    case("scatter.value", f32(3, 4), 0, IDS, 2.5),
    case("scatter.reduce", f32(3, 4), 1, IDS, f32(2, 2), reduce="multiply"),
    case("scatter.value_reduce", f32(3, 4), 1, IDS, 2.0, reduce="add"),
    case("scatter_add", f32(3, 4), 0, IDS, f32(2, 2)),
    *(
        case("scatter_reduce", f32(3, 4), 1, IDS, f32(2, 2), mode, include_self=own).named(f"{mode} {own}")
        for mode in ("sum", "prod", "amax", "amin", "mean")
        for own in (True, False)
    ),
    case("scatter_reduce", np.array([-3, -2, 5]), 0, np.array([0, 0, 1]), np.array([-2, -4, -1]), "mean").named("ints"),
    case("index_add", f32(4, 3), 0, np.array([1, 1]), f32(2, 3)),
    case("index_add", f32(3, 4), 1, np.array([1, 3]), f32(3, 2), alpha=2).named("alpha"),
    case("index_copy", f32(4, 3), 0, np.array([1, 3]), f32(2, 3)),
    case("index_fill", f32(4, 3), 1, np.array([0, 2]), 7.0),
    case("select_scatter", f32(4, 3), f32(3), 0, 1),
    case("select_scatter", f32(4, 3), f32(4), 1, -1).named("last"),
    case("slice_scatter", f32(5, 3), f32(2, 3), 0, 1, 3),
    case("slice_scatter", f32(5, 3), f32(2, 3), 0, 0, 4, 2).named("step"),
    case("slice_scatter", f32(5, 3), f32(5, 3)).named("all"),
    *(
        case("index_reduce", f32(4, 3), 0, np.array([0, 2, 0]), f32(3, 3), how)
        for how in ("prod", "mean", "amax", "amin")
    ),
    *(
        case("index_reduce", f32(4, 3), 0, np.array([0, 2, 0]), f32(3, 3), how, include_self=False).named(
            f"{how} alone"
        )
        for how in ("prod", "mean", "amax", "amin")
    ),
    case("diagonal_scatter", f32(3, 4), f32(3), 1),
    case("diagonal_scatter", f32(4, 2, 3), f32(2, 3), -1, 0, 2).named("dims"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
