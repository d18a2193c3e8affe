"""The rules of `frontends/tensorflow/ops/images/warp.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, i32, params

TURNED = np.array([[0.9, -0.4, 1.2, 0.3, 1.1, -0.7, 0.02, -0.01], [1.4, 0, -3, 0, 0.7, 2.5, 0, 0]], np.float32)
PICTURE = f32(2, 5, 6, 3)

ROWS = [
    *(
        case(
            "ImageProjectiveTransformV3", PICTURE, TURNED, [7, 8], np.float32(0.5), interpolation=how, fill_mode=fill
        ).named(f"{how} {fill}")
        for how in ("NEAREST", "BILINEAR")
        for fill in ("CONSTANT", "NEAREST", "REFLECT", "WRAP")
    ),
    case(
        "ImageProjectiveTransformV3",
        PICTURE,
        TURNED[1:],
        np.array([4, 3], np.int32),
        np.float32(0.5),
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    ).named("one for all"),
    case("ImageProjectiveTransformV2", PICTURE, TURNED, [5, 6], interpolation="BILINEAR"),
    case("ImageProjectiveTransformV2", i32(2, 5, 6, 1).astype(np.uint8), TURNED, [5, 6], interpolation="NEAREST").named(
        "bytes"
    ),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
