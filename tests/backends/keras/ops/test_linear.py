"""The rules of `backends/keras/ops/linear.py` against onnxruntime: the shared rows of its operators."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.support.cases import Case, case, params

LARGE = np.int32([[30001, 7], [-30001, 32767]]), np.int32([[30003, 65535], [5, -32769]])
"""Products that float32 does not hold, and one that wraps."""

ROWS = [*shared_rows(__name__), case("MatMul", *LARGE).named("integers beyond 2²⁴")]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)
