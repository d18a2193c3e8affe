"""Pools that are padded to the `same` sizes, of windows with gaps between them: what onnxruntime has no pads for."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import convert

OF = {
    "MaxPool": lambda p: p.max(-1),
    "AveragePool": lambda p: p.mean(-1),
    "LpPool": lambda p: np.sqrt(np.square(p).sum(-1)),
}


def wanted(x: np.ndarray, operator: str, lower: bool, kernel: int, stride: int) -> np.ndarray:
    """What the pool makes of what a window has inside of x, along the last dim."""
    n = x.shape[-1]
    steps = -(-n // stride)
    total = max((steps - 1) * stride + kernel - n, 0)
    first = total - total // 2 if lower else total // 2
    parts = [x[..., max(i * stride - first, 0) : i * stride - first + kernel] for i in range(steps)]
    return np.stack([OF[operator](p) for p in parts], -1)


@pytest.mark.parametrize("opset", [20, 11])
@pytest.mark.parametrize("side", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
def test_windows_with_gaps(operator: str, side: str, opset: int) -> None:
    node = helper.make_node(operator, ["x"], ["y"], kernel_shape=[3, 1], strides=[5, 2], auto_pad=side)
    x = helper.make_tensor_value_info("x", 1, ["n", 2, "h", "w"])
    y = helper.make_tensor_value_info("y", 1, ["n", 2, None, None])
    graph = helper.make_graph([node], "g", [x], [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    made = convert.to_onnx(proto, opset=opset, verify=False)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for height in range(1, 12):
        rows = np.random.default_rng(height).standard_normal((2, 2, height, 4)).astype(np.float32)
        want = wanted(rows[..., ::2].swapaxes(2, 3), operator, side == "SAME_LOWER", 3, 5).swapaxes(2, 3)
        np.testing.assert_allclose(session.run(None, {"x": rows})[0], want, rtol=1e-6)
