"""The rules of `backends/tensorflow/ops/index.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const, ints
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, boolean, case, f32, i32, i64, params

ROWS = [
    case("Slice", f32(5, 6), const([1, 2]), const([4, 6])),
    case("Slice", f32(2), const([1]), const([3]), const([-1]), const([1])).named("beyond the end"),
    case("Slice", f32(2, 3), const([5, 1]), const([9, 4]), const([0, 1]), const([1, 2])).named("behind the end"),
    case("Slice", f32(5, 6), const([-1]), const([-9]), const([1]), const([-2])),
    case("Slice", f32(5, 6), const([0]), const([2**63 - 1]), const([-1]), const([3])),
    case("Slice", f32(5, 6), const([2**63 - 1]), const([-(2**63)]), const([0]), const([-1])),
    case("Slice", f32(5, 6), ints(1, 0), ints(4, 9), ints(1, 0), ints(2, 1)),
    case("Slice", f32(5, 6), ints(-1), ints(-99), ints(0), ints(-1)),
    case("Slice", f32(5, 6), ints(4), ints(2)),
    case("Slice", f32(3, 6), const([-9, -9]), const([-99, -2]), const([0, 1]), const([-1, -2])).named("early"),
    case("Slice", f32(3, 6), ints(-9, -9), ints(-99, 4), ints(0, 1), ints(-1, 1)).named("early, dynamic"),
    case("Slice", i64(9), i32(1, low=2, high=3), i32(1, low=7, high=8), const([0], np.int32)),
    case("Compress", f32(3, 4), boolean(3), axis=0),
    case("Compress", f32(3, 4), boolean(5)),
    case("ReverseSequence", f32(4, 3), const([1, 2, 4]), time_axis=0, batch_axis=1),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
