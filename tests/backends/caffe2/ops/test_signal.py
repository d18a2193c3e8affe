"""The rules of `backends/caffe2/ops/signal.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import RUNTIME, Nets, Row, both, check, weight
from tests.support.cases import case, f32, f64

ROWS = both(
    [
        *(
            (case("DFT", f32(2, 6, parts), None, weight(np.int64(1)), **more), RUNTIME)
            for parts, more in ((1, {}), (2, {}), (2, {"inverse": 1}), (1, {"onesided": 1}))
        ),
        (case("DFT", f32(2, 5, 2), weight(np.int64(8)), weight(np.int64(1))).named("length"), RUNTIME),
        case("DFT", f64(2, 5, 2), None, weight(np.int64(1))).named("float64").xfail("Caffe2 has no float64 kernel"),
        (case("STFT", f32(1, 32, 1), weight(np.int64(8)), weight(f32(16))), RUNTIME),
        (
            case("STFT", f32(1, 32, 1), weight(np.int64(8)), None, weight(np.int64(16)), onesided=0).named("two-sided"),
            RUNTIME,
        ),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
