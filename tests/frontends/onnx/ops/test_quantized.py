"""Rows of operators on quantized tensors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import Const, const
from tests.frontends.onnx.ops.support import check
from tests.support.cases import Case, case, f32, params

MS = "com.microsoft"


def _steps(*shape: int, dtype: type = np.uint8, seed: int = 0) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def _few(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    """Return steps whose products with 8-bit integers fit 16 bits, in which some processors add them."""
    return (_steps(*shape, dtype=dtype) // 4).astype(dtype)


def _scale(value: float) -> Const:
    return const(np.array(value, np.float32))


def _zero(value: int, dtype: type = np.uint8) -> Const:
    return const(np.array(value, dtype))


X, SIDE = _steps(2, 3, 5, 4), (_scale(0.021), _zero(120))
OUT = _scale(0.043), _zero(117)
SIGNED = _steps(2, 3, 4, dtype=np.int8), _scale(0.03), _zero(-5, np.int8)
ROWS = params(
    [
        case(f"{MS}::QLinearAdd", X, *SIDE, _steps(4, seed=1), _scale(0.011), _zero(3), *OUT),
        case(f"{MS}::QLinearAdd", *SIGNED, *SIGNED, _scale(0.07), _zero(9, np.int8)).named("signed"),
        case(f"{MS}::QLinearMul", X, *SIDE, _steps(3, 1, 1, seed=1), _scale(0.011), _zero(3), *OUT),
        case(f"{MS}::QLinearSigmoid", X, *SIDE, _scale(1 / 256), _zero(0)),
        case(f"{MS}::QLinearLeakyRelu", X, *SIDE, *OUT, alpha=0.2),
        case(f"{MS}::QLinearLeakyRelu", *SIGNED, _scale(0.03), _zero(9, np.int8)).named("signed"),
        case(f"{MS}::QLinearSoftmax", X, *SIDE, _scale(1 / 256), _zero(0), axis=-1, opset=13),
        case(f"{MS}::QLinearSoftmax", X, *SIDE, _scale(1 / 256), _zero(0), axis=1, opset=13).named("of channels"),
        case(f"{MS}::QLinearSoftmax", X, *SIDE, _scale(1 / 256), _zero(0), axis=2, opset=11).named("of the rest"),
        case(f"{MS}::QLinearGlobalAveragePool", X, *SIDE, *OUT),
        case(f"{MS}::QLinearGlobalAveragePool", X, *SIDE, *OUT, channels_last=1).named("of channels last"),
        case(
            f"{MS}::QLinearAveragePool", X, *SIDE, *OUT, kernel_shape=[3, 2], pads=[1, 1, 1, 0], strides=[2, 1],
            count_include_pad=1,
        ),
        case(f"{MS}::QLinearAveragePool", X, *SIDE, *OUT, kernel_shape=[2, 2], channels_last=1).named("channels last"),
        case(f"{MS}::QLinearConcat", *OUT, X, *SIDE, _steps(2, 3, 2, 4), _scale(0.05), _zero(9), axis=2),
        case(
            f"{MS}::QLinearWhere", np.array([True, False, True, True]), X, *SIDE, X[::-1].copy(), _scale(0.05),
            _zero(9), *OUT,
        ),
        case(
            f"{MS}::QGemm", _steps(2, 6), *SIDE, const(_few(4, 6, dtype=np.int8)), _scale(0.01), _zero(0, np.int8),
            const(np.array([5, -700, 300, 0], np.int32)), _scale(0.4), _zero(100), transB=1,
        ),
        case(
            f"{MS}::QGemm", _steps(6, 2), *SIDE, const(_steps(6, 4)), const(f32(4, low=0.01, high=0.1)),
            const(_steps(4)), None, None, None, transA=1, alpha=0.5,
        ).named("to floats"),
        case(
            f"{MS}::MatMulIntegerToFloat", _steps(2, 3, 6), const(_few(6, 4, dtype=np.int8)), _scale(0.02),
            const(f32(4, low=0.01, high=0.1)), _zero(7), const(np.zeros(4, np.int8)), const(f32(4)),
        ),
        case(f"{MS}::MatMulIntegerToFloat", _steps(2, 6), const(_steps(6, 4)), _scale(0.02), _scale(0.1)).named(
            "without zero points"
        ),
        case(
            f"{MS}::DynamicQuantizeMatMul", f32(2, 3, 6), const(_few(6, 4, dtype=np.int8)), _scale(0.02),
            _zero(0, np.int8), const(f32(4)),
        ),
    ]
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_it_is_what_onnx_runtime_computes(row: Case) -> None:
    """Results may differ by one step at exact midpoints (see the module of the rules)."""
    check(row)
