"""The rules of `backends/tensorflow/ops/gather.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const, number
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, boolean, case, f32, i32, i64, params

ROWS = [
    case("Gather", f32(4, 3), i64(2, 2, low=-4, high=4)),
    case("Gather", f32(4, 3), const([-1, 0]), axis=1),
    case("Gather", f32(4, 3), number(-2, np.int64)),
    case("Gather", i64(5), i32(3, low=-5, high=5)),
    case("GatherElements", f32(4, 3), i64(2, 3, low=-4, high=4)),
    case("GatherElements", f32(4, 3), i64(4, 2, low=-3, high=3), axis=1),
    case("GatherElements", f32(6, 3), i64(3, 8, low=0, high=3), axis=1).named("of fewer rows"),
    case("GatherElements", f32(6), i64(3, low=-6, high=6)),
    case("GatherElements", f32(2, 3, 4), i64(1, 3, 2, low=0, high=2), axis=0),
    case("GatherND", f32(3, 3, 3), const([[0, 1], [-1, 2]])),
    case("GatherND", f32(3, 3, 3), i64(3, 2, low=-3, high=3)),
    case("GatherND", f32(2, 3, 4), i64(2, 5, 1, low=-3, high=3), batch_dims=1),
    case("OneHot", i64(2, 3, low=-3, high=5), number(4, np.int64), f32(2)),
    case("OneHot", const([1, -1, 9]), const([4]), i64(2), axis=0),
    case("OneHot", f32(3, low=0, high=4).round(), number(4), f32(2), axis=-2),
    case("NonZero", f32(3, 4).round()),
    case("NonZero", boolean(3, 4)),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
