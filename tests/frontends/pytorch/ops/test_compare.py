"""The rules of `frontends/pytorch/ops/compare.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, boolean, case, f32, i32, i64, params

ODD = np.array([-np.inf, -1.5, -0.0, 0.0, 2.5, np.inf, np.nan], dtype=np.float32)

ROWS = [
    case("logical_not", f32(2, 3)),
    case("logical_not", i64(2, 3)).named("int"),
    *(case(name, boolean(2, 3)).named("bool") for name in ("logical_not", "bitwise_not")),
    case("bitwise_not", i64(2, 3)),
    *(
        case(name, f32(2, 3), f32(3, low=-3.0))
        for name in (
            "lt",
            "le",
            "gt",
            "ge",
            "less",
            "less_equal",
            "greater",
            "greater_equal",
            "eq",
            "ne",
            "not_equal",
            "isclose",
            "logical_or",
            "logical_xor",
            "logical_and",
        )
    ),
    *(
        case(name, i64(2, 3), i64(3, low=1)).named("int")
        for name in (
            "lt",
            "le",
            "gt",
            "ge",
            "less",
            "less_equal",
            "greater",
            "greater_equal",
            "eq",
            "ne",
            "not_equal",
            "isclose",
            "logical_or",
            "logical_xor",
            "logical_and",
        )
    ),
    *(case(name, i64(2, 3), f32(3)).named("mixed") for name in ("lt", "eq", "logical_or")),
    *(
        case(name, boolean(2, 3), boolean(3)).named("bool")
        for name in ("lt", "eq", "ne", "logical_and", "logical_or", "logical_xor")
    ),
    *(case(name, f32(2, 3), 2).named("number") for name in ("lt", "eq")),
    *(case(name, i64(2, 3), 2.5).named("widening number") for name in ("lt", "eq")),
    case("lt", i32(2, 3), np.array(3)).named("0-d"),
    case("lt", f32(2, 3), np.array(2.5)).named("0-d double"),
    *(
        case(name, i64(2, 3), i64(3))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__")
    ),
    *(case(name, boolean(2, 3), boolean(3)).named("bool") for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    case("isclose", f32(2, 3), f32(2, 3) + np.float32(1e-9)).named("near"),
    case("isclose", ODD, ODD, equal_nan=True).named("odd"),
    case("sym_not", np.array(True)),
    case("where", boolean(2, 3), f32(2, 3), f32(3)),
    case("where", boolean(2, 3), f32(2, 3), 0).named("number"),
    case("where", boolean(2, 3), 1.5, 2.0).named("two numbers"),
    case("where", boolean(2, 3), i64(2, 3), f32(3)).named("mixed"),
    case("masked_fill", f32(2, 3), boolean(3), -np.inf),
    case("masked_fill", i64(2, 3), boolean(2, 3), 7).named("int"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
