"""The rules of `frontends/pytorch/ops/repeat.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, params

ROWS = [
    case("expand", f32(1, 3), [4, -1]),
    case("expand", f32(3), [2, 3]).named("front"),
    case("expand_copy", f32(1), [3]),
    case("broadcast_to", f32(3), [2, 3]),
    case("expand_as", f32(1, 3), f32(2, 3)),
    case("broadcast_tensors", [f32(2, 1), f32(3)]),
    case("repeat", f32(2, 3), [2, 1, 2]),
    case("tile", f32(2, 3), [2]),
    case("repeat_interleave.self_int", f32(2, 3), 2),
    case("repeat_interleave.self_int", f32(2, 3), 3, 1).named("dim"),
    case("repeat_interleave.self_Tensor", f32(3, 2), np.array([2, 0, 1]), 0),
    case("repeat_interleave.self_Tensor", f32(3, 2), np.array([2])).named("flat"),
    case("repeat_interleave.Tensor", np.array([0, 3, 0, 2])),
    case("meshgrid", [f32(2), f32(3)]),
    case("meshgrid.indexing", [f32(2), f32(3)], indexing="xy"),
    case("meshgrid.indexing", [f32(2), f32(3)], indexing="ij").named("ij"),
    case("cartesian_prod", [f32(2), f32(3)]),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
