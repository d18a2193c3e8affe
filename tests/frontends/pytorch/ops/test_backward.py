"""The rules of `frontends/pytorch/ops/backward.py` against PyTorch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.frontends.pytorch.ops.support import check, check_other_sizes, check_unknown_sizes, layers, resized
from tests.support.cases import Case, case, f32, params

RANGE = np.linspace(-8, 8, 33, dtype=np.float32)

ROWS_OF_X = np.concatenate([f32(3, 4), f32(4, 4)[:1]])

ROWS_OF_Y = np.concatenate([f32(5, 4) * 2, ROWS_OF_X[:1]])  # one row equals a row of x

GAPS = ROWS_OF_X[:, None] - ROWS_OF_Y

ONLY_INPUT = [True, False, False]


def convolution(grad: np.ndarray, x: np.ndarray, weight: np.ndarray, *settings: object) -> Case:
    return case("convolution_backward", grad, x, weight, None, *settings, ONLY_INPUT)


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
    case("silu_backward", f32(33), RANGE),
    case("mish_backward", f32(33), RANGE),
    case("_cdist_backward", f32(4, 6), ROWS_OF_X, ROWS_OF_Y, 2.0, np.linalg.norm(GAPS, axis=-1)),
    case("_cdist_backward", f32(4, 6), ROWS_OF_X, ROWS_OF_Y, 1.0, np.abs(GAPS).sum(-1)).named("1"),
    *layers(
        convolution(f32(2, 6, 5), f32(2, 4, 7), f32(6, 4, 3), [1], [0], [1], False, [0], 1),
        convolution(f32(2, 6, 4), f32(2, 4, 8), f32(6, 2, 3), [2], [1], [1], False, [0], 2).named("strided, groups"),
        convolution(f32(2, 4, 7), f32(2, 6, 3), f32(6, 2, 3), [2], [1], [2], True, [0], 2).named("transposed"),
        convolution(f32(2, 6, 4, 2), f32(2, 4, 8, 7), f32(6, 4, 3, 2), [2, 3], [1, 0], [1, 2], False, [0, 0], 1).named(
            "two dims"
        ),
    ),
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


@pytest.mark.parametrize("row", params(row for row in ROWS if row.operator == "convolution_backward"))
def test_convolution_agrees_at_other_sizes_than_the_example(row: Case) -> None:
    """The input has one more element in each dim. It lies outside the last window, or adds a window."""
    _, x, weight, *settings = row.inputs
    _, strides, pads, dilations, turned, *_ = settings
    longer = resized(x, 1, 2)
    out = [
        (n - 1) * s - 2 * p + d * (k - 1) + 1 if turned else (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(longer.shape[2:], weight.shape[2:], strides, pads, dilations, strict=True)
    ]
    grad = f32(longer.shape[0], row.inputs[0].shape[1], *out)
    check_other_sizes(replace(row, dynamic_inputs=2), [grad, longer])


@pytest.mark.parametrize("row", params(row for row in ROWS if "avg" in row.operator))
def test_rule_agrees_at_other_sizes_than_the_example(row: Case) -> None:
    grad, x, *settings = row.inputs
    dims = 3 if "3d" in row.operator else 2
    longer = torch.from_numpy(resized(x, 3, x.ndim - dims))
    name = row.operator.removesuffix("_backward").removeprefix("_")
    arguments = settings if settings else [list(grad.shape[-dims:])]
    pooled = getattr(torch.ops.aten, name)(longer, *arguments)
    check_other_sizes(replace(row, dynamic_inputs=2), [f32(*pooled.shape), longer.numpy()])
