"""Quantization in Keras against onnxruntime: the shared rows of its operators, and more."""

from __future__ import annotations

import pytest

from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.support.cases import Case, case, f32, params

ROWS = [
    *shared_rows(__name__),
    case("DynamicQuantizeLinear", f32(3, 4), _outputs=3),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)
