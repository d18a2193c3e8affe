"""The rules of `backends/caffe2/ops/activation.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import Nets, Row, both, check, weight
from tests.support.cases import case, f32, i32

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, 88.0, -88.0, np.inf, -np.inf, np.nan], np.float32)
UNIT = f32(2, 5, low=-1, high=1)

ROWS = both(
    [
        case("Softsign", UNIT),
        *(case(name, f32(2, 5)) for name in ("Sigmoid", "Tanh")),
        *(case(name, SPECIAL).named("special") for name in ("Relu", "Softplus")),
        case("Softplus", UNIT * 1e-3).named("small"),
        case("Relu", f32(2, 3, 4)),
        case("Relu", i32(2, 3)),
        case("LeakyRelu", f32(2, 3), alpha=0.2),
        case("LeakyRelu", f32(2, 3)),
        case("ThresholdedRelu", f32(2, 9), alpha=0.7),
        case("Elu", f32(2, 9), alpha=0.7),
        case("Selu", f32(2, 9)),
        case("Selu", f32(2, 9), alpha=2.0, gamma=3.0),
        case("Celu", f32(2, 9), alpha=2.0),
        case("PRelu", f32(2, 3, 4), weight(f32(3, 1))),
        case("PRelu", f32(2, 3, 4, 5), weight(f32(3, 1, 1))),
        case("HardSigmoid", f32(2, 9)),
        case("HardSigmoid", f32(2, 9), alpha=0.5, beta=0.6),
        case("HardSwish", f32(4, 9, low=-5, high=5)),
        case("Gelu", f32(4, 9, low=-5, high=5)),
        case("Gelu", f32(4, 9, low=-5, high=5), approximate="tanh"),
        case("Softplus", f32(4, 9, low=-30, high=30)),
        case("Mish", f32(4, 9, low=-5, high=5)),
        case("Shrink", f32(4, 9), lambd=1.0, bias=0.5),
        case("Softmax", f32(2, 3, 4)),
        case("Softmax", f32(2, 3, 4), axis=1),
        case("Softmax", f32(2, 3), axis=0),
        case("LogSoftmax", f32(2, 10), axis=1),
        case("LogSoftmax", f32(2, 3, 4, low=-200, high=200), axis=1),
        case("Celu", SPECIAL).named("special"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
