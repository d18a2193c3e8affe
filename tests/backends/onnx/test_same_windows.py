"""Pools and convolutions padded to the `same` sizes, of windows with gaps between them, which onnxruntime mispads."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

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


@pytest.mark.not_core
@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize(("kernel", "stride"), [((1, 3), 4), ((2, 2), 4), ((3, 3), 10), ((2, 1), 5), ((3, 3), 2)])
def test_convolutions_against_tensorflow(
    kernel: tuple[int, int], stride: int, depthwise: bool, channels_last: bool
) -> None:
    """Every size from 1 to past two strides; with channels first, ONNX's SAME_UPPER means TensorFlow's SAME."""
    import tensorflow as tf

    weight = np.random.default_rng(0).standard_normal((*kernel, 3, 1 if depthwise else 4)).astype(np.float32)

    def call(x: tf.Tensor) -> tf.Tensor:
        if depthwise:
            return tf.nn.depthwise_conv2d(x, weight, [1, stride, stride, 1], "SAME")
        return tf.nn.conv2d(x, weight, stride, "SAME")

    if channels_last:
        spec = tf.TensorSpec([None, None, None, 3], tf.float32, name="x")
        proto = convert.to_onnx(tf.function(call, input_signature=[spec]), verify=False)
    else:
        turned = np.ascontiguousarray(weight.transpose(2, 3, 0, 1) if depthwise else weight.transpose(3, 2, 0, 1))
        node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[stride] * 2, auto_pad="SAME_UPPER",
                                group=3 if depthwise else 1)  # fmt: skip
        ends = [helper.make_tensor_value_info(name, 1, ["n", c, None, None]) for name, c in (("x", 3), ("y", None))]
        graph = helper.make_graph([node], "g", ends[:1], ends[1:], [numpy_helper.from_array(turned, "w")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        proto = convert.to_onnx(model, verify=False)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for size in range(1, 2 * stride + 4):
        x = np.random.default_rng(size).standard_normal((1, size, size + 1, 3)).astype(np.float32)
        got = session.run(None, {"x": x if channels_last else np.ascontiguousarray(x.transpose(0, 3, 1, 2))})[0]
        want = call(tf.constant(x)).numpy()
        np.testing.assert_allclose(got if channels_last else got.transpose(0, 2, 3, 1), want, rtol=1e-4, atol=1e-5)
