"""The rules of `frontends/pytorch/ops/pad.py` against PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import convert
from convert.errors import Unsupported
from tests.frontends.pytorch.ops.support import check, check_unknown_sizes, layers
from tests.support.cases import Case, case, f32, i64, params
from tests.support.pytorch_tools import agrees, read

X = f32(2, 4, 6, 7)

ROWS = [
    *layers(
        case("im2col", X, [2, 3], [1, 2], [1, 0], [2, 1]),
        case("constant_pad_nd", X, [1, 2, 0, 1], 1.5),
        case("constant_pad_nd", X, [-1, 2]).named("negative"),
        *(case("pad", X, [1, 2, 2, 1], mode).named(mode) for mode in ("constant", "reflect", "replicate", "circular")),
        case("reflection_pad1d", f32(2, 3, 5), [1, 2]),
        case("reflection_pad2d", X, [1, 2, 2, 1]),
        case("reflection_pad3d", f32(1, 2, 3, 4, 5), [1, 1, 1, 2, 1, 0]),
        case("replication_pad1d", f32(2, 3, 5), [1, 2]),
        case("replication_pad2d", X, [1, 2, 2, 1]),
        case("replication_pad3d", f32(1, 2, 3, 4, 5), [1, 1, 1, 2, 1, 0]),
    ),
    case("pad_sequence", [f32(3, 4), f32(5, 4), f32(2, 4)]),
    case("pad_sequence", [f32(3), f32(1)], True, -1.5).named("rows first"),
    case("pad_sequence", [f32(3, 2, 2), f32(1, 2, 2)], True, 2.0, "left").named("left"),
    case("pad_sequence", [i64(3), f32(5)], True, 2.7).named("of the first's dtype"),
    case("pad_sequence", [f32(3, 4)]).named("one"),
    case("pad", f32(2, 3, 4), [1, 2, 2, 1], "circular").named("circular"),
    case("pad", f32(2, 3, 4), [-1, 2, 1, -1], "circular").named("circular, cut"),
    case("pad", f32(1, 3, 4), [1, -1], "replicate").named("replicate, cut"),
    case("pixel_shuffle", f32(2, 8, 3, 4), 2),
    case("pixel_shuffle", f32(8, 3, 4), 2).named("single"),
    case("pixel_shuffle", f32(2, 2, 4, 3, 2), 2).named("deep"),
    case("pixel_unshuffle", f32(2, 3, 4, 6), 2),
    case("pixel_unshuffle", f32(2, 1, 4, 6), 2).named("one channel"),
    case("channel_shuffle", f32(2, 6, 3, 3), 2),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


@pytest.mark.parametrize("amounts", [[-1, 3], [2, -2]])
def test_circular_padding_by_more_than_is_left(amounts: list[int]) -> None:
    class Padded(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.pad(x, amounts, mode="circular")

    with pytest.raises(Unsupported, match="unwritten memory"):
        convert.convert(Padded().eval(), "onnx", "m.onnx", inputs=[torch.ones(2, 3, 3)], dry_run=True)


def test_circular_padding_by_amounts_that_are_computed() -> None:
    class Padded(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            n = x.shape[-1]
            amounts = ((n // 2, 1), (0, n - 2), (n, n - 1))
            return tuple(functional.pad(x, pair, mode="circular") for pair in amounts)

    model = read(Padded(), "x:float32[2,3,n=3..]")
    for length in (3, 4, 5, 8):
        agrees(Padded(), model, f32(2, 3, length))
