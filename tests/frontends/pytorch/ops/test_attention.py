"""The rules of `frontends/pytorch/ops/attention.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes, layers
from tests.support.cases import Case, boolean, case, f32, params

HEADS = f32(2, 3, 5, 8)

ROWS = [
    *layers(
        case("scaled_dot_product_attention", HEADS, f32(2, 3, 7, 8), f32(2, 3, 7, 8) + 1),
        case("scaled_dot_product_attention", HEADS, HEADS + 1, HEADS, is_causal=True).named("causal"),
        case("scaled_dot_product_attention", HEADS, HEADS + 1, HEADS, f32(5, 5)).named("mask"),
        case(
            "scaled_dot_product_attention", HEADS, HEADS + 1, HEADS, boolean(2, 1, 5, 5) | np.eye(5, dtype=bool)
        ).named("boolean mask"),
        *(
            case("scaled_dot_product_attention", HEADS, f32(2, 3, 7, 8), f32(2, 3, 7, 8), mask).named(
                f"one key, {name}"
            )
            for name, mask in {
                "a column": f32(5, 1),
                "of each head": f32(2, 3, 5, 1),
                "true": np.ones((5, 1), bool),
            }.items()
        ),
        case("scaled_dot_product_attention", HEADS, HEADS + 1, HEADS, scale=0.1).named("scale"),
        case("scaled_dot_product_attention", f32(2, 5, 8), f32(2, 7, 8), f32(2, 7, 6)).named("three dims"),
        case("scaled_dot_product_attention", f32(2, 4, 5, 8), f32(2, 2, 5, 8), f32(2, 2, 5, 8), enable_gqa=True).named(
            "grouped"
        ),
        case("scaled_dot_product_attention", f32(2, 2, 2, 5, 8), f32(2, 2, 2, 5, 8), f32(2, 2, 2, 5, 8) + 1).named(
            "five dims"
        ),
        case("scaled_dot_product_attention", f32(5, 8), f32(7, 8), f32(7, 8)).named("two dims"),
        case("scaled_dot_product_attention", f32(2, 4, 3, 5, 8), f32(1, 7, 8), f32(7, 8)).named("shared keys"),
        case("scaled_dot_product_attention", f32(2, 1, 5, 8), f32(3, 7, 8), f32(2, 3, 7, 8)).named("shared heads"),
        case("scaled_dot_product_attention", f32(2, 5, 8), f32(1, 1, 7, 8), f32(1, 1, 7, 8)).named("keys of rank 4"),
        case("scaled_dot_product_attention", HEADS, f32(2, 3, 7, 8), f32(2, 3, 7, 8), is_causal=True).named(
            "causal rectangle"
        ),
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
