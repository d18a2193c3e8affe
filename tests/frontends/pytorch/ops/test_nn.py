"""The rules of `frontends/pytorch/ops/nn.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes, layers
from tests.support.cases import Case, case, f32, i64, params

X = f32(2, 4, 6, 7)
VAR = np.abs(f32(4)) + 0.5
HALVES = f32(2, 4, 8).astype(np.float16)

ROWS = [
    *layers(
        case("batch_norm", X, f32(4), f32(4), f32(4), VAR, False, 0.1, 1e-3, False),
        case("batch_norm", X, None, None, f32(4), VAR, False, 0.1, 1e-5, False).named("plain"),
        case("batch_norm", f32(5, 4), f32(4), f32(4), f32(4), VAR, False, 0.1, 1e-5, False).named("rows"),
        case("batch_norm", X, f32(4), f32(4), None, None, True, 0.1, 1e-5, False).named("batch statistics"),
        case("_native_batch_norm_legit_no_training", X, f32(4), f32(4), f32(4), VAR, 0.1, 1e-5),
        case("instance_norm", X, f32(4), f32(4), None, None, True, 0.1, 1e-5, False),
        case("instance_norm", X, None, None, f32(4), VAR, False, 0.1, 1e-5, False).named("tracked"),
        case("layer_norm", f32(2, 3, 8), [8], f32(8), f32(8)),
        case("_weight_norm", f32(3, 4, 5), f32(3, 1, 1)),
        case("_weight_norm", f32(3, 4, 5), f32(1, 1, 5), 2).named("last"),
        case("layer_norm", f32(2, 3, 8), [3, 8]).named("plain"),
        case("layer_norm", f32(2, 3, 8), [8], f32(8), None, 1e-3).named("no bias"),
        case("native_layer_norm", f32(2, 3, 8), [8], f32(8), f32(8), 1e-5),
        case("layer_norm", HALVES, [8], f32(8), f32(8)).named("halves"),
        case("rms_norm", HALVES, [8], f32(8)).named("halves"),
        case("group_norm", HALVES, 2, f32(4), f32(4)).named("halves"),
        case("batch_norm", HALVES, f32(4), f32(4), f32(4), VAR, False, 0.1, 1e-3, False).named("halves"),
        case("group_norm", X, 2, f32(4), f32(4)),
        case("group_norm", f32(2, 4, 5), 4).named("plain"),
        case("rms_norm", f32(2, 3, 8), [8], f32(8), 1e-6),
        case("rms_norm", f32(2, 3, 8), [8]).named("plain"),
        case("rms_norm", np.full((2, 8), 2**-5, np.float16), [8]).named("epsilon of halves"),
        case("_fused_rms_norm", f32(2, 3, 8), [8], f32(8), 1e-6),
        case("cosine_similarity", f32(2, 5), f32(2, 5) + 1),
        case("cosine_similarity", X, X * 2 + 1, 1, 0.5).named("channels"),
        case("cosine_similarity", f32(1, 2, 3), f32(2, 1, 3), -2).named("broadcast"),
        case("cosine_similarity", f32(2, 3), f32(2, 1, 3), -1).named("ranks"),
        case("embedding", f32(5, 3), i64(2, 4, low=0, high=5)),
        case("linear", f32(2, 3), f32(4, 3), f32(4)),
        case("linear", f32(2, 5, 3), f32(4, 3), f32(4)).named("three dims"),
        case("linear", f32(3), f32(4, 3)).named("vector"),
        case("linear", f32(2, 3), f32(4, 3)).named("no bias"),
        case("bilinear", f32(2, 3), f32(2, 4), f32(5, 3, 4), f32(5)),
    ),
    case("native_group_norm", f32(2, 4, 6), f32(4), f32(4), 2, 4, 6, 2, 1e-5),
    case("_native_batch_norm_legit_functional", f32(4, 3, 5), f32(3), f32(3), f32(3), np.abs(f32(3)), True, 0.3, 1e-3),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
