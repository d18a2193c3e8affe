"""Small ONNX networks for the tests of the TensorFlow backend, written with it and run by onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from convert.backends import tensorflow as backend
from onnx import TensorProto, helper, numpy_helper

from convert.graph.shape_inference import infer_facts
from convert.outcome.report import Report
from convert.passes.layout.boundary import permute_boundary
from convert.request.given_inputs import make_options

# The names of the graph's input and output; neither is legal in TensorFlow.
INPUT, OUTPUT = "input.1:0", "_my output/ä"


class Net:
    """A small builder of ONNX networks with random weights."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, operator: str, *inputs: str, **attributes) -> str:
        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=f"/layers/{name}", **attributes))
        return name

    def weight(self, *shape: int, low: float | None = None) -> str:
        content = self.random.standard_normal(shape) / np.sqrt(max(np.prod(shape[1:]), 1))
        content = content if low is None else low + np.abs(content)
        self.weights.append(numpy_helper.from_array(content.astype(np.float32), f"weight.{len(self.weights)}"))
        return self.weights[-1].name

    def conv(
        self, x: str, i: int, o: int, k: int = 3, stride: int = 1, group: int = 1, activation: str = "Relu"
    ) -> str:
        pad = k // 2
        y = self.add(
            "Conv",
            x,
            self.weight(o, i // group, k, k),
            kernel_shape=[k, k],
            strides=[stride] * 2,
            pads=[pad] * 4,
            group=group,
        )
        norm = [self.weight(o, low=0.5), self.weight(o), self.weight(o), self.weight(o, low=0.5)]
        y = self.add("BatchNormalization", y, *norm)
        return self.add(activation, y) if activation else y

    def block(self, x: str, i: int, o: int, stride: int = 1) -> str:
        y = self.conv(self.conv(x, i, o, stride=stride), o, o, activation="")
        short = x if i == o and stride == 1 else self.conv(x, i, o, 1, stride, activation="")
        return self.add("Relu", self.add("Add", y, short))

    def model(self, output: str) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("Identity", [output], [OUTPUT]))
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["batch", 3, 32, 32])],
            [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", 10])],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def resnet() -> onnx.ModelProto:
    """Return residual, depthwise and grouped convolutions, a squeeze-and-excite gate, pooling, a linear layer."""
    net = Net()
    x = net.add("MaxPool", net.conv(INPUT, 3, 8, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = net.block(net.block(x, 8, 8), 8, 16, 2)
    x = net.conv(net.conv(net.conv(x, 16, 16, stride=2, group=16), 16, 16, group=4), 16, 16, 1, activation="HardSwish")
    gate = net.add("GlobalAveragePool", x)
    gate = net.add("Sigmoid", net.add("Conv", gate, net.weight(16, 16, 1, 1), net.weight(16)))
    x = net.add("Concat", net.add("Mul", x, gate), x, axis=1)
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    return net.model(net.add("Gemm", x, net.weight(10, 32), net.weight(10), transB=1))


def shared(proto: onnx.ModelProto) -> ir.Model:
    """Return the model as the ONNX frontend reads it."""
    model = ir.from_proto(proto)
    infer_facts(model)
    return model


def write(proto: onnx.ModelProto, path: Path, form: str = "tf", **options) -> Report:
    report, model = Report("convert"), shared(proto)
    permute_boundary(model, options.pop("layout", ""))
    backend.write(model, path, form, make_options(None, options), report)
    return report


def onnxruntime_of(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def image(batch: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(batch).standard_normal((batch, *shape)).astype(np.float32)


def close(got: np.ndarray, want: np.ndarray) -> None:
    """Assert equality up to a few float32 roundings of the largest number."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6 * np.abs(want).max())
