"""The rules of `frontends/tensorflow/ops/grad.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import check, with_batch
from tests.support.cases import Case, case, f32, params

ROWS = [
    *(
        case("BroadcastGradientArgs", np.array(a, np.int32), np.array(b, np.int32)).named(f"{a} {b}")
        for a, b in (([2, 3, 1], [3, 1]), ([3, 1], [3, 1]), ([1, 1], [1]), ([2, 1, 4], [1, 3, 1]))
    ),
    case("ReluGrad", np.array([np.nan, np.inf, 1, np.nan], np.float32), np.array([-1, 0, -1, 1], np.float32)),
    *(case(name, f32(2, 3), f32(2, 3, low=-1)) for name in ("ReluGrad", "TanhGrad", "SigmoidGrad", "SoftplusGrad")),
    case("BiasAddGrad", f32(2, 3, 4)),
    case("SoftmaxCrossEntropyWithLogits", f32(3, 4), f32(3, 4, low=0.0, high=1.0)),
    case("SparseSoftmaxCrossEntropyWithLogits", f32(3, 4), np.array([1, 0, 3], np.int32)),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
