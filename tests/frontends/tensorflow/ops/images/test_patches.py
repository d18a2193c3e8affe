"""The rules of `frontends/tensorflow/ops/images/patches.py` against TensorFlow."""

from __future__ import annotations

import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

PATCHES = {"ksizes": [1, 3, 2, 1], "strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1]}
PLANES = {"ksizes": [1, 2, 3, 2, 1], "strides": [1, 1, 2, 3, 1]}

ROWS = [
    *(case("ExtractImagePatches", f32(2, 7, 6, 3), padding=padding, **PATCHES) for padding in ("SAME", "VALID")),
    *(case("ExtractVolumePatches", f32(2, 4, 5, 6, 2), padding=padding, **PLANES) for padding in ("SAME", "VALID")),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
