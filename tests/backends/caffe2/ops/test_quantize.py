"""Quantization and quantized products written out, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import Nets, Row, both, check, weight
from tests.support.cases import case, f32, i32, i64


def u8(*shape: int) -> np.ndarray:
    return i64(*shape, low=0, high=256).astype(np.uint8)


def i8(*shape: int) -> np.ndarray:
    return i64(*shape, low=-128, high=128).astype(np.int8)


SCALE = weight(np.float32(0.05))
ZERO = weight(np.uint8(120))
BY_ROW = [weight(np.array([0.05, 0.1, 0.02], np.float32)), weight(np.array([0, 128, 7], np.uint8))]

ROWS = both(
    [
        case("QuantizeLinear", f32(3, 40, low=-9, high=9), SCALE, ZERO),
        case("QuantizeLinear", f32(3, 40, low=-9, high=9), SCALE),
        case("QuantizeLinear", f32(3, 5, low=-9, high=9), weight(np.float32(0.5)), weight(np.int16(3))).named("int16"),
        case("QuantizeLinear", f32(4, 3, 2), *BY_ROW).named("axis"),
        case("DequantizeLinear", u8(3, 4), SCALE, ZERO),
        case("DequantizeLinear", i8(3, 4), SCALE),
        case("DequantizeLinear", u8(4, 3, 2), *BY_ROW).named("axis"),
        case("DequantizeLinear", u8(4, 6), weight(f32(4, 3, low=0.1)), axis=1, block_size=2).named("blocks"),
        case("DynamicQuantizeLinear", f32(3, 4), outputs=3),
        case("MatMulInteger", u8(3, 4), u8(4, 2), fixed=(1,)),
        case("MatMulInteger", u8(3, 700), weight(i8(700, 2)), weight(np.uint8(128)), fixed=(1,)).named("long"),
        case(
            "QLinearMatMul",
            u8(3, 4),
            SCALE,
            ZERO,
            weight(u8(4, 2)),
            SCALE,
            ZERO,
            weight(np.float32(0.5)),
            ZERO,
            fixed=(1,),
        ),
        case("ConvInteger", u8(1, 2, 5, 5), weight(u8(3, 2, 3, 3)), weight(np.uint8(10)), pads=[1] * 4),
        case("ConvInteger", u8(1, 90, 4, 4), weight(u8(3, 90, 2, 2))).named("deep"),
        case(
            "QLinearConv", u8(1, 2, 5, 5), SCALE, ZERO, weight(u8(3, 2, 3, 3)), SCALE, ZERO, weight(np.float32(2)), ZERO
        ),
        case(
            "QLinearConv",
            u8(1, 2, 5, 5),
            SCALE,
            ZERO,
            weight(i8(3, 2, 3, 3)),
            BY_ROW[0],
            weight(np.zeros(3, np.int8)),
            weight(np.float32(2)),
            ZERO,
            weight(i32(3)),
            pads=[1] * 4,
        ).named("channels"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
