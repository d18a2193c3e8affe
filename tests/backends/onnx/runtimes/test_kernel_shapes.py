"""`kernel_shape` is always written, although ONNX lets a reader infer it from the weight."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import convert

ROWS = {
    "Conv": ([2, 3, 3, 5], {"pads": [1, 2, 1, 2]}),
    "ConvTranspose": ([3, 2, 2, 3], {"strides": [2, 2]}),
    "grouped Conv": ([3, 1, 1, 4], {"group": 3}),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("opset", [11, 20])
def test_convolutions_say_their_kernel(row: str, opset: int, tmp_path: Path) -> None:
    shape, attributes = ROWS[row]
    weight = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    node = helper.make_node(row.split()[-1], ["x", "w"], ["y"], **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    made = convert.to_onnx(onnx.shape_inference.infer_shapes(model), opset=opset, verify=False)
    (found,) = [n for n in made.graph.node if n.op_type == node.op_type]
    assert {a.name: list(a.ints) for a in found.attribute if a.ints}["kernel_shape"] == shape[2:]
    feed = {"x": np.random.default_rng(1).normal(size=(2, 3, 8, 8)).astype(np.float32)}
    (got,), (expected,) = (onnxruntime.InferenceSession(m.SerializeToString()).run(None, feed) for m in (made, model))
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
