"""The rules of `frontends/pytorch/ops/linalg.py` against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_other_sizes, check_unknown_sizes, layers
from tests.support.cases import Case, boolean, case, f32, i64, params

ROWS = [
    *layers(
        case("matmul", f32(2, 3), f32(3, 4)),
        case("matmul", f32(2, 5, 3), f32(3, 4)).named("broadcast"),
        case("matmul", f32(3), f32(3)).named("vectors"),
        case("matmul", f32(2, 3), f32(3)).named("vector"),
        case("linalg_matmul", f32(2, 3), f32(3, 4)),
        case("mm", f32(2, 3), f32(3, 4)),
        case("mm", i64(2, 3), i64(3, 4)).named("int"),
        case("bmm", f32(2, 3, 4), f32(2, 4, 5)),
        case("mv", f32(2, 3), f32(3)),
        case("dot", f32(3), f32(3) + 1),
        case("vdot", f32(3), f32(3) + 1),
        case("inner", f32(2, 3), f32(4, 3)),
        case("addmm", f32(4), f32(2, 3), f32(3, 4), beta=0.5, alpha=2),
        case("addmv", f32(2), f32(2, 3), f32(3)),
        case("baddbmm", f32(2, 3, 5), f32(2, 3, 4), f32(2, 4, 5), beta=0.5, alpha=2),
        case("baddbmm", f32(2, 3, 5), f32(2, 3, 4), f32(2, 4, 5), beta=0).named("beta 0"),
        case("addbmm", f32(3, 5), f32(2, 3, 4), f32(2, 4, 5)),
        case("addr", f32(2, 3), f32(2), f32(3)),
        case("outer", f32(2), f32(3)),
        case("ger", f32(2), f32(3)),
        case("einsum", "bij, bjk -> bik", [f32(2, 3, 4), f32(2, 4, 5)]),
        case("einsum", "...i,...i", [f32(2, 3), f32(2, 3)]).named("ellipsis"),
        case("einsum", "...ik, ...j -> ij", [f32(1, 2, 3), f32(3)]).named("shorter ellipsis"),
        case("einsum", "bij,bij->bji", [f32(2, 2, 1), f32(2, 1, 3)]).named("lengths of 1"),
        case("einsum", "bij,bik", [f32(2, 1, 1), f32(2, 4, 3)]).named("a sum over a length of 1"),
        case("tensordot", f32(2, 3, 4), f32(4, 3, 5), [1, 2], [1, 0]),
        case("tensordot", f32(1, 1, 2), f32(2, 1, 2), [0, 1], [2, 0]).named("lengths of 1"),
        case("linalg_multi_dot", [f32(2, 3), f32(3, 4), f32(4, 2)]),
        case("chain_matmul", [f32(2, 3), f32(3, 4)]),
        case("cross", f32(2, 3), f32(2, 3) + 1, 1),
        case("cross", f32(3, 3), f32(3, 3) + 1).named("first dim"),
        case("cross", f32(2, 3, 5), f32(2, 3, 5) + 1).named("middle dim"),
        case("cross", f32(3, 2), f32(3, 2) + 1).named("too few of the last"),
        case("linalg_cross", f32(2, 3), f32(2, 3) + 1),
        case("kron", f32(2, 3), f32(3, 2)),
        case("det", f32(3, 3)),
        case("linalg_det", f32(2, 3, 3)),
        case("trace", f32(3, 4)),
        case("dist", f32(2, 3), f32(2, 3) + 1),
        case("pairwise_distance", f32(2, 3), f32(2, 3) + 1),
        case("cdist", f32(2, 3), f32(4, 3)),
        case("cdist", f32(2, 3), f32(4, 3), 1.0).named("1"),
        case("_cdist_forward", f32(2, 3), f32(4, 3), 2.0, None),
    ),
    *(case(name, f32(4, 3), 2.0) for name in ("pdist", "_pdist_forward")),
    *(case(name, boolean(3), boolean(4)[:3]).named("bool") for name in ("outer", "kron")),
    case("addr", boolean(3, 3), boolean(3), boolean(4)[:3]).named("bool"),
    case("addmm", f32(5, 4), f32(5, 0), f32(0, 4), beta=0.5, alpha=2).named("nothing summed"),
    case("_grouped_mm", f32(6, 4), f32(3, 4, 8), np.array([2, 2, 6], np.int32)),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


@pytest.mark.parametrize(
    ("row", "others"),
    [
        (case("tensordot", f32(2, 3, 4), f32(4, 3, 5), [1, 2], [1, 0]), [[f32(5, 7, 2), f32(2, 7, 3)]]),
        (case("tensordot", f32(2, 3), f32(3, 5), [1], [0]), [[f32(5, 7), f32(7, 3)]]),
        (case("kron", f32(2, 3), f32(3, 2)), [[f32(5, 4), f32(2, 7)]]),
        (case("kron", f32(3), f32(3, 2)), [[f32(4), f32(2, 7)]]),
        (case("pdist", f32(4, 3), 2.0), [[f32(7, 5)], [f32(2, 3)]]),
    ],
    ids=lambda value: value.operator if isinstance(value, Case) else "",
)
def test_rule_agrees_at_other_sizes_than_the_example(row: Case, others: list[list[Any]]) -> None:
    check_other_sizes(row, *others)
