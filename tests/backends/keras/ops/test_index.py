"""The rules of `backends/keras/ops/index.py` against onnxruntime: the shared rows of its operators, and more."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.backends.tensorflow.ops.onnx_cases import const
from tests.support.cases import Case, case, f32, i64, params

ROWS = [
    *shared_rows(__name__),
    case("Compress", f32(3, 4), const(np.array([True, False, True])), axis=0),
    case("OneHot", i64(2, 3), const(np.array(6)), const(np.array([0, 1]))).named("numbers of int64"),
    case("OneHot", i64(2, 3), const(np.array(6)), const(np.array([0.5, 2], np.float32)), axis=-2).named("axis -2"),
    case("Gather", const(f32(7, 4)), i64(2, 3, low=-7, high=7)).named("embedding"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)
