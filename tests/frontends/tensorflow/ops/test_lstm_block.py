"""The rules of `frontends/tensorflow/ops/lstm_block.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

UNITS = 3
CELL = [f32(2, UNITS), f32(2, UNITS, low=-1), f32(4 + UNITS, 4 * UNITS)]
PEEPHOLES = [f32(UNITS, low=-1.5), f32(UNITS, low=-1), f32(UNITS, low=-0.5)]
BIAS = f32(4 * UNITS)
STEPS = f32(5, 2, 4)

ROWS = [
    case("LSTMBlockCell", f32(2, 4), *CELL, *PEEPHOLES, BIAS),
    case("LSTMBlockCell", f32(2, 4), *CELL, *PEEPHOLES, BIAS, use_peephole=True, forget_bias=0.5, cell_clip=0.4),
    case("GRUBlockCell", f32(2, 4), CELL[0], f32(7, 6), f32(7, 3), f32(6), f32(3)),
    case("BlockLSTM", np.int64(5), STEPS, *CELL, *PEEPHOLES, BIAS),
    case("BlockLSTM", np.int64(5), STEPS, *CELL, *PEEPHOLES, BIAS, use_peephole=True, cell_clip=-1.0),
    case("BlockLSTMV2", np.int64(5), STEPS, *CELL, *PEEPHOLES, BIAS, use_peephole=True),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
