"""Rows of normalizations with additions before them, and of embeddings."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const
from tests.frontends.onnx.ops.support import check
from tests.support.cases import Case, case, f32, params

MS = "com.microsoft"
X, SKIP, GAMMA, BETA = f32(2, 3, 8), f32(2, 3, 8), const(f32(8)), const(f32(8))
IDS = np.array([[1, 4, 0], [2, 3, 1]], np.int32)
SEGMENTS = np.array([[0, 0, 1], [0, 1, 1]], np.int32)
TABLES = const(f32(5, 8)), const(f32(7, 8)), const(f32(2, 8))
MASK = np.array([[1, 1, 0], [1, 0, 0]], np.int32)
ROWS = params(
    [
        case("LayerNormalization", X, GAMMA, BETA),
        case("LayerNormalization", X, const(f32(3, 8)), axis=1, epsilon=0.1).named("of two axes"),
        case("SimplifiedLayerNormalization", X, GAMMA, axis=-1, epsilon=1e-6, stash_type=1),
        case(f"{MS}::SkipLayerNormalization", X, SKIP, GAMMA, BETA, epsilon=1e-5),
        case(f"{MS}::SkipLayerNormalization", X, SKIP, GAMMA).named("without beta"),
        case(
            f"{MS}::SkipLayerNormalization", X, f32(3, 8), GAMMA, BETA, const(f32(8)), _dynamic=False
        ).named("of one skip for all"),
        case(f"{MS}::SkipSimplifiedLayerNormalization", X, SKIP, GAMMA, epsilon=1e-6),
        case(f"{MS}::SkipSimplifiedLayerNormalization", X, SKIP, GAMMA, const(f32(8))).named("with a bias"),
        case(f"{MS}::EmbedLayerNormalization", IDS, SEGMENTS, *TABLES, GAMMA, BETA, MASK, _outputs=3),
        case(
            f"{MS}::EmbedLayerNormalization", IDS, SEGMENTS, *TABLES, GAMMA, BETA, MASK, mask_index_type=1, _outputs=2
        ).named("with a count"),
        case(f"{MS}::EmbedLayerNormalization", IDS, None, *TABLES[:2], None, GAMMA, BETA, epsilon=1e-5, _outputs=2)
        .named("without segments"),
        case(
            f"{MS}::EmbedLayerNormalization", IDS, None, *TABLES[:2], None, GAMMA, BETA, None, IDS[:, ::-1].copy(),
            _outputs=2,
        ).named("with positions"),
    ]
)  # fmt: skip


BY_GROUP = params(
    [
        case("GroupNormalization", f32(2, 6, 4, 3), const(f32(3)), const(f32(3)), num_groups=3),
        case(
            "GroupNormalization", f32(2, 4, 5).astype(np.float16), const(f32(2).astype(np.float16)),
            const(f32(2).astype(np.float16)), num_groups=2, epsilon=0.1, _dynamic=False,
        ).named("of halves"),
    ]
)  # fmt: skip


@pytest.mark.parametrize("row", BY_GROUP)
def test_a_group_norm_of_opset_18_has_a_scale_by_group(row: Case) -> None:
    check(row, opset=18)


@pytest.mark.parametrize("row", ROWS)
def test_it_is_what_onnx_runtime_computes(row: Case) -> None:
    check(row)
