"""3-D pools as TensorFlow Lite models, which have 2-D pools only, compared with onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.backends.tensorflow.lite.test_quantized import f32, onnxruntime_outputs
from tests.support.tensorflow_lite_helper import encode, graph_of, run

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")

CASES = [
    ("AveragePool", {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}),
    ("AveragePool", {"kernel_shape": [3, 2, 3], "strides": [1, 2, 1], "pads": [1, 0, 1, 1, 1, 0]}),
    ("AveragePool", {"kernel_shape": [3, 3, 3], "pads": [1] * 6, "count_include_pad": 1}),
    ("AveragePool", {"kernel_shape": [3, 3, 2], "strides": [2, 2, 2], "ceil_mode": 1}),
    ("MaxPool", {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2], "pads": [0, 1, 0, 0, 1, 0]}),
    ("MaxPool", {"kernel_shape": [3, 3, 3], "strides": [2, 2, 2], "auto_pad": "SAME_UPPER"}),
]


@pytest.mark.parametrize("batch", [2, "n"])
def test_pools_over_three_dims_are_two_over_two(tmp_path: Path, batch: int | str) -> None:
    """All pools are in one model."""
    nodes = [helper.make_node(kind, ["x"], [f"y{i}"], name=f"y{i}", **given) for i, (kind, given) in enumerate(CASES)]
    outputs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [None] * 5) for i in range(len(CASES))]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 5, 8, 7])]
    graph = helper.make_graph(nodes, "pools", inputs, outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(proto)
    feed = {"x": f32(2, 3, 5, 8, 7)}
    got = run(encode(graph_of(proto), tmp_path), feed)
    for name, expected in zip([f"y{i}" for i in range(len(CASES))], onnxruntime_outputs(proto, feed), strict=True):
        np.testing.assert_allclose(got[name], expected, rtol=1e-5, atol=1e-6)
