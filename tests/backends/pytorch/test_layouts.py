"""Convolutions that oneDNN computes wrongly for channels-last memory get contiguous inputs."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from convert.backends.pytorch.writer.exported import export_model
from onnx import helper

from tests.support.onnx_support import array

WIDE = {"strides": [1, 2], "pads": [0, 1, 0, 1]}
FORMS = {
    "one channel": ((4, 1, 3, 3), WIDE, (7, 8, 1, 1)),
    "windows of padding only": ((4, 1, 1, 1), {**WIDE, "group": 4}, (7, 1, 3, 4)),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_read_lies_as_its_shape_says(name: str) -> None:
    """PyTorch 2.13 returned arbitrary numbers, and crashed; this processor may have other kernels.

    From `tests.suites.compose --source pytorch --seed 48519` and `--source onnx --seed 48880`.
    """
    kernel, attributes, shape = FORMS[name]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["t", "w", "b"], ["y"], **attributes),
    ]
    rng = np.random.default_rng(0)
    values = [
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s)
        for n, s in (("x", ["n", *shape[1:]]), ("y", [None] * 4))
    ]
    weights = [array("w", rng.normal(size=kernel)), array("b", rng.normal(size=kernel[0]))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    program = export_model(ir.from_proto(onnx.shape_inference.infer_shapes(proto)))
    (found,) = [n for n in program.graph.nodes if n.target is torch.ops.aten.conv2d.default]
    assert found.args[0].target is torch.ops.aten.clone.default
    x = rng.normal(size=shape).astype(np.float32)
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(["y"], {"x": x})[0]
    got = program.module()(torch.from_numpy(x))["y"].detach()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
