"""The rules of `backends/tensorflow/ops/search.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const, ints
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, i32, i64, params

TEXTS = np.array(["b", "ab", "", "b", "a", "é", "zz", "ab"], object)

ROWS = [
    case("TopK", f32(3, 6), const([2]), _outputs=2),
    case("TopK", f32(3, 6), ints(2), axis=0, largest=0, _outputs=2),
    case("TopK", i64(9), const([4]), largest=0, _outputs=2),
    case("TopK", i32(2, 9), const([9]), _outputs=2),
    case("Unique", f32(9).round(), _outputs=4),
    case("Unique", i64(9), sorted=0, _outputs=4),
    case("Unique", i64(6, 2, low=0, high=2), axis=0, _outputs=4),
    case("Unique", i64(2, 6, low=0, high=2), axis=1, sorted=0, _outputs=4),
    case("Unique", f32(9).round(), sorted=0),
    case("Unique", TEXTS, _outputs=4).named("texts"),
    case("Unique", TEXTS, sorted=0, _outputs=4).named("texts in their order"),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
