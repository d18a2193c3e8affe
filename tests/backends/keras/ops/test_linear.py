"""The rules of `backends/keras/ops/linear.py` against onnxruntime: the shared rows of its operators."""

from __future__ import annotations

import pytest

from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.support.cases import Case, params

ROWS = shared_rows(__name__)


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)
