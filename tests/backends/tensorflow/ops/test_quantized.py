"""Quantized products written out for TensorFlow, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const, number
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, i32, i64, params


def bytes_of(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


u8 = i64(2, 4, 5, 5, low=0, high=255).astype(np.uint8)
FULL = np.full((3, 600), 255, np.uint8)

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
    *(
        case(
            "MatMulInteger", FULL[:, :k], const(np.full((k, 5), -128, np.int8)), None, const(number(127, np.int8))
        ).named(f"sums of {k} products of the largest")
        for k in (258, 259, 600)
    ),
    case("MatMulInteger", bytes_of(2, 3, 300), bytes_of(2, 300, 4, seed=1)).named("of a batch"),
    case("ConvInteger", bytes_of(1, 40, 5, 5), const(bytes_of(3, 40, 3, 3, seed=1))).named("of many channels"),
    case("ConvInteger", bytes_of(1, 4, 5, 5), const(bytes_of(8, 1, 3, 3, seed=1)), group=4).named("of each channel"),
    case("ConvInteger", bytes_of(1, 80, 5, 5), const(bytes_of(4, 40, 3, 3, seed=1)), group=2).named("of large groups"),
    case("ConvInteger", bytes_of(1, 40, 9), const(bytes_of(3, 40, 9, seed=1)), dilations=[1]).named("1d"),
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
    case(
        "QLinearMatMul",
        bytes_of(3, 700),
        number(0.02),
        number(120, np.uint8),
        const(bytes_of(700, 5, seed=1)),
        const(np.float32([0.01, 0.02, 0.03, 0.04, 0.05])),
        const(np.uint8([100, 110, 120, 130, 140])),
        number(20.0),
        number(99, np.uint8),
    ).named("of long sums, by column"),
    case(
        "QLinearConv",
        bytes_of(1, 40, 5, 5),
        number(0.02),
        number(9, np.uint8),
        const(bytes_of(3, 40, 3, 3, seed=1).astype(np.int8)),
        const(np.float32([0.01, 0.02, 0.03])),
        const(np.zeros(3, np.int8)),
        number(4.0),
        number(99, np.uint8),
    ).named("of many channels, by channel"),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
