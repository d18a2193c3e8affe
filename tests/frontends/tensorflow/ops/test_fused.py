"""Operators that TensorFlow's optimizer fuses, as frozen graphs contain them, against TensorFlow's own kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from convert.frontends.tensorflow.runner import runner

from convert.errors import Unsupported
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run, same
from tests.support.tensorflow_helper import images, read

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")

WEIGHT, BIAS = images(3, 3, 4, 5, seed=2), images(5, seed=3)
STATISTICS = [images(5, seed=4), images(5, seed=5), images(5, seed=6), np.abs(images(5, seed=7)) + 0.5]
CONV = {"strides": [1, 2, 1, 1], "padding": "SAME", "data_format": "NHWC", "dilations": [1, 1, 1, 1]}


def graph(operator: str, x: np.ndarray, constants: list[np.ndarray], attributes: dict[str, Any], *, args: int) -> Any:
    """Return a GraphDef of a placeholder and one operator; its last `args` constants belong to the fused operators."""
    found = tf.compat.v1.GraphDef()
    node = found.node.add(name="x", op="Placeholder")
    node.attr["dtype"].type = 1
    for n in (None, *x.shape[1:]):
        node.attr["shape"].shape.dim.add(size=-1 if n is None else n)
    for i, array in enumerate(constants):
        node = found.node.add(name=f"c{i}", op="Const")
        node.attr["dtype"].type = 1
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(array))
    node = found.node.add(name="y", op=operator, input=["x", *(f"c{i}" for i in range(len(constants)))])
    node.attr["T"].type = 1
    node.attr["num_args"].i = args
    for name, value in attributes.items():
        if isinstance(value, bool):
            node.attr[name].b = value
        elif isinstance(value, float):
            node.attr[name].f = value
        elif isinstance(value, str):
            node.attr[name].s = value.encode()
        elif isinstance(value[0], str):
            node.attr[name].list.s.extend(v.encode() for v in value)
        else:
            node.attr[name].list.i.extend(value)
    return found


def check(made: Any, x: np.ndarray) -> None:
    source = Source("graphdef-object", model=made)
    (expected,) = runner.run(source, [{"x": x}], precision="float32", options=Options())
    same(run(read(source), {"x": x})["y"], expected["y"])


@pytest.mark.parametrize(
    "fused", [["BiasAdd"], ["BiasAdd", "Relu"], ["BiasAdd", "Relu6"], ["BiasAdd", "Elu"], ["BiasAdd", "LeakyRelu"]]
)
def test_convolution(fused: list[str]) -> None:
    """The node lacks `TArgs`, as in files of TensorFlow.js."""
    x = images(2, 7, 6, 4)
    check(graph("_FusedConv2D", x, [WEIGHT, BIAS], CONV | {"fused_ops": fused, "leakyrelu_alpha": 0.3}, args=1), x)


def test_convolution_with_batch_norm() -> None:
    x = images(2, 7, 6, 4)
    attributes = CONV | {"fused_ops": ["FusedBatchNorm", "Relu"], "epsilon": 0.01}
    check(graph("_FusedConv2D", x, [WEIGHT, *STATISTICS], attributes, args=4), x)


@pytest.mark.parametrize("fused", [["BiasAdd"], ["BiasAdd", "Relu"], ["BiasAdd", "Tanh"], ["BiasAdd", "Sigmoid"]])
def test_product(fused: list[str]) -> None:
    x = images(3, 4)
    attributes = {"fused_ops": fused, "transpose_a": False, "transpose_b": True}
    check(graph("_FusedMatMul", x, [images(5, 4), BIAS], attributes, args=1), x)


def test_depthwise_convolution() -> None:
    """TensorFlow runs this only if it was built for oneDNN, so the two separate operators are the reference."""
    x, weight, bias = images(2, 7, 6, 4), images(3, 3, 4, 1), images(4)
    depthwise = CONV | {"strides": [1, 2, 2, 1], "fused_ops": ["BiasAdd", "Relu"]}
    made = graph("_FusedDepthwiseConv2dNative", x, [weight, bias], depthwise, args=1)
    y = tf.nn.relu(tf.nn.depthwise_conv2d(x, weight, [1, 2, 2, 1], "SAME") + bias).numpy()
    same(run(read(Source("graphdef-object", model=made)), {"x": x})["y"], y)


def test_batch_norm_with_activation() -> None:
    """The fused operator runs on a GPU only, so the two operators that it replaces are the reference."""
    x = images(2, 7, 6, 5)
    made = graph("_FusedBatchNormEx", x, STATISTICS, {"epsilon": 0.01, "is_training": False, "activation_mode": "Relu"},
                 args=0)  # fmt: skip
    del made.node[-1].attr["num_args"]
    made.node[-1].attr["U"].type = 1
    made.node[-1].attr["num_side_inputs"].i = 0
    gamma, beta, mean, variance = STATISTICS
    y = tf.nn.relu((x - mean) / np.sqrt(variance + np.float32(0.01)) * gamma + beta).numpy()
    found = run(read(Source("graphdef-object", model=made), outputs=("y",)), {"x": x})
    same(found["y"], y)


def test_what_is_not_known_is_refused() -> None:
    x = images(2, 7, 6, 4)
    made = graph("_FusedConv2D", x, [WEIGHT, BIAS], CONV | {"fused_ops": ["BiasAdd", "Quantize"]}, args=1)
    with pytest.raises(Unsupported, match="a fused Quantize"):
        read(Source("graphdef-object", model=made))
