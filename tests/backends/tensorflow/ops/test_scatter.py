"""The rules of `backends/tensorflow/ops/scatter.py` against onnxruntime."""

from __future__ import annotations

import pytest

from tests.backends.tensorflow.ops.onnx_cases import const
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, boolean, case, f32, i64, params

ROWS = [
    case("ScatterElements", f32(4, 3), const([[1, 0, -1], [2, 3, 0]]), f32(2, 3)),
    case("ScatterElements", f32(4, 3), i64(2, 3, low=-3, high=3), f32(2, 3), axis=1, reduction="add"),
    *(case("ScatterElements", f32(5), const([1, 1, -1]), f32(3), reduction=r) for r in ("mul", "max", "min")),
    case("ScatterND", f32(4, 3), const([[1], [-1]]), f32(2, 3)),
    case("ScatterND", f32(4, 3), i64(2, 2, low=-3, high=3), f32(2), reduction="add"),
    *(case("ScatterND", f32(4, 3), const([[1], [1]]), f32(2, 3), reduction=r) for r in ("mul", "max", "min")),
    case("ScatterND", boolean(4), const([[1], [2]]), boolean(2)),
    case("ScatterND", f32(4, 3), const([-3]), f32(3)).named("one place"),
    case("ScatterND", f32(4, 3, 2), const([2, -1]), f32(2), reduction="add").named("one place of two dims"),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
