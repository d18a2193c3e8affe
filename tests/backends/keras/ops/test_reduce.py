"""The rules of `backends/keras/ops/reduce.py` against onnxruntime: the shared rows of its operators."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.support.cases import Case, case, params

ZEROS = np.float32([[-0.0, 0.0, -1.0], [0.0, -0.0, 1.0]])
EXTREMES = ("ArgMax", "ArgMin")
ROWS = [
    *shared_rows(__name__),
    *(
        case(name, ZEROS * sign, axis=1, select_last_index=last).named(f"zeros {sign} {last}")
        for name in EXTREMES
        for sign in (1, -1)
        for last in (0, 1)
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)
