"""The rules of `backends/tensorflow/ops/signal.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import number
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, f64, params

ROWS = [
    case("DFT", f32(2, 9, 1)),
    case("DFT", f32(2, 9, 4, 2), number(12, np.int64), number(1, np.int64)),
    case("DFT", f32(2, 8, 1), None, number(1, np.int64), onesided=1),
    case("DFT", f64(2, 8, 2), None, number(-2, np.int64), inverse=1),
    case("STFT", f32(2, 40, 1), number(5, np.int64), f32(8)),
    case("STFT", f32(2, 40, 1), number(6, np.int64), None, number(16, np.int64), onesided=0),
    case(
        "MelWeightMatrix",
        number(8, np.int64),
        number(32, np.int64),
        number(8192, np.int64),
        number(20.0),
        number(4000.0),
    ),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
