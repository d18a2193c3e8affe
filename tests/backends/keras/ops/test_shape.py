"""The rules of `backends/keras/ops/shape.py` against onnxruntime: the shared rows of its operators, and more."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.backends.tensorflow.ops.onnx_cases import const, ints
from tests.support.cases import Case, case, f32, params

ROWS = [
    *shared_rows(__name__),
    case("Reshape", f32(6, 4), ints(2, 3, 4)).named("computed, split"),
    case("Reshape", f32(2, 4, 2), ints(4, 2, 2)).named("computed, of equal dims"),
    case("Reshape", f32(2, 3, 4), ints(0, -1, 2)).named("computed, of its own and what is left"),
    case("Reshape", f32(2, 3, 4), ints(-1, 3, 2)).named("computed, what is left first"),
    case("Reshape", f32(2, 3, 4) > 0, ints(4, 3, 2)).named("computed, of booleans"),
    case("Reshape", f32(0, 3, 4), ints(0, 6, 2)).named("computed, of nothing"),
    case("Reshape", f32(2, 0, 3), ints(0, 2, 3), allowzero=1).named("computed, to nothing"),
    case("Reshape", f32(2, 3, 4, 5), const([0, 0, 2, -1])).named("two of its own"),
    case("Reshape", f32(2, 3, 4, 5), const([0, -1, 5, 2])).named("of its own and what is left"),
    case("Flatten", f32(2, 3, 4, 5), axis=2).named("in the middle"),
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
