"""The rules of `backends/keras/ops/norm.py` against onnxruntime: the shared rows of its operators, and more."""

from __future__ import annotations

import pytest

from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.backends.tensorflow.ops.onnx_cases import const
from tests.support.cases import Case, case, f32, params

ROWS = [
    *shared_rows(__name__),
    case("BatchNormalization", f32(2, 3, 4, 5), *(const(f32(3, low=0.5)) for _ in range(4))),
    case("GroupNormalization", f32(2, 6, 4, 5), const(f32(6)), const(f32(6)), num_groups=3),
    case("GroupNormalization", f32(4, 3, 1, 1), const(f32(3)), const(f32(3) / 1000), num_groups=3).named("of one"),
    case("InstanceNormalization", f32(2, 3, 4, 5), const(f32(3)), const(f32(3)), epsilon=1e-3),
    case("LayerNormalization", f32(2, 3, 8), const(f32(8)), const(f32(8))),
    case("LayerNormalization", f32(4, 3, 2), const(f32(2)), const(f32(2))).named("of two"),
    case("RMSNormalization", f32(2, 3, 8), const(f32(8))),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)
