"""The rules of `backends/keras/ops/activation.py` against onnxruntime: the shared rows of its operators, and more."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.backends.tensorflow.ops.onnx_cases import const
from tests.support.cases import Case, case, f32, params

ROWS = [
    *shared_rows(__name__),
    case("PRelu", f32(2, 3, 4, 5), const(f32(3, 1, 1))),
    case("Hardmax", np.float32([[-0.0, 0.0, -1.0], [0.0, -0.0, -1.0]])).named("zeros of both signs"),
    case("Clip", f32(2, 9), const(np.array(0, np.float32)), const(np.array(6, np.float32))),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)
