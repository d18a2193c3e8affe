"""The rules of `backends/tensorflow/ops/pool.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, f64, i64, params

ROWS = [
    *(
        case(name, f32(2, 3, 7, 8), kernel_shape=[3, 2], **attributes)
        for name in ("MaxPool", "AveragePool", "LpPool")
        for attributes in (
            {},
            {"strides": [2, 2], "pads": [1, 0, 1, 1]},
            {"strides": [2, 3], "ceil_mode": 1},
            {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
            {"auto_pad": "SAME_LOWER", "strides": [2, 1]},
            {"dilations": [2, 2], "pads": [1, 1, 1, 1]},
        )
    ),
    case("AveragePool", f32(2, 3, 7, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], count_include_pad=1),
    case(
        "AveragePool",
        f32(2, 3, 7, 8),
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        strides=[2, 2],
        count_include_pad=1,
        ceil_mode=1,
    ),
    case("AveragePool", f32(2, 3, 7, 8), kernel_shape=[3, 3], pads=[1, 0, 1, 0], strides=[2, 2], ceil_mode=1),
    case("AveragePool", f32(1, 2, 4), kernel_shape=[2], pads=[1, 0], strides=[2], ceil_mode=1, count_include_pad=1),
    case("MaxPool", f32(2, 3, 9), kernel_shape=[3], strides=[2], pads=[1, 1]),
    case("AveragePool", f32(2, 3, 9), kernel_shape=[3], strides=[2]),
    case("MaxPool", f32(1, 2, 4, 5, 6), kernel_shape=[2, 2, 2], strides=[2, 1, 2]),
    case("AveragePool", f32(1, 2, 4, 5, 6), kernel_shape=[2, 2, 2]),
    case("AveragePool", f32(3, 2, 1, 2, 3), kernel_shape=[1, 3, 1], pads=[0, 1, 0, 0, 1, 0]).named("a window over all"),
    case("MaxPool", f32(2, 3, 7, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
    case("MaxPool", f32(1, 2, 5, 5), kernel_shape=[1, 1], strides=[2, 2]),
    case("MaxPool", i64(1, 2, 5, 5).astype(np.int8), kernel_shape=[2, 2], pads=[1, 1, 0, 0]),
    case("MaxPool", f64(1, 2, 5, 5), kernel_shape=[2, 2]),
    case("MaxPool", f32(2, 3, 7, 8), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], _outputs=2),
    case("MaxPool", f32(2, 3, 7, 8), kernel_shape=[3, 2], storage_order=1, _outputs=2),
    case("LpPool", f32(2, 3, 8), kernel_shape=[3], p=3),
    *(case(name, f32(2, 3, 4, 5)) for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")),
    case("GlobalAveragePool", f32(2, 3, 4)),
    case("GlobalLpPool", f32(2, 3, 4), p=3),
    *(
        case(name, np.ones((1, 2, 64, 64), np.float16)).named("of halves")
        for name in ("GlobalAveragePool", "GlobalLpPool")
    ),
    case("AveragePool", np.ones((1, 2, 64, 65), np.float16), kernel_shape=[64, 64]).named("of halves"),
    case("LpPool", np.ones((1, 2, 64, 65), np.float16), kernel_shape=[64, 64]).named("of halves"),
    case("LpPool", np.full((1, 2, 4, 5), 300, np.float16), kernel_shape=[2, 2]).named("of large halves"),
    case("GlobalLpPool", np.full((1, 2, 4, 5), 300, np.float16)).named("of large halves"),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
