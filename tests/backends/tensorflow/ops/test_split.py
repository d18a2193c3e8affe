"""The rules of `backends/tensorflow/ops/split.py` against onnxruntime."""

from __future__ import annotations

import pytest

from tests.backends.tensorflow.ops.onnx_cases import const, ints
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, i64, params

ROWS = [
    case("Concat", f32(2, 3), f32(2, 1), axis=1),
    case("Concat", i64(2), i64(3), i64(1), axis=-1),
    case("Split", f32(2, 6), num_outputs=3, axis=1, _outputs=3),
    case("Split", f32(7), num_outputs=3, _outputs=3),
    case("Split", f32(2, 6), const([1, 5]), axis=-1, _outputs=2),
    case("Split", f32(6, 3), const([2, 4]), _outputs=2).named("of rows"),
    case("Split", f32(6), ints(2, 4), _outputs=2),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
