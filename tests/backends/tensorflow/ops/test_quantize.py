"""Quantization written out for TensorFlow, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import HALVES, const, number
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, i32, i64, params

ROWS = [
    case("QuantizeLinear", f32(2, 3, low=-9, high=9), number(0.05), number(3, np.uint8)),
    case("QuantizeLinear", HALVES, number(1.0), number(0, np.int8)),
    case("QuantizeLinear", f32(2, 3, 4), f32(3, low=0.01), const(np.zeros(3, np.int8)), axis=1),
    case("QuantizeLinear", f32(2, 3), number(0.05)),
    case(
        "QuantizeLinear", np.arange(5, 12, 1 / 64).astype(np.float16), number(0.1, np.float16), number(0, np.uint8)
    ).named("of halves"),
    case(
        "QuantizeLinear",
        np.arange(5, 12, 1 / 64).astype(np.float16),
        number(0.1, np.float16),
        number(0, np.uint8),
        precision=1,
    ).named("of halves in float32"),
    case("DequantizeLinear", i64(2, 3, low=0, high=255).astype(np.uint8), number(0.05), number(128, np.uint8)),
    case("DequantizeLinear", i32(2, 3), number(0.05)),
    case(
        "DequantizeLinear", i64(2, 3, 4).astype(np.int8), f32(3, low=0.01), const(np.array([1, 2, 3], np.int8)), axis=1
    ),
    case("DequantizeLinear", i64(6, 4).astype(np.int8), f32(3, 4, low=0.01), axis=0, block_size=2),
    case("DynamicQuantizeLinear", f32(2, 3), _outputs=3),
    case("DynamicQuantizeLinear", np.zeros((2, 3), np.float32), _outputs=3).named("of zeros"),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
