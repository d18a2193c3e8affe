"""The rules of `backends/caffe2/ops/integer.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import Nets, Row, both, check
from tests.support.cases import case, i64


def u8(*shape: int) -> np.ndarray:
    return i64(*shape, low=0, high=256).astype(np.uint8)


SHIFTS = np.array([0, 1, 3, 7, 9, 2], np.uint8)

ROWS = both(
    [
        *(case("BitShift", u8(6), SHIFTS, direction=d).named(d) for d in ("LEFT", "RIGHT")),
        *(
            case("BitShift", u8(6).astype(np.uint16) * 200, SHIFTS.astype(np.uint16), direction=d)
            for d in ("LEFT", "RIGHT")
        ),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
