"""Rows of attention and of rotated positions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const
from tests.frontends.onnx.ops.support import check
from tests.support.cases import Case, case, f32, params

MS = "com.microsoft"
X, WEIGHTS, BIAS = f32(2, 3, 8), const(f32(8, 24) / 3), const(f32(24))
KEYS = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
LEFT = np.array([[0, 1, 1], [0, 0, 1]], np.int32)
PAST = f32(2, 2, 2, 4, 4)
BYTES, HALF_STEP = (np.arange(48) * 7 % 31).reshape(2, 3, 8).astype(np.uint8), const(np.array(0.02, np.float32))
Q, K, V = f32(2, 3, 8), f32(2, 5, 8), f32(2, 5, 12)
COSINES, SINES = const(f32(6, 2)), const(f32(6, 2))
PLACES = np.array([[0, 1, 2], [3, 5, 4]], np.int64)
ROWS = params(
    [
        case(f"{MS}::Attention", X, WEIGHTS, BIAS, num_heads=2),
        case(f"{MS}::Attention", X, WEIGHTS, None, num_heads=4, scale=0.3, unidirectional=1).named("causal"),
        case(f"{MS}::Attention", X, WEIGHTS, BIAS, KEYS, num_heads=2).named("with a mask"),
        case(f"{MS}::Attention", X, WEIGHTS, BIAS, LEFT, num_heads=2, unidirectional=1).named("padded on the left"),
        case(
            f"{MS}::Attention", X, WEIGHTS, BIAS, np.stack([KEYS, LEFT, KEYS], 1), num_heads=2,
            mask_filter_value=-3.0,
        ).named("of three dims"),
        case(
            f"{MS}::Attention", X, WEIGHTS, BIAS, np.array([2, 3], np.int32), num_heads=2, _dynamic=False
        ).named("with ends"),
        case(
            f"{MS}::Attention", X, WEIGHTS, BIAS, np.array([3, 2, 1, 0], np.int32), num_heads=2, _dynamic=False
        ).named("with starts"),
        case(
            f"{MS}::Attention", X, const(f32(8, 20)), const(f32(20)), num_heads=2, qkv_hidden_sizes=[8, 8, 4]
        ).named("of narrow values"),
        case(
            f"{MS}::Attention", X, WEIGHTS, BIAS, None, PAST, num_heads=2, unidirectional=1, _outputs=2,
            _dynamic=False,
        ).named("with a past"),
        case(
            f"{MS}::Attention", X, WEIGHTS, BIAS, None, None, f32(1, 2, 3, 3), num_heads=2, _dynamic=False
        ).named("with a bias of places"),
        case(
            f"{MS}::QAttention", BYTES, const(np.arange(192).reshape(8, 24).astype(np.uint8) % 60), BIAS, HALF_STEP,
            HALF_STEP, KEYS, const(np.array(7, np.uint8)), const(np.array(30, np.uint8)), num_heads=2,
        ),
        case(
            f"{MS}::QAttention", BYTES, const((np.arange(192).reshape(8, 24) % 60 - 30).astype(np.int8)), BIAS,
            HALF_STEP, HALF_STEP, None, None, None, PAST, num_heads=2, unidirectional=1, _outputs=2, _dynamic=False,
        ).named("with a past"),
        case(f"{MS}::MultiHeadAttention", Q, K, V, num_heads=2),
        case(f"{MS}::MultiHeadAttention", Q, K, V, const(f32(28)), num_heads=2, scale=0.2).named("with a bias"),
        case(
            f"{MS}::MultiHeadAttention", Q, f32(2, 3, 8), f32(2, 3, 8), None, KEYS, num_heads=2, unidirectional=1
        ).named("causal"),
        case(
            f"{MS}::MultiHeadAttention", Q, f32(2, 2, 5, 4), f32(2, 2, 5, 4), num_heads=2, _dynamic=False
        ).named("of another's keys"),
        case(
            f"{MS}::MultiHeadAttention", Q, f32(2, 3, 8), f32(2, 3, 8), None, None, f32(2, 2, 3, 7), f32(2, 2, 4, 4),
            f32(2, 2, 4, 4), num_heads=2, _outputs=3, _dynamic=False,
        ).named("with a past"),
        case(f"{MS}::RotaryEmbedding", f32(2, 3, 8), PLACES, COSINES, SINES),
        case(f"{MS}::RotaryEmbedding", f32(2, 2, 3, 4), PLACES, COSINES, SINES, interleaved=1).named("interleaved"),
        case(f"{MS}::RotaryEmbedding", f32(2, 3, 8), const([2]), COSINES, SINES).named("from a place"),
        case(
            f"{MS}::RotaryEmbedding", f32(2, 3, 16), PLACES, COSINES, SINES, num_heads=2, rotary_embedding_dim=4
        ).named("of a part"),
    ]
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_it_is_what_onnx_runtime_computes(row: Case) -> None:
    check(row)
