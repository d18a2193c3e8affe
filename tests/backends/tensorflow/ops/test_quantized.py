"""The rules of `backends/tensorflow/ops/quantized.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const, number
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, i32, i64, params

u8 = i64(2, 4, 5, 5, low=0, high=255).astype(np.uint8)

ROWS = [
    case(
        "MatMulInteger",
        i64(3, 4, low=0, high=255).astype(np.uint8),
        i64(4, 5).astype(np.int8),
        number(7, np.uint8),
        number(1, np.int8),
    ),
    case(
        "MatMulInteger", i64(3, 4, low=0, high=255).astype(np.uint8), const(i64(4, 5, low=0, high=255).astype(np.uint8))
    ),
    case(
        "ConvInteger",
        u8,
        const(i64(3, 4, 3, 3, low=0, high=9).astype(np.uint8)),
        number(3, np.uint8),
        pads=[1, 1, 1, 1],
    ),
    case(
        "QLinearMatMul",
        i64(3, 4, low=0, high=255).astype(np.uint8),
        number(0.02),
        number(9, np.uint8),
        i64(4, 5, low=0, high=255).astype(np.uint8),
        number(0.03),
        number(100, np.uint8),
        number(0.5),
        number(99, np.uint8),
    ),
    case(
        "QLinearConv",
        u8,
        number(0.02),
        number(9, np.uint8),
        const(i64(3, 4, 3, 3, low=0, high=255).astype(np.uint8)),
        number(0.03),
        const(number(100, np.uint8)),
        number(0.5),
        number(99, np.uint8),
        const(i32(3)),
        strides=[2, 2],
    ),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
