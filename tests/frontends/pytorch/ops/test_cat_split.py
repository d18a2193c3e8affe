"""The rules of `frontends/pytorch/ops/cat_split.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, i64, params

ROWS = [
    case("cat", [f32(2, 3), f32(1, 3)]),
    case("cat", [f32(2, 3), i64(2, 1)], -1).named("mixed"),
    case("cat", [np.zeros(0, np.float32), f32(2, 3)], 1).named("empty"),
    case("concat", [f32(2), f32(3)]),
    case("concatenate", [f32(2), f32(3)]),
    case("stack", [f32(2, 3), f32(2, 3) + 1], 1),
    case("stack", [f32(2), f32(2)], -1).named("last"),
    case("hstack", [f32(2), f32(3)]),
    case("hstack", [f32(2, 1), f32(2, 3)]).named("matrices"),
    case("vstack", [f32(3), f32(3)]),
    case("row_stack", [f32(3), f32(2, 3)]),
    case("dstack", [f32(2, 3), f32(2, 3)]),
    case("dstack", [f32(2), f32(2)]).named("vectors"),
    case("column_stack", [f32(2), f32(2, 3)]),
    case("split", f32(5, 3), 2),
    case("split.Tensor", f32(5, 3), 2).named("tensor"),
    case("split.sizes", f32(5, 3), [1, 4]),
    case("split_copy", f32(4, 3), 2),
    case("unsafe_split", f32(5, 3), 3),
    case("split_with_sizes", f32(2, 5), [2, 3], 1),
    case("split_with_sizes_copy", f32(5), [2, 3]),
    case("unsafe_split_with_sizes", f32(5), [2, 3]),
    case("chunk", f32(5, 3), 2),
    case("chunk", f32(2, 7), 4, 1).named("uneven"),
    case("unsafe_chunk", f32(4), 2),
    case("tensor_split", f32(7), 3),
    case("tensor_split.indices", f32(7), [2, 5]),
    case("unbind", f32(3, 2)),
    case("unbind_copy", f32(2, 3), 1),
    case("select", f32(3, 4), 1, 2),
    case("select", f32(3, 4), 0, -1).named("last"),
    case("select_copy", f32(3, 4), 0, 0),
    case("slice", f32(5, 3), 0, 1, 4),
    case("slice", f32(5, 3), 1, None, -1).named("open"),
    case("slice", f32(7), 0, 1, 7, 2).named("step"),
    case("slice_copy", f32(5), 0, 2),
    case("narrow", f32(5, 3), 0, 1, 3),
    case("narrow", f32(5, 3), 0, -2, 2).named("end"),
    case("narrow_copy", f32(5), 0, 1, 2),
    *(case(name, f32(2, 4, 6), 2) for name in ("hsplit", "vsplit", "dsplit")),
    *(case(name, f32(2, 4, 6), [1, 2]).named("list") for name in ("hsplit", "dsplit")),
    *(case(name, f32(4)) for name in ("atleast_2d", "atleast_3d")),
    case("tensor_split.tensor_indices_or_sections", f32(3, 7), np.array([2, 2, 5]), 1),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
