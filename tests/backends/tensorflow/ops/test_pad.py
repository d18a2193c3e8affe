"""The rules of `backends/tensorflow/ops/pad.py` against onnxruntime."""

from __future__ import annotations

import pytest

from tests.backends.tensorflow.ops.onnx_cases import const, ints, number
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, boolean, case, f32, i64, params

ROWS = [
    *(
        case("Pad", f32(2, 3, 4), const([0, 1, 2, 0, 0, 1]), mode=mode)
        for mode in ("constant", "reflect", "edge", "wrap")
    ),
    case("Pad", f32(2, 3), const([1, -1, 0, 1]), number(7)),
    case("Pad", f32(2, 3), ints(1, 0, 0, 2), number(7)),
    case("Pad", f32(2, 3, 4), const([1, 2]), None, const([-1])),
    case("Pad", f32(2, 5), ints(1, 2), None, ints(1), mode="edge"),
    case("Pad", f32(3), const([4, 5]), mode="wrap"),
    *(
        case("Pad", f32(2, 6), ints(0, before, 0, after), mode=mode).named(f"cut {mode} {before} {after}")
        for mode in ("reflect", "edge", "wrap")
        for before, after in ((-1, 2), (2, -2))
    ),
    case("Pad", i64(2, 3), const([0, 1, 0, 1])),
    case("Pad", boolean(3), const([1, 1])),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
