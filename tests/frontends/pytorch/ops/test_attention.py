"""The rules of `frontends/pytorch/ops/attention.py` against PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import convert
from tests.frontends.pytorch.ops.support import check, check_unknown_sizes, layers
from tests.support.cases import Case, boolean, case, f32, params

HEADS = f32(2, 3, 5, 8)

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
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
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
