"""The rules of `backends/tensorflow/ops/norm.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const, f16
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, f64, params

ONES = np.ones(8, np.float16)
SIGNS = np.resize(np.array([-1, 1], np.float16), (1, 4, 64, 48))

ROWS = [
    case("BatchNormalization", f32(2, 3, 4, 5), f32(3), f32(3), f32(3), f32(3, low=0.1), epsilon=1e-3),
    case("BatchNormalization", f32(2, 3), f32(3), f32(3), f32(3), f32(3, low=0.1)),
    case("BatchNormalization", f32(2, 3, 4, 5).astype(np.float16), f32(3), f32(3), f32(3), f32(3, low=0.1)),
    case("BatchNormalization", f32(2, 3, 4), *(const(f32(3, low=0.1)) for _ in range(4))),
    case("InstanceNormalization", f32(2, 3, 4, 5), f32(3), f32(3)),
    case("InstanceNormalization", f32(2, 3, 9), f32(3), f32(3), epsilon=1e-2),
    case("GroupNormalization", f32(2, 6, 4, 5), f32(6), f32(6), num_groups=3),
    case("GroupNormalization", f32(2, 6, 4, 5), f32(6), f32(6), num_groups=1).named("of one group"),
    case("GroupNormalization", np.ones((2, 1, 27, 15), np.float32), f32(1), f32(1), num_groups=1).named("of ones"),
    case("LayerNormalization", f32(2, 3, 8), f32(8), f32(8)),
    case("LayerNormalization", f64(2, 3, 8) + 1000, np.ones(8), np.zeros(8)).named("of float64"),
    case("LayerNormalization", f32(2, 3, 8), f32(3, 8), axis=1, epsilon=1e-2, _outputs=3),
    case("RMSNormalization", f32(2, 3, 8), f32(8)),
    case("MeanVarianceNormalization", f32(2, 3, 4, 5)),
    case("LpNormalization", f32(2, 3, 4), p=1, axis=1),
    case("LpNormalization", f32(2, 3, 4)),
    case("LRN", f32(2, 7, 3, 3), size=3),
    case("LRN", f32(7, 7, 3, 3), size=4, alpha=0.1, beta=0.6, bias=2.0),
    # In float16 a sum of ones stops growing at 2048, and the square of 300 is infinite.
    case("GroupNormalization", 2 + SIGNS, ONES[:4], 0 * ONES[:4], num_groups=2, stash_type=10).named("of halves"),
    case("MeanVarianceNormalization", 1 + f16(2, 3, 64, 48)).named("of halves"),
    *(case("LpNormalization", np.ones((4096, 2), np.float16), p=p, axis=0).named(f"{p} of halves") for p in (1, 2)),
    case("LRN", 300 + f16(1, 4, 3, 3), size=3).named("of halves"),
    case("LpNormalization", 300 + f16(4, 3), axis=0).named("of large halves"),
    case("InstanceNormalization", 500 * SIGNS[..., :4], ONES[:4], 0 * ONES[:4]).named("of large halves"),
    case("RMSNormalization", 300 + f16(2, 3, 8), f16(8)).named("of halves"),
    case("LayerNormalization", 300 * f16(2, 3, 8), ONES, 0 * ONES).named("of halves"),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
