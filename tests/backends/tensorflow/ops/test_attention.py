"""The rules of `backends/tensorflow/ops/attention.py` against onnxruntime."""

from __future__ import annotations

import pytest

from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, boolean, case, f32, params

ROWS = [
    *(case("Attention", f32(2, 3, 4, 8), f32(2, 3, 6, 8), f32(2, 3, 6, 5), is_causal=c) for c in (0, 1)),
    case("Attention", f32(2, 4, 24), f32(2, 6, 12), f32(2, 6, 8), q_num_heads=4, kv_num_heads=2, scale=0.3),
    case("Attention", f32(2, 3, 4, 8), f32(2, 3, 6, 8), f32(2, 3, 6, 5), f32(4, 6)),
    case("Attention", f32(2, 3, 4, 8), f32(2, 3, 6, 8), f32(2, 3, 6, 5), boolean(2, 1, 4, 6), softcap=2.0),
    case(
        "Attention",
        f32(1, 2, 3, 8),
        f32(1, 2, 3, 8),
        f32(1, 2, 3, 8),
        None,
        f32(1, 2, 4, 8),
        f32(1, 2, 4, 8),
        is_causal=1,
        _outputs=3,
    ),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
