"""The rules of `frontends/pytorch/ops/fractional.py` against PyTorch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_other_sizes, check_unknown_sizes, resized
from tests.support.cases import Case, case, f32, params

DRAWN = (np.arange(12, dtype=np.float32) / 13).reshape(2, 3, 2)

ROWS = [
    case("fractional_max_pool2d", f32(2, 3, 9, 11), [2, 3], [4, 5], DRAWN),
    case("fractional_max_pool2d", f32(3, 9, 11), [2, 3], [1, 5], DRAWN[:1]).named("no batch, one window"),
    case("fractional_max_pool3d", f32(2, 2, 9, 8, 7), [2, 3, 2], [4, 5, 3], DRAWN.reshape(2, 2, 3)),
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
    x = row.inputs[0]
    keep = 1 if "no batch" in row.label else 2
    check_other_sizes(replace(row, dynamic_inputs=1), *([resized(x, more, keep)] for more in (0, 1, 5)))
