"""The rules of `frontends/tensorflow/ops/sparse/sets.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, i32, i64, params

WORDS = np.array(["a", "b", "c", "d", "e", "ü"], object)
OPERATIONS = ("a-b", "b-a", "intersection", "union")

ROWS = [
    *(case("DenseToDenseSetOperation", i32(3, 5), i32(3, 4), set_operation=o).named(o) for o in OPERATIONS),
    *(
        case("DenseToDenseSetOperation", i64(2, 3, 5), i64(2, 3, 2), set_operation=o).named(f"{o} of rank 3")
        for o in OPERATIONS
    ),
    case("DenseToDenseSetOperation", i32(3, 5).astype(np.int8), i32(3, 4).astype(np.int8), set_operation="union").named(
        "int8"
    ),
    case("DenseToDenseSetOperation", WORDS[None], WORDS[None, :2], set_operation="a-b")
    .named("words")
    .xfail("ONNX cannot sort strings"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
