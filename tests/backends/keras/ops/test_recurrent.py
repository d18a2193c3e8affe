"""The rules of `backends/keras/ops/recurrent.py` against onnxruntime: the shared rows of its operators, and more."""

from __future__ import annotations

import pytest

from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.backends.tensorflow.ops.onnx_cases import const
from tests.support.cases import Case, case, f32, params

ROWS = [
    *shared_rows(__name__),
    case(
        "LSTM", f32(5, 3, 4), const(f32(1, 24, 4)), const(f32(1, 24, 6)), hidden_size=6, direction="reverse", _outputs=3
    ),
    case("GRU", f32(3, 5, 4), const(f32(1, 18, 4)), const(f32(1, 18, 6)), hidden_size=6, layout=1, _outputs=2),
    case(
        "RNN", f32(5, 3, 4), const(f32(1, 6, 4)), const(f32(1, 6, 6)), hidden_size=6, activations=["Relu"], _outputs=2
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)
