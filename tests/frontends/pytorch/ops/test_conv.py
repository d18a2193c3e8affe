"""The rules of `frontends/pytorch/ops/conv.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_other_sizes, check_unknown_sizes, layers, resized
from tests.support.cases import Case, case, f32, i64, params

X = f32(2, 4, 6, 7)
W = f32(6, 4, 3, 3, low=-0.3, high=0.3)
PICTURE = i64(2, 4, 7, 6)
KERNEL = i64(6, 2, 3, 2)
TURNED = i64(4, 3, 3, 2)

ROWS = [
    *layers(
        case("conv2d", X, W),
        case("conv2d", X, W, f32(6), [2, 2], [1, 1]).named("strided"),
        case("conv2d", X, W, None, [1, 2], [2, 0], [2, 1]).named("dilated"),
        case("conv2d", X, f32(8, 1, 3, 3), f32(8), [1, 1], [0, 0], [1, 1], 4).named("depthwise"),
        case("conv2d.padding", X, f32(6, 4, 4, 3), None, [1, 1], "same").named("same"),
        case("conv2d.padding", X, W, None, [1, 1], "valid").named("valid"),
        case("conv2d", X[0], W).named("single"),
        case("conv1d", f32(2, 4, 9), f32(6, 4, 3), f32(6), [2], [1]),
        case("conv3d", f32(1, 2, 4, 5, 6), f32(3, 2, 2, 3, 2), None, [1, 1, 1], [1, 1, 1]),
        case("conv_transpose2d", X, f32(4, 6, 3, 3)),
        case("conv_transpose2d", X, f32(4, 3, 3, 3), f32(6), [2, 2], [1, 1], [1, 1], 2).named("grouped"),
        case("conv_transpose2d", X, f32(4, 6, 3, 3), None, [2, 1], [0, 0], [0, 0], 1, [2, 2]).named("dilated"),
        case("conv_transpose2d", X, f32(4, 6, 3, 3), f32(6), [2, 1], [1, 0], [3, 2], 1, [4, 3]).named("much behind"),
        case("conv_transpose1d", f32(2, 4, 9), f32(4, 6, 3), None, [2]),
        case("conv_transpose3d", f32(1, 2, 3, 3, 3), f32(2, 3, 2, 2, 2)),
        case("convolution", X, W, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        case("convolution", X, f32(4, 6, 3, 3), None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1).named("transposed"),
        case("_convolution", X, W, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, True, True),
        case("conv_tbc", f32(9, 2, 4), f32(3, 4, 6), f32(6)),
        case("conv_tbc", f32(9, 2, 4), f32(4, 4, 6), f32(6), 2).named("padded"),
        case("conv_tbc", f32(1, 1, 4), f32(3, 4, 6), f32(6), 1).named("one step"),
        case("conv_tbc", f32(9, 0, 4), f32(3, 4, 6), f32(6), 1).named("no batch"),
        case("conv_tbc", i64(9, 2, 4), i64(3, 4, 6), i64(6), 1).named("int"),
        case("conv1d", i64(2, 4, 9), i64(6, 4, 3), i64(6), [2], [1]).named("int"),
        case("conv2d", PICTURE, KERNEL, i64(6), [2, 1], [1, 0], [1, 2], 2).named("int"),
        case("conv3d", i64(1, 2, 4, 5, 3), i64(2, 2, 2, 2, 2)).named("int"),
        case("conv_transpose1d", i64(1, 2, 4), i64(2, 3, 3), i64(3), [3], [1], [1]).named("int"),
        case("conv_transpose2d.input", PICTURE, TURNED, None, [2, 3], [2, 0], [1, 0], 2, [1, 2]).named("int"),
    ),
    case("conv1d", i64(2, 4, 9), i64(6, 4, 3)).named("int, by a kernel of unknown size"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


def larger(row: Case, more: int) -> np.ndarray:
    """Return the first input with as many channels, and its other dims enlarged by `more`."""
    x = row.inputs[0]
    if row.operator == "conv_tbc":  # channels last
        return np.moveaxis(resized(np.moveaxis(x, -1, 0), more, 1), 0, -1)
    return resized(x, more, 1 if row.label == "single" else 2)


@pytest.mark.parametrize("row", params(row for row in ROWS if row.dynamic_inputs == 1 and row.inputs[0].ndim > 2))
def test_rule_agrees_at_other_sizes_than_the_example(row: Case) -> None:
    check_other_sizes(row, *([larger(row, more)] for more in (0, 1, 4)))
