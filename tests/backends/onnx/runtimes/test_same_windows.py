"""Windows with `same` padding and gaps between them, which onnxruntime pads incorrectly or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from convert.backends.onnx.lower import lower
from onnx import helper

import convert
from convert.errors import Unsupported
from tests.support.tensorflow_helper import images

OF = {
    "MaxPool": lambda p: p.max(-1),
    "AveragePool": lambda p: p.mean(-1),
    "LpPool": lambda p: np.sqrt(np.square(p).sum(-1)),
}


def wanted(x: np.ndarray, operator: str, lower: bool, kernel: int, stride: int) -> np.ndarray:
    """Return the pool over the elements of x in each window, along the last dim."""
    n = x.shape[-1]
    steps = -(-n // stride)
    total = max((steps - 1) * stride + kernel - n, 0)
    first = total - total // 2 if lower else total // 2
    parts = [x[..., max(i * stride - first, 0) : i * stride - first + kernel] for i in range(steps)]
    return np.stack([OF[operator](p) for p in parts], -1)


def session_of(proto: Any) -> Any:
    return onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("opset", [20, 11])
@pytest.mark.parametrize("side", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
def test_windows_with_gaps(operator: str, side: str, opset: int) -> None:
    node = helper.make_node(operator, ["x"], ["y"], kernel_shape=[3, 1], strides=[5, 2], auto_pad=side)
    x = helper.make_tensor_value_info("x", 1, ["n", 2, "h", "w"])
    y = helper.make_tensor_value_info("y", 1, ["n", 2, None, None])
    graph = helper.make_graph([node], "g", [x], [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    session = session_of(convert.to_onnx(proto, opset=opset, verify=False))
    for height in range(1, 12):
        rows = np.random.default_rng(height).standard_normal((2, 2, height, 4)).astype(np.float32)
        want = wanted(rows[..., ::2].swapaxes(2, 3), operator, side == "SAME_LOWER", 3, 5).swapaxes(2, 3)
        np.testing.assert_allclose(session.run(None, {"x": rows})[0], want, rtol=1e-6)


WINDOWS = [(k, s, d) for k in (1, 2, 3) for s in (1, 2, 3, 4, 5, 7, 10) for d in (1, 2) if s == 1 or d == 1]
"""Kernel, stride and dilation; TensorFlow dilates no convolution that has strides."""


@pytest.mark.parametrize("opset", [20, 11])
@pytest.mark.parametrize(("rank", "depthwise"), [(1, False), (2, False), (2, True), (3, False)])
def test_convolutions_of_any_size(rank: int, depthwise: bool, opset: int) -> None:
    """Every output of the model is one convolution, over sizes that leave zero to nine elements uncovered."""
    tf = pytest.importorskip("tensorflow", reason="TensorFlow says what SAME is")

    def convolve(x: Any, window: tuple[int, int, int]) -> Any:
        k, s, d = window
        kernel = tf.constant(images(*[k] * rank, 2, 3, seed=k))
        if depthwise:
            return tf.nn.depthwise_conv2d(x, kernel, [1, s, s, 1], "SAME", dilations=[d, d])
        return tf.nn.convolution(x, kernel, [s] * rank, "SAME", dilations=[d] * rank)

    def strided(x: np.ndarray, k: int, s: int) -> Any:
        """Return the convolution with the pads that TensorFlow documents for SAME.

        Without oneDNN its Conv3D (2.21) takes negative pads if the stride is longer than the window.
        """
        total = max((-(-x.shape[1] // s) - 1) * s + k - x.shape[1], 0)
        padded = np.pad(x, [(0, 0), *[(total // 2, total - total // 2)] * rank, (0, 0)])
        return tf.nn.convolution(padded, tf.constant(images(*[k] * rank, 2, 3, seed=k)), [s] * rank, "VALID")

    spec = tf.TensorSpec([1, *[None] * rank, 2], name="x")
    model = tf.function(lambda x: [convolve(x, w) for w in WINDOWS], input_signature=[spec])
    session = session_of(convert.to_onnx(model, opset=opset, verify=False))
    for size in range(1, 13):
        x = images(1, *[size] * rank, 2, seed=size)
        for window, got, want in zip(WINDOWS, session.run(None, {"x": x}), model(x), strict=True):
            if rank == 3 and window[1] > window[0]:
                want = strided(x, *window[:2])
            np.testing.assert_allclose(got, want.numpy(), 1e-4, 1e-5, err_msg=f"size {size}, {window}")


@pytest.mark.parametrize("opset", [10, 8, 7])
def test_an_opset_without_computed_pads(opset: int) -> None:
    tf = pytest.importorskip("tensorflow", reason="TensorFlow says what SAME is")
    spec, kernel = tf.TensorSpec([1, None, None, 2], name="x"), images(3, 3, 2, 3)

    def strided(stride: int) -> Any:
        return tf.function(lambda x: tf.nn.conv2d(x, kernel, stride, "SAME"), input_signature=[spec])

    convert.to_onnx(strided(4), opset=opset, verify=False)
    with pytest.raises(Unsupported, match="padding by open sizes"):
        convert.to_onnx(strided(5), opset=opset, verify=False)


def integer_model(operator: str, size: str | int) -> ir.Model:
    """A convolution of bytes with a zero point of 7, a kernel of three, and a stride of five."""
    x = helper.make_tensor_value_info("x", 2, [1, 1, size])
    weights = [helper.make_tensor("w", 2, [1, 1, 3], [1, 3, 2]), helper.make_tensor("zero", 2, [], [7])]
    one, none = helper.make_tensor("one", 1, [], [1.0]), helper.make_tensor("none", 2, [], [0])
    inputs = {
        "ConvInteger": ["x", "w", "zero"],
        "QLinearConv": ["x", "one", "zero", "w", "one", "none", "one", "none"],
    }[operator]
    node = helper.make_node(operator, inputs, ["y"], strides=[5], auto_pad="SAME_UPPER")
    y = helper.make_tensor_value_info("y", 6 if operator == "ConvInteger" else 2, [1, 1, None])
    graph = helper.make_graph([node], "g", [x], [y], [*weights, one, none])
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11))


@pytest.mark.parametrize("operator", ["ConvInteger", "QLinearConv"])
def test_convolutions_of_bytes(operator: str) -> None:
    """Padding has the value of the zero point. For known sizes, the pads are numbers."""
    for size in range(1, 13):
        x = np.random.default_rng(size).integers(7, 40, (1, 1, size)).astype(np.uint8)
        steps = -(-size // 5)
        total = max((steps - 1) * 5 + 3 - size, 0)
        padded = np.pad(x.astype(np.int64) - 7, [(0, 0), (0, 0), (total // 2, total - total // 2)])
        want = np.array([[[(padded[0, 0, i * 5 : i * 5 + 3] * [1, 3, 2]).sum() for i in range(steps)]]])
        for given in ("n", size):
            model = integer_model(operator, given)
            lower(model, 20)
            assert any(n.op_type == "Pad" for n in model.graph) == (given == "n")
            np.testing.assert_array_equal(session_of(ir.to_proto(model)).run(None, {"x": x})[0], want)
