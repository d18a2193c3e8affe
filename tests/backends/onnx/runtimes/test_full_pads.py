"""Pads of some dims after a Transpose, which onnxruntime's own optimizer would break."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from convert.backends.onnx.runtimes.full_pads import full_pads
from onnx import helper, numpy_helper


@pytest.mark.parametrize("computed", [False, True], ids=["known", "computed"])
@pytest.mark.parametrize("perm", [(0, 2, 3, 1), (3, 0, 1, 2), (2, 3, 0, 1)])
def test_pads_of_some_dims_are_given_for_all(perm: tuple[int, ...], computed: bool) -> None:
    numbers, shape = np.int64([1, 2, 0, 3]), [2, 3, 6, 4]
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Transpose", ["n"], ["t"], perm=perm),
        helper.make_node("Pad", ["t", "p", "", "axes"], ["r"]),
        helper.make_node("Transpose", ["r"], ["y"], perm=[perm.index(i) for i in range(4)]),
    ]
    inputs = [helper.make_tensor_value_info("x", 1, ["a", "b", "c", "d"])]
    weights = [numpy_helper.from_array(np.int64([-1, 1]), "axes")]
    if computed:
        inputs.append(helper.make_tensor_value_info("p", 7, [4]))
    else:
        weights.append(numpy_helper.from_array(numbers, "p"))
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, [None] * 4)], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feed = {"x": np.random.default_rng(0).normal(size=shape).astype(np.float32), **({"p": numbers} if computed else {})}
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString(), plain).run(None, feed)
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    assert full_pads(model)
    (got,) = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString()).run(None, feed)
    np.testing.assert_array_equal(got, want)
    assert not full_pads(model)
