"""The rules of `frontends/tensorflow/ops/conv.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

NHWC = f32(2, 7, 6, 4)
SAME = {"strides": [1, 1, 1, 1], "padding": "SAME"}
VALID = {"strides": [1, 1, 1, 1], "padding": "VALID"}
HALVED = {"strides": [1, 2, 2, 1], "padding": "SAME"}

ROWS = [
    case("Conv2D", NHWC, f32(3, 3, 4, 5), **SAME),
    case("Conv2D", NHWC, f32(3, 3, 4, 5), **HALVED).named("strides"),
    case("Conv2D", NHWC, f32(2, 4, 4, 5), strides=[1, 3, 2, 1], padding="SAME").named("unequal"),
    case("Conv2D", NHWC, f32(3, 2, 4, 5), strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 2, 3, 1]).named(
        "dilations"
    ),
    case("Conv2D", NHWC, f32(3, 3, 2, 6), **VALID).named("groups"),
    case(
        "Conv2D",
        NHWC,
        f32(3, 3, 4, 5),
        strides=[1, 2, 1, 1],
        padding="EXPLICIT",
        explicit_paddings=[0, 0, 1, 2, 0, 3, 0, 0],
    ).named("explicit"),
    case("Conv3D", f32(1, 4, 5, 6, 2), f32(2, 3, 3, 2, 3), strides=[1, 1, 2, 2, 1], padding="SAME"),
    case("DepthwiseConv2dNative", NHWC, f32(3, 3, 4, 2), **SAME),
    case("DepthwiseConv2dNative", NHWC, f32(3, 3, 4, 1), **HALVED).named("strides"),
    case("DepthwiseConv2dNative", NHWC, f32(3, 3, 4, 1).tolist(), **VALID).named("constant"),
    case("Conv2DBackpropInput", [2, 7, 6, 3], f32(3, 3, 3, 4), NHWC, **SAME),
    case("Conv2DBackpropInput", [2, 14, 12, 3], f32(3, 3, 3, 4), NHWC, **HALVED).named("strides"),
    case("Conv2DBackpropInput", [2, 13, 12, 3], f32(2, 2, 3, 4), NHWC, **HALVED).named("odd"),
    case("Conv2DBackpropInput", [2, 14, 12, 3], f32(1, 1, 3, 4), NHWC, **HALVED).named("holes"),
    case("Conv2DBackpropInput", np.array([2, 13, 12, 3], np.int32), f32(3, 3, 3, 4), NHWC, **HALVED).named(
        "dynamic size"
    ),
    case("Conv2DBackpropInput", [2, 16, 13, 3], f32(3, 3, 3, 4), NHWC, strides=[1, 2, 2, 1], padding="VALID").named(
        "valid"
    ),
    case(
        "Conv3DBackpropInputV2",
        [1, 4, 6, 6, 2],
        f32(2, 3, 3, 2, 3),
        f32(1, 2, 3, 3, 3),
        strides=[1, 2, 2, 2, 1],
        padding="SAME",
    ),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
