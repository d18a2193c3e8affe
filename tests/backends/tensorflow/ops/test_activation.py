"""The rules of `backends/tensorflow/ops/activation.py` against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import SPECIAL, const, number
from tests.backends.tensorflow.ops.support import DYNAMIC
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, f64, i32, i64, params

ROWS = [
    *(case(name, f32(2, 3, 4)) for name in ("Elu", "HardSwish", "Mish", "Relu", "Selu", "Softplus")),
    case("Relu", i32(7)),
    case("LeakyRelu", f32(2, 3)),
    case("LeakyRelu", f32(2, 3), alpha=0.2),
    case("LeakyRelu", f32(2, 3), alpha=-0.3).named("negative"),
    case("Elu", f32(2, 3), alpha=0.5),
    case("Selu", f32(2, 3), alpha=2.0, gamma=3.0),
    case("Celu", f32(2, 3)),
    case("Celu", f32(2, 3), alpha=2.0),
    case("ThresholdedRelu", f32(2, 3)),
    case("ThresholdedRelu", f32(2, 3), alpha=0.3),
    case("PRelu", f32(2, 3, 4), f32(3, 1)),
    case("PRelu", f32(2, 3), const(f32(3))),
    case("PRelu", f32(2, 3, 4, 5), const(np.full((1, 1, 1), 0.25, np.float32))),
    case("PRelu", f32(2, 3, 4), np.full((1, 1), 0.25, np.float32)),
    case("Shrink", f32(9), lambd=0.5, bias=0.2),
    case("Shrink", i32(9), lambd=2.0, bias=1.0),
    case("Gelu", f32(2, 3)),
    case("Gelu", f32(2, 3), approximate="tanh"),
    case("Gelu", f64(2, 3)).named("double"),
    case("Gelu", f64(2, 3), approximate="tanh").named("double tanh"),
    case("Swish", f32(2, 3)),
    case("HardSigmoid", f32(2, 3)),
    case("HardSigmoid", f32(2, 3), alpha=0.5, beta=0.6),
    case("Clip", f32(9)),
    case("Clip", f32(9), number(-0.5)),
    case("Clip", f32(9), None, number(0.5)),
    case("Clip", f32(9), number(1.0), number(-1.0)),
    case("Clip", 9 * f32(9), const(np.float32(0)), const(np.float32(6))),
    case("Clip", SPECIAL, const(np.float32(0)), const(np.float32(6))),
    case("Clip", i64(9), number(-2, np.int64), number(2, np.int64)),
    *(case(name, f32(2, 3, 4), axis=axis) for name in ("Softmax", "LogSoftmax", "Hardmax") for axis in (-1, 0, 1)),
    *(
        case(name, f32(2, 1, 3, 2, 1, 2), axis=axis).named("six dims")
        for name in ("Softmax", "LogSoftmax")
        for axis in (-1, 2)
    ),
    *(case(name, np.zeros((2, 5000), np.float16)).named("of many halves") for name in ("Softmax", "LogSoftmax")),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("onednn", ["1", pytest.param("0", marks=pytest.mark.slow)])
def test_mish_is_exact_where_it_is_next_to_nothing(onednn: str, dtype: Any, workers: Workers) -> None:
    """oneDNN's own kernel for x · tanh(softplus(x)) has an absolute error of 1e-6, even if all results are far
    smaller.
    """
    size = np.array([1e-4, 1e-2, 1, 3, 5, 8, 10, 12, 16, 19, 21, 30, 60], dtype)
    x = np.concatenate([-size, size]).reshape(1, 2, 13)
    if dtype is np.float16:
        x = x[x > -8].reshape(1, 1, -1)
    wide = x.astype(np.float64)
    (found,) = workers[onednn].run(case("Mish", x), DYNAMIC)
    rounding = {np.float32: 1e-6, np.float64: 1e-14, np.float16: 5e-3}[dtype]
    np.testing.assert_allclose(found.astype(np.float64), wide * np.tanh(np.logaddexp(0, wide)), rtol=rounding)
