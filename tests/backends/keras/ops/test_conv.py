"""The rules of `backends/keras/ops/conv.py` against onnxruntime: the shared rows of its operators, and more."""

from __future__ import annotations

import pytest

from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.support.cases import Case, case, f32, params

ROWS = [
    *shared_rows(__name__),
    case("Conv", f32(2, 4, 7, 8), f32(6, 2, 3, 3), f32(6), group=2, pads=[1, 0, 1, 2]).named("computed kernel"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)
