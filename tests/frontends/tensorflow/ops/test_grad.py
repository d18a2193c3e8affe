"""The rules of `frontends/tensorflow/ops/grad.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

PICTURE = f32(2, 6, 6, 2)
EVEN = np.round(f32(1, 5, 6, 1, low=0, high=2))

ROWS = [
    *(
        case("BroadcastGradientArgs", np.array(a, np.int32), np.array(b, np.int32)).named(f"{a} {b}")
        for a, b in (([2, 3, 1], [3, 1]), ([3, 1], [3, 1]), ([1, 1], [1]), ([2, 1, 4], [1, 3, 1]))
    ),
    case("ReluGrad", np.array([np.nan, np.inf, 1, np.nan], np.float32), np.array([-1, 0, -1, 1], np.float32)),
    *(case(name, f32(2, 3), f32(2, 3, low=-1)) for name in ("ReluGrad", "TanhGrad", "SigmoidGrad", "SoftplusGrad")),
    *(
        case(name, f32(2, 3), f32(2, 3, low=-8))
        for name in ("Relu6Grad", "SeluGrad", "EluGrad", "SoftsignGrad", "ReciprocalGrad", "InvGrad")
    ),
    *(case(name, f32(2, 3, low=0.5), f32(2, 3)) for name in ("SqrtGrad", "RsqrtGrad")),
    *(
        case("StridedSliceGrad", [3, 4, 5], *ends, dy, **masks).named(f"{masks}")
        for ends, dy, masks in (
            (([0, 1, 4], [2, 4, 0], [1, 2, -1]), f32(2, 2, 4), {}),
            (([0, -1], [0, 0], [1, 1]), f32(3, 5), {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}),
            (([0, 0, 1], [0, 0, 9], [1, 1, 2]), f32(3, 4, 1, 2), {"ellipsis_mask": 1, "new_axis_mask": 2}),
        )
    ),
    case("LeakyReluGrad", f32(2, 3), f32(2, 3), alpha=0.3),
    case(
        "MaxPoolGrad",
        PICTURE,
        PICTURE[:, ::2, ::2],
        f32(2, 3, 3, 2),
        ksize=[1, 2, 2, 1],
        strides=[1, 2, 2, 1],
        padding="VALID",
    ),
    case(
        "MaxPoolGrad",
        PICTURE,
        f32(2, 3, 3, 2),
        f32(2, 3, 3, 2),
        ksize=[1, 3, 3, 1],
        strides=[1, 2, 2, 1],
        padding="SAME",
    ).named("overlapping windows"),
    case(
        "MaxPoolGrad", EVEN, EVEN[:, :3, :3], f32(1, 3, 3, 1), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME"
    ).named("equals"),
    case(
        "MaxPoolGrad",
        PICTURE,
        PICTURE,
        PICTURE,
        ksize=[1, 3, 3, 1],
        strides=[1, 1, 1, 1],
        padding="EXPLICIT",
        explicit_paddings=[0, 0, 1, 1, 1, 1, 0, 0],
    )
    .named("explicit pads")
    .xfail("explicit pads"),
    case("BiasAddGrad", f32(2, 3, 4)),
    case("SoftmaxCrossEntropyWithLogits", f32(3, 4), f32(3, 4, low=0.0, high=1.0)),
    case("SparseSoftmaxCrossEntropyWithLogits", f32(3, 4), np.array([1, 0, 3], np.int32)),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
