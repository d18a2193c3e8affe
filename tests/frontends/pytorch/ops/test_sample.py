"""The rules of `frontends/pytorch/ops/sample.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, params

BAG = (f32(6, 3), np.array([0, 2, 1, 5, 5]), np.array([0, 2, 2]))
PADDED_BAG = (f32(6, 3), np.array([0, 2, 5, 5, 1]), np.array([0, 2, 2]))

ROWS = [
    *(
        case(name, f32(2, 3, 4, 5), f32(2, 6, 7, 2, low=-1.2, high=1.2), mode, pads, corners).named(
            f"{mode}{pads}{corners}"
        )
        for name, mode, pads, corners in (
            ("grid_sampler", 0, 0, False),
            ("grid_sampler", 1, 1, False),
            ("grid_sampler_2d", 0, 2, True),
            ("grid_sampler_2d", 2, 0, True),
        )
    ),
    case("grid_sampler_3d", f32(1, 2, 3, 4, 5), f32(1, 2, 3, 4, 3, low=-1.2, high=1.2), 0, 0, False),
    case("col2im", f32(2, 12, 4), [4, 4], [2, 2], [1, 1], [0, 0], [2, 2]),
    *(case("embedding_bag", *BAG, False, mode).named(f"mode {mode}") for mode in (0, 1, 2)),
    case("_embedding_bag", *BAG, False, 0, False, f32(5)).named("weights"),
    case("_embedding_bag_forward_only", *BAG, False, 1, False, None, False, 5).named("padding"),
    case("embedding_bag", f32(6, 3), np.array([0, 2, 1]), np.array([0, 2, 3]), False, 0, False, None, True).named(
        "last"
    ),
    *(
        case("segment_reduce", f32(5, 2), how, lengths=np.array([2, 0, 3]), initial=1.0).named(how)
        for how in ("sum", "mean", "max", "min", "prod")
    ),
    case("segment_reduce", f32(5, 2), "mean", offsets=np.array([0, 2, 2, 5])).named("offsets"),
    case("embedding_renorm", f32(6, 3), np.array([[0, 4], [4, 2]]), 1.5, 1.0),
    case("embedding_bag.padding_idx", *PADDED_BAG, False, 0, False, None, False, -1),
    case("embedding_bag.padding_idx", *PADDED_BAG, False, 1, False, None, False, None).named("none"),
    *(
        case("segment_reduce", f32(2, 5, 3), how, lengths=np.array([[2, 0, 3], [1, 1, 3]]), axis=1).named(
            f"{how}, axis"
        )
        for how in ("sum", "mean", "max", "min", "prod")
    ),
    case("segment_reduce", f32(2, 5), "mean", offsets=np.array([[0, 2, 5], [0, 0, 5]]), axis=1, initial=2.0).named(
        "offsets, axis"
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
