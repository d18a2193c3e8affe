"""The rules of `backends/caffe2/ops/attention.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import Nets, Row, both, check
from tests.support.cases import boolean, case, f32

Q = f32(2, 4, 3, 8)
K = f32(2, 4, 5, 8)
PACKED = (f32(2, 3, 32), f32(2, 5, 32), f32(2, 5, 32))
HEADS = {"fixed": (1, 3)}  # the axes whose size is also known in the dynamic case

ROWS = both(
    [
        case("Attention", Q, K, K, **HEADS),
        case("Attention", Q, K, K, scale=0.5, is_causal=1, **HEADS).named("causal"),
        case("Attention", Q, K, K, f32(3, 5), fixed=(1, 3)).named("bias"),
        case("Attention", Q, K, K, boolean(2, 1, 3, 5) | (np.arange(5) == 0), **HEADS).named("mask"),
        case("Attention", *PACKED, q_num_heads=4, kv_num_heads=4, softcap=2.0, fixed=(2,)).named("packed"),
        case("Attention", Q, K[:, :2], K[:, :2], **HEADS).named("grouped"),
        case("Attention", Q, K, K, None, f32(2, 4, 2, 8), f32(2, 4, 2, 8), outputs=3, **HEADS).named("past"),
        case(
            "Attention",
            f32(2, 4, 3, 8),
            f32(2, 4, 5, 8),
            f32(2, 4, 5, 8),
            boolean(3, 5) & (np.arange(3) != 1)[:, None],
            fixed=(1, 3),
        ).named("nothing"),
        case(
            "Attention",
            f32(1, 2, 3, 8),
            f32(1, 2, 2, 8),
            f32(1, 2, 2, 8),
            None,
            f32(1, 2, 4, 8),
            f32(1, 2, 4, 8),
            is_causal=1,
            softcap=2.0,
            outputs=4,
            qk_matmul_output_mode=1,
            fixed=(0, 1, 3),
        ).named("past"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
