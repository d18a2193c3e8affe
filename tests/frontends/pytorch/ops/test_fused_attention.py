"""The rules of `frontends/pytorch/ops/fused_attention.py` against PyTorch's kernels, rows without a key too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import convert
from tests.frontends.pytorch.ops.support import check, check_unknown_sizes, layers
from tests.support.cases import Case, boolean, case, f32, params

X, KEYS, VALUES = f32(2, 5, 8), f32(2, 5, 8) + 1, f32(2, 5, 8) * 2
PROJECTIONS = f32(24, 8), f32(24), f32(8, 8), f32(8)
NORMS = f32(8) + 1, f32(8) / 2, f32(8), f32(8) * 2
FEED_FORWARD = f32(12, 8), f32(12), f32(8, 12) / 8, f32(8) / 3  # sums of some units, next to which rounding is small
CAUSAL = np.triu(np.ones((5, 5), bool), 1)
PADDED = np.arange(5) >= np.array([[3], [0]])  # the second sequence is empty


def attention(*given: np.ndarray, mask: np.ndarray | None = None, **attributes: object) -> Case:
    return case("_native_multi_head_attention", *given, 8, 2, *PROJECTIONS, mask, **attributes)


def layer(*, gelu: bool = False, first: bool = False, mask: np.ndarray | None = None, kind: int | None = None) -> Case:
    given = X, 8, 2, *PROJECTIONS, gelu, first, 1e-3, *NORMS, *FEED_FORWARD, mask, kind
    return case("_transformer_encoder_layer_fwd", *given)


ROWS = [
    *layers(
        attention(X, X, X).named("weights"),
        attention(X, KEYS, VALUES).named("three inputs"),
        attention(X, X, X, need_weights=False).named("no weights"),
        attention(X, X, X, average_attn_weights=False).named("weights of each head"),
        attention(X, X, X, mask=CAUSAL, mask_type=0).named("causal"),
        attention(X, X, X, mask=f32(5, 5).round(), mask_type=0).named("mask of numbers"),
        attention(X, X, X, mask=PADDED, mask_type=1, need_weights=False).named("padding, an empty sequence"),
        attention(X, X, X, mask=boolean(2, 2, 5, 5), mask_type=2).named("mask of heads"),
        layer(),
        layer(gelu=True, first=True).named("norm first, gelu"),
        layer(mask=CAUSAL, kind=0).named("causal"),
        layer(mask=PADDED, kind=1).named("padding, an empty sequence"),
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


@pytest.mark.slow
def test_an_encoder_traced_without_gradients_converts(tmp_path: Path) -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 2).eval()
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        torch.jit.trace(encoder, (x,)).save(tmp_path / "encoder.pt")
    verdict = convert.convert(tmp_path / "encoder.pt", "onnx", tmp_path / "encoder.onnx").verdict
    assert verdict is not None
    assert verdict.status == "PASS"
