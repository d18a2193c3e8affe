"""The rules of `frontends/pytorch/ops/pool_backward.py` against PyTorch's kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.frontends.pytorch.ops.support import check, check_other_sizes, check_unknown_sizes, resized
from tests.support.cases import Case, case, f32, params


def mean(x: np.ndarray, *settings: Any, dims: int = 2) -> Case:
    pool: Any = getattr(F, f"avg_pool{dims}d")
    out = pool(torch.from_numpy(x), *settings).shape
    return case(f"avg_pool{dims}d_backward", f32(*out), x, *settings)


def greatest(function: Any, x: np.ndarray, *settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a gradient, and the indices of the maxima."""
    _, places = function(torch.from_numpy(x), *settings, return_indices=True)
    return f32(*places.shape), places.numpy()


PLANE, BOX = f32(2, 3, 7, 6), f32(2, 3, 5, 4, 6)
GRAD, PLACES = greatest(F.adaptive_max_pool2d, PLANE, [3, 4])
WIDE, WHERE = greatest(F.max_pool3d, BOX, 3, 2, 1)
DEEP, THERE = greatest(F.adaptive_max_pool3d, BOX, [2, 3, 2])
ROWS = [
    mean(PLANE, [2], [], [0], False, True, None),
    mean(PLANE, [3, 2], [2, 1], [1, 1], True, True, None).named("ceil"),
    mean(PLANE, [3, 2], [2, 1], [1, 1], True, False, None).named("without padding"),
    mean(PLANE, [3, 3], [2, 2], [1, 0], False, True, 5).named("divisor"),
    mean(PLANE[0], [2, 3], [2, 3], [0, 0], False, True, None).named("one item"),
    mean(BOX, [2, 2, 3], [2, 1, 2], [1, 0, 1], True, False, None, dims=3),
    case("_adaptive_avg_pool2d_backward", f32(2, 3, 3, 4), PLANE),
    case("_adaptive_avg_pool3d_backward", f32(2, 3, 2, 3, 1), BOX),
    case("adaptive_max_pool2d_backward", GRAD, PLANE, PLACES),
    case("adaptive_max_pool3d_backward", DEEP, BOX, THERE),
    case("max_pool3d_with_indices_backward", WIDE, BOX, [3] * 3, [2] * 3, [1] * 3, [1] * 3, False, WHERE),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


@pytest.mark.parametrize("row", params(row for row in ROWS if "avg" in row.operator))
def test_rule_agrees_at_other_sizes_than_the_example(row: Case) -> None:
    grad, x, *settings = row.inputs
    dims = 3 if "3d" in row.operator else 2
    longer = torch.from_numpy(resized(x, 3, x.ndim - dims))
    name = row.operator.removesuffix("_backward").removeprefix("_")
    arguments = settings if settings else [list(grad.shape[-dims:])]
    pooled = getattr(torch.ops.aten, name)(longer, *arguments)
    check_other_sizes(replace(row, dynamic_inputs=2), [f32(*pooled.shape), longer.numpy()])
