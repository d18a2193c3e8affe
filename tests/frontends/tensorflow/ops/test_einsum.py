"""The rules of `frontends/tensorflow/ops/einsum.py` against TensorFlow."""

from __future__ import annotations

import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

ROWS = [
    case("Einsum", [f32(2, 3, 4), f32(4, 5)], equation="abc,cd->abd"),
    case("Einsum", [f32(2, 3, 4), f32(2, 3, 4)], equation="...ij,...kj->...ik").named("ellipsis"),
    case("Einsum", [f32(2, 4, 3), f32(3, 5)], equation="...ij,...jk->...ik").named("an ellipsis of two ranks"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
