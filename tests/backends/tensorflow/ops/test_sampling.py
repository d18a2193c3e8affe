"""The rules of `backends/tensorflow/ops/sampling.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const, number
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, params

ROWS = [
    *(
        case(
            "GridSample",
            f32(2, 3, 4, 5),
            f32(2, 3, 6, 2, low=-1.4, high=1.4),
            mode=mode,
            padding_mode=padding,
            align_corners=align,
        )
        for mode in ("linear", "nearest", "cubic")
        for padding in ("zeros", "border", "reflection")
        for align in (0, 1)
    ),
    case("GridSample", f32(1, 2, 3, 4, 5), f32(1, 2, 3, 2, 3, low=-1.2, high=1.2)),
    case(
        "NonMaxSuppression",
        f32(2, 6, 4, low=0, high=1),
        f32(2, 3, 6, low=0, high=1),
        number(3, np.int64),
        number(0.2),
        number(0.1),
    ),
    case(
        "NonMaxSuppression",
        f32(1, 6, 4, low=0.2, high=1),
        f32(1, 2, 6, low=0, high=1),
        const([9]),
        const(np.array([0.3], np.float32)),
        center_point_box=1,
    ),
    *(
        case("NonMaxSuppression", f32(1, 6, 4, low=0, high=1), f32(1, 2, 6, low=0, high=1), const([n])).named(f"{n}")
        for n in (-(2**63), -1, 2**63 - 1)
    ),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS, ("GridSample",)))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
