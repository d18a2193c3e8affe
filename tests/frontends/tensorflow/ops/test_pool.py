"""The rules of `frontends/tensorflow/ops/pool.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, i32, i64, params

NHWC = f32(2, 7, 6, 4)
PICTURE = f32(2, 5, 7, 3)

ROWS = [
    *(
        case(name, NHWC, ksize=[1, 3, 2, 1], strides=[1, 2, 1, 1], padding=padding).named(padding)
        for name in ("MaxPool", "AvgPool")
        for padding in ("SAME", "VALID")
    ),
    case(
        "MaxPool",
        NHWC,
        ksize=[1, 2, 2, 1],
        strides=[1, 2, 2, 1],
        padding="EXPLICIT",
        explicit_paddings=[0, 0, 1, 0, 0, 1, 0, 0],
    ).named("explicit"),
    case("MaxPoolV2", NHWC, [1, 2, 2, 1], [1, 2, 2, 1], padding="SAME"),
    *(
        case(name, f32(1, 4, 5, 6, 2), ksize=[1, 2, 2, 3, 1], strides=[1, 2, 1, 2, 1], padding="SAME")
        for name in ("MaxPool3D", "AvgPool3D")
    ),
    case("Dilation2D", PICTURE, f32(2, 3, 3), strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME"),
    case("Dilation2D", PICTURE, f32(2, 2, 3), strides=[1, 2, 1, 1], rates=[1, 2, 3, 1], padding="VALID"),
    *(
        case(
            "Dilation2D",
            whole(2, 5, 7, 3),
            whole(2, 3, 3) - 4,
            strides=[1, 2, 1, 1],
            rates=[1, 1, 2, 1],
            padding=padding,
        ).named(f"{padding} of {np.dtype(kind).name}")
        for padding in ("SAME", "VALID")
        for kind, whole in ((np.int32, i32), (np.int64, i64))
    ),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
