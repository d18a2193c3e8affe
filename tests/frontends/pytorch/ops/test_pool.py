"""The rules of `frontends/pytorch/ops/pool.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_other_sizes, check_unknown_sizes, layers
from tests.support.cases import Case, boolean, case, f32, i64, params

X = f32(2, 4, 6, 7)
PICTURE = i64(2, 4, 7, 6)

ROWS = [
    *layers(
        case("max_pool2d", X, 2),
        case("max_pool2d", X, 3, 2, 1).named("padded"),
        case("max_pool2d", X, 3, 2, 1, 1, True).named("ceil"),
        case("max_pool2d", X, 2, 3, 0, 1, True).named("ceil dropped"),
        case("max_pool2d", X, 2, 1, 0, 2).named("dilated"),
        case("max_pool1d", f32(2, 4, 9), 3),
        case("max_pool3d", f32(1, 2, 4, 5, 6), 2),
        case("max_pool2d", X[0], 2).named("single"),
        case("max_pool2d_with_indices", X, [2, 2]),
        case("max_pool1d_with_indices", f32(2, 4, 9), [3]),
        case("max_pool3d_with_indices", f32(1, 2, 4, 5, 6), [2, 2, 2]),
        case("avg_pool2d", X, 2),
        case("avg_pool2d", X, 3, 2, 1).named("padded"),
        case("avg_pool2d", X, 3, 2, 1, False, False).named("not counted"),
        case("avg_pool2d", X, 3, 2, 1, True).named("ceil"),
        case("avg_pool2d", X, 3, 2, 1, True, False).named("ceil not counted"),
        case("avg_pool2d", X, 2, 3, 0, True).named("ceil dropped"),
        case("avg_pool2d", X, 3, 2, 1, False, True, 5).named("divisor"),
        case("avg_pool2d", X, 3, 2, 1, True, True, 5).named("ceil divisor"),
        case("avg_pool2d", X, 3, 2, 1, True, False, 2).named("ceil divisor not counted"),
        case("avg_pool1d", f32(2, 4, 9), 3, 2, 1),
        case("avg_pool1d", f32(2, 4, 5), 3, 3, 1, True).named("ceil, a window in padding"),
        case("avg_pool2d", f32(2, 4, 5, 8), 2, 2, 1, True).named("ceil, a window in padding"),
        case("max_pool2d", f32(2, 4, 5, 8), 2, 2, 1, 1, True).named("ceil, a window in padding"),
        case("avg_pool3d", f32(1, 2, 4, 5, 6), 2),
        *(
            case("adaptive_avg_pool2d", X, list(target)).named(f"{target}")
            for target in ((1, 1), (3, 7), (2, 3), (4, 5), (6, 7), (9, 1))
        ),
        case("adaptive_avg_pool1d", f32(2, 4, 9), [4]),
        case("adaptive_avg_pool2d", X, [0, 3]).named("to nothing"),
        case("adaptive_max_pool2d", X, [0, 3]).named("to nothing"),
        case("adaptive_avg_pool3d", f32(1, 2, 4, 5, 6), [2, 3, 4]),
        case("_adaptive_avg_pool2d", X, [2, 2]),
        case("_adaptive_avg_pool3d", f32(1, 2, 4, 5, 6), [1, 1, 1]),
        case("adaptive_max_pool2d", X, [3, 7]),
        case("adaptive_max_pool2d", X, [4, 5]).named("uneven"),
        case("adaptive_max_pool1d", f32(2, 4, 9), [4]),
        case("adaptive_max_pool3d", f32(1, 2, 4, 5, 6), [2, 5, 3]),
    ),
    case("adaptive_max_pool2d", f32(1, 2, 7, 5), [3, 2]).named("uneven"),
    case("adaptive_max_pool1d", boolean(1, 2, 7).astype(np.float32), [3]).named("ties"),
    case("max_pool2d_with_indices", f32(1, 2, 8, 8), [2, 2], [5, 5], [1, 1], [4, 4], True).named("long end"),
    case("max_pool1d_with_indices", i64(2, 4, 9), [3], [2], [1]).named("int"),
    case("max_pool2d", PICTURE, [3, 2], [2, 2], [1, 1], 1, True).named("int"),
    case("max_pool2d_with_indices", PICTURE, [3, 2], [1, 2], 0, [2, 1]).named("int"),
    case("avg_pool1d", i64(2, 4, 9), [2]).named("int"),
    case("avg_pool2d", PICTURE, [3, 2], [2, 2], [1, 1], True, False).named("int"),
    case("avg_pool2d", PICTURE, [3, 2], [2, 3], [1, 1], True, True).named("int, padding counts"),
    case("avg_pool2d", PICTURE, [3, 2], [2, 2], 0, False, True, 5).named("int, divisor"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_at_other_sizes_than_the_example(row: Case) -> None:
    check_other_sizes(row)
