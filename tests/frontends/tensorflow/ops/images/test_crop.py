"""The rules of `frontends/tensorflow/ops/images/crop.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

CUTS = np.array([[0, 0, 1, 1], [0.13, 0.21, 0.77, 0.63], [-0.3, 0.9, 0.52, 0.11]], np.float32)
VALUE = {"extrapolation_value": 0.5}

ROWS = [
    *(
        case("CropAndResize", f32(2, 7, 6, 3), CUTS, np.array([0, 1, 1], np.int32), size, method=method, **VALUE).named(
            f"{method} {list(size)}{' by data' if isinstance(size, np.ndarray) else ''}"
        )
        for method in ("bilinear", "nearest")
        for size in ([4, 3], [1, 2], np.array([4, 3], np.int32), np.array([1, 2], np.int32))
    ),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
