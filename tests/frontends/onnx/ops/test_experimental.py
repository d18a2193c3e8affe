"""Rows of the experimental operators of ONNX 1.0 to 1.4, in its own domain."""

from __future__ import annotations

import numpy as np
import pytest

from convert.reference.executor import run
from tests.backends.tensorflow.ops.onnx_cases import const
from tests.frontends.onnx.ops.support import check, feeds_of, model_of, typed
from tests.support.cases import Case, case, f32, params
from tests.support.onnx_support import read

ROWS = params(
    [
        case("Affine", f32(2, 3), alpha=2.0, beta=-1.0),
        case("Affine", f32(2, 3)).named("defaults"),
        case("Scale", f32(2, 3), scale=0.5),
        case("ImageScaler", f32(2, 3, 4, 5), scale=2.0, bias=[1.0, -1.0, 0.5]),
        case("ScaledTanh", f32(2, 3), alpha=2.0, beta=0.5),
        case("ParametricSoftplus", f32(2, 3), alpha=2.0, beta=0.5),
        case("ThresholdedRelu", f32(2, 3), alpha=0.5),
        case("Crop", f32(2, 3, 5, 6), border=[1, 2, 0, 1]),
        case("Crop", f32(2, 3, 5, 6), border=[1, 2, 0, 0], scale=[2, 3]).named("sizes"),
        case("DynamicSlice", f32(3, 4), const([0, 1]), const([2, 4])),
        case("DynamicSlice", f32(3, 4), const([1]), const([3]), const([1])).named("an axis"),
    ]
)


@pytest.mark.parametrize("row", ROWS)
def test_it_is_what_onnx_runtime_computes(row: Case) -> None:
    check(row, opset=7)


# ONNX Runtime has no ConstantFill any more: ONNX 1.4 defines it as the number in a shape.
FILLS = params(
    [
        case("ConstantFill", f32(2, 3), value=1.5),
        case("ConstantFill", const([2, 3]), value=1.5, input_as_shape=1).named("a shape as input"),
        case("ConstantFill", const([2]), value=1.5, input_as_shape=1, extra_shape=[3]).named("more dims"),
        case("ConstantFill", value=1.5, shape=[2, 3]).named("no input"),
    ]
)


@pytest.mark.parametrize("row", FILLS)
def test_a_fill_has_the_number_everywhere(row: Case) -> None:
    proto = model_of(row, opset=7)
    graph = read(typed(proto, [1] * len(proto.graph.output)))
    np.testing.assert_array_equal(run(graph, feeds_of(row))["y0"], np.full((2, 3), 1.5, np.float32))
