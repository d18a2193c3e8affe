"""The rules of `frontends/tensorflow/ops/nn.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

NHWC = f32(2, 7, 6, 4)
NCHW = f32(2, 4, 7, 6)
STATISTICS = (f32(4, low=0.5), f32(4), f32(4), f32(4, low=0.2, high=2.0))
EMPTY = np.zeros(0, np.float32)

ROWS = [
    *(
        case(name, f32(2, 3))
        for name in ("Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign", "LogSoftmax", "Softmax", "L2Loss")
    ),
    *(case("Relu", np.array([-3, 0, 4], kind)).named(np.dtype(kind).name) for kind in (np.int32, np.int64)),
    case("LeakyRelu", f32(2, 3), alpha=0.3),
    case("BiasAdd", NHWC, f32(4)),
    case("BiasAdd", NCHW, f32(4), data_format="NCHW").named("nchw"),
    case("BiasAddV1", NHWC, f32(4)),
    *(
        case(name, NHWC, *STATISTICS, is_training=False, epsilon=0.01)
        for name in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
    ),
    case("FusedBatchNormV3", NHWC, *STATISTICS[:2], EMPTY, EMPTY, is_training=True).named("training"),
    case("LRN", f32(1, 2, 2, 9, low=0), depth_radius=2, bias=2.0, alpha=0.3, beta=0.6),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
