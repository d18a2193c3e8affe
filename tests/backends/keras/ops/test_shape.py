"""The rules of `backends/keras/ops/shape.py` against onnxruntime: the shared rows of its operators, and more."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.backends.tensorflow.ops.onnx_cases import const
from tests.support.cases import Case, case, f32, params

ROWS = [
    *shared_rows(__name__),
    case("Range", *(const(n, np.int64) for n in (10, 3, -2))),
    *(
        case("Trilu", f32(4, 5), const(np.array(n)), upper=u).named(f"{n} {u}")
        for n in (-5, 6, -(2**63), 2**63 - 1)
        for u in (0, 1)
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)
