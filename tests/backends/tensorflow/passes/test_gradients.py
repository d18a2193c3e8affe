"""Gradient of ONNX's training domain in TensorFlow, against PyTorch: through layers, twice, at other values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from convert.errors import Unsupported
from tests.support.tensorflow_networks import write

torch = pytest.importorskip("torch")
tf = pytest.importorskip("tensorflow")

TRAINING = "ai.onnx.preview.training"
SHAPES = {"x": [2, 3, 6, 6], "z": [4, 4], "other": [2, 3, 6, 6]}
DRAWN = np.random.default_rng(0)
FEEDS = {name: DRAWN.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
KERNEL = DRAWN.normal(size=(4, 3, 3, 3)).astype(np.float32)


def gradient(inputs: list[str], outputs: list[str], **names: object) -> object:
    return helper.make_node("Gradient", inputs, outputs, domain=TRAINING, **names)


def model(*gradients: object):
    """Return a model of y: a convolution (without a batch norm, which would be folded), a matrix product and a sum of
    squares.
    """
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["conv"]),
        helper.make_node("GlobalAveragePool", ["conv"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Tanh", ["flat"], ["h"]),
        helper.make_node("MatMul", ["h", "z"], ["product"]),
        helper.make_node("ReduceSumSquare", ["product"], ["y"], keepdims=0),
        *gradients,
    ]
    outputs = [
        name for node in nodes for name in node.output if name in ("y", "dx", "dk", "dz", "dh", "elsewhere", "dd")
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in SHAPES.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(KERNEL, "kernel")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(TRAINING, 1)])


def run(proto, folder: Path) -> dict[str, np.ndarray]:
    write(proto, folder / "m.savedmodel")
    serving = tf.saved_model.load(str(folder / "m.savedmodel")).signatures["serving_default"]
    return {name: y.numpy() for name, y in serving(**{k: tf.constant(x) for k, x in FEEDS.items()}).items()}


def loss(x, kernel, z):
    h = torch.tanh(torch.nn.functional.conv2d(x, kernel).mean((2, 3)))
    return h, ((h @ z) ** 2).sum()


@pytest.mark.slow
def test_derivatives_are_those_of_pytorch(tmp_path: Path) -> None:
    found = run(
        model(
            gradient(["x", "kernel", "z"], ["dx", "dk", "dz"], xs=["x", "kernel", "z"], y="y"),
            gradient(["h", "z"], ["dh"], xs=["h"], zs=["z"], y="y"),
            gradient(["other", "kernel", "z"], ["elsewhere"], xs=["x"], zs=["kernel", "z"], y="y"),
            gradient(["z", "x", "kernel"], ["dd"], xs=["z"], zs=["x", "kernel"], y="dx"),
        ),
        tmp_path,
    )
    x, other, z, kernel = (
        torch.tensor(a, dtype=torch.float64, requires_grad=True)
        for a in (FEEDS["x"], FEEDS["other"], FEEDS["z"], KERNEL)
    )
    h, y = loss(x, kernel, z)
    dx, dk, dz, dh = torch.autograd.grad(y, [x, kernel, z, h], create_graph=True)
    (elsewhere,) = torch.autograd.grad(loss(other, kernel, z)[1], [other])
    (dd,) = torch.autograd.grad(dx.sum(), [z])
    wanted = {"y": y, "dx": dx, "dk": dk, "dz": dz, "dh": dh, "elsewhere": elsewhere, "dd": dd}
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        want = value.detach().numpy()
        np.testing.assert_allclose(found[name], want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


def test_a_gradient_of_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="gradient of 'nothing'"):
        write(model(gradient(["x"], ["dx"], xs=["x"], y="nothing")), tmp_path / "m.savedmodel")
