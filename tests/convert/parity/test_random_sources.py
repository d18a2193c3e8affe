"""Random noise of each source framework: no wrong weight hides behind it, however the reader handles it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import convert
from convert.errors import Unsupported
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS
from convert.parity.method import VerifyMethod

os.environ.setdefault("KERAS_BACKEND", "tensorflow")


class Drawing(nn.Module):
    """A layer, `draw` applied to its result, and a second output without it."""

    def __init__(self, draw: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.draw = nn.Linear(6, 5), draw

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.layer(x)
        return self.draw(h), torch.tanh(h)


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.layer(x)
        return h + torch.randn_like(h), torch.tanh(h)


def seeded(h: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return h + torch.randn(5)


PYTORCH: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rand": lambda h: h + torch.rand(5),
    "randn": lambda h: h + torch.randn(5),
    "randn_like": lambda h: h + torch.randn_like(h),
    "rand_like": lambda h: h * torch.rand_like(h),
    "normal_": lambda h: h + torch.empty_like(h).normal_(),
    "bernoulli": lambda h: torch.bernoulli(torch.sigmoid(h)),
    "multinomial": lambda h: torch.multinomial(torch.softmax(h, -1), 2, replacement=True),
    "randperm": lambda h: h[:, torch.randperm(5)],
    "dropout in training": lambda h: nn.functional.dropout(h, 0.5, training=True),
    "attention with dropout": lambda h: nn.functional.scaled_dot_product_attention(
        h[:, None, None], h[:, None, None], h[:, None, None], dropout_p=0.5
    ),
    "noise that cancels": lambda h: h + (noise := torch.randn_like(h)) - noise,
    "a seed of the program's own": seeded,
}


def spoiled(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with one weight 5 % off."""
    wrong = onnx.ModelProto()
    wrong.CopyFrom(model)
    held = [*wrong.graph.initializer, *(a.t for n in wrong.graph.node if n.op_type == "Constant" for a in n.attribute)]
    weight = next(t for t in held if sorted(t.dims) == [5, 6])
    weight.CopyFrom(numpy_helper.from_array((numpy_helper.to_array(weight) * 1.05).astype(np.float32), weight.name))
    return wrong


def statuses(source: Any, target: Any, inputs: Any = None) -> tuple[str, list[str]]:
    verdict = convert.verify(source, target, inputs=inputs, method=VerifyMethod()).verdict
    assert verdict is not None
    return verdict.status, [row.status for row in verdict.outputs]


def hold(source: Any, inputs: Any = None, outputs: int = 2) -> None:
    """Check a right and a wrong target: neither passes, and the output without noise distinguishes them."""
    try:
        model = convert.to_onnx(source, inputs, verify=False)
    except Unsupported as refused:  # the other way of never being wrong
        assert "random" in str(refused) or "seed" in str(refused) or "drop" in str(refused)  # noqa: PT017
        return
    right, wrong = statuses(source, model, inputs), statuses(source, spoiled(model), inputs)
    assert right == (INCONCLUSIVE, [INCONCLUSIVE, "PASS"][:outputs])
    assert wrong == ((FAIL, [INCONCLUSIVE, FAIL]) if outputs == 2 else (INCONCLUSIVE, [INCONCLUSIVE]))


@pytest.mark.slow
@pytest.mark.parametrize("name", PYTORCH)
def test_pytorch(name: str) -> None:
    hold(Drawing(PYTORCH[name]).eval(), "x:float32[batch,6]")


class Wide(nn.Module):
    """100 outputs with noise of half their size, too much for any tolerance."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(50, 100)
        self.layer.weight.data *= scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.layer(x)
        return h + 0.3 * torch.randn_like(h)


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "status"), [(1.0, INCONCLUSIVE), (1.05, FAIL)])
def test_draws_of_two_frameworks_are_compared(scale: float, status: str) -> None:
    inputs = [torch.randn(8, 50, generator=torch.Generator().manual_seed(1))]
    wrong = convert.to_onnx(Wide(scale), inputs, verify=False)
    verdict = convert.verify(Wide(), wrong, inputs=inputs).verdict
    assert verdict is not None
    assert verdict.status == status, verdict
    told = "256 draws of source and target have one mean" if status == INCONCLUSIVE else "of 256 draws differs"
    assert told in " ".join([verdict.reason, *verdict.notes])


def test_torchscript() -> None:
    hold(torch.jit.script(Scripted().eval()), "x:float32[batch,6]")


def weights() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)


TENSORFLOW: dict[str, Callable[[Any, Any], Any]] = {
    "uniform": lambda tf, h: h + tf.random.uniform(tf.shape(h)),
    "normal": lambda tf, h: h + tf.random.normal(tf.shape(h)),
    "normal with a seed": lambda tf, h: h + tf.random.normal(tf.shape(h), seed=3),
    "truncated normal": lambda tf, h: h + tf.random.truncated_normal(tf.shape(h)),
    "stateless": lambda tf, h: h + tf.random.stateless_normal(tf.shape(h), seed=[1, 2]),
    "categorical": lambda tf, h: tf.random.categorical(h, 2),
    "shuffle": lambda tf, h: tf.random.shuffle(h),
    "dropout": lambda tf, h: tf.nn.dropout(h, 0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TENSORFLOW)
def test_tensorflow(name: str) -> None:
    import tensorflow as tf

    w = tf.constant(weights())

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, name="x")])
    def net(x: Any) -> dict[str, Any]:
        h = tf.matmul(x, w)
        return {"a": TENSORFLOW[name](tf, h), "b": tf.tanh(h)}

    hold(net)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GaussianNoise", "Dropout"])
def test_keras(name: str) -> None:
    """These layers are called with training=True inside the model; `predict` passes training=False, which overrides
    that.
    """
    import keras

    x = keras.Input((6,), name="x")
    h = keras.layers.Dense(5, use_bias=False)(x)
    noise = {"GaussianNoise": keras.layers.GaussianNoise(0.5), "Dropout": keras.layers.Dropout(0.5)}[name]
    model = keras.Model(x, [noise(h, training=True), keras.ops.tanh(h)])
    model.layers[1].set_weights([weights()])
    arrays = np.ones((2, 6), np.float32)
    first, second = (model.predict(arrays, verbose=0)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    proto = convert.to_onnx(model, verify=False)
    # predict does not sample, and that is what was converted; model(x) does, so it is unclear which of them is meant.
    assert statuses(model, proto) == (INCONCLUSIVE, ["PASS", "PASS"])
    assert statuses(model, spoiled(proto)) == (FAIL, [FAIL, FAIL])
    notes = convert.inspect(model).notes
    assert any("called with training=True inside of the model" in note for note in notes), notes


@pytest.mark.slow
def test_keras_layers_that_are_the_same_in_training() -> None:
    """These image layers have training=True by default, and ignore it."""
    import keras

    x = keras.Input((6, 7, 2), name="x")
    model = keras.Model(x, [keras.layers.Resizing(4, 5)(x), keras.layers.CenterCrop(3, 3)(x)])
    assert statuses(model, convert.to_onnx(model, verify=False)) == (PASS, ["PASS", "PASS"])


def test_keras_that_always_draws() -> None:
    """This is a random operator that does not depend on training mode."""
    import keras

    x = keras.Input((6,), name="x")
    h = keras.layers.Dense(5, use_bias=False)(x)
    drawn = keras.layers.Lambda(lambda h: h + keras.random.normal((5,)))(h)
    model = keras.Model(x, [drawn, keras.ops.tanh(h)])
    model.layers[1].set_weights([weights()])
    hold(model)


def caffe2_net(folder: Path, operator: str, arguments: dict[str, float]) -> Path:
    """Write a layer, random numbers of its output's shape that are added to it, and a tanh."""
    from convert.files.caffe2 import caffe2_pb2 as pb

    folder.mkdir()
    fills = [
        pb.OperatorDef(
            type="GivenTensorFill", output=[name],
            arg=[pb.Argument(name="shape", ints=array.shape), pb.Argument(name="values", floats=array.ravel())],
        )
        for name, array in (("w", weights().T), ("bias", np.zeros(5, np.float32)))
    ]  # fmt: skip
    drawing = pb.OperatorDef(
        type=operator, input=["h"], output=["n"], arg=[pb.Argument(name=k, f=v) for k, v in arguments.items()]
    )
    layers = [
        pb.OperatorDef(type="FC", input=["x", "w", "bias"], output=["h"]), drawing,
        pb.OperatorDef(type="Add", input=["h", "n"], output=["a"]),
        pb.OperatorDef(type="Tanh", input=["h"], output=["b"]),
    ]  # fmt: skip
    (folder / "init_net.pb").write_bytes(pb.NetDef(op=fills).SerializeToString())
    net = pb.NetDef(op=layers, external_input=["x", "w", "bias"], external_output=["a", "b"])
    (folder / "predict_net.pb").write_bytes(net.SerializeToString())
    return folder


@pytest.mark.long
@pytest.mark.skipif(not os.environ.get("CONVERT_CAFFE2_PYTHON"), reason="no Caffe2 here (CONVERT_CAFFE2_PYTHON)")
@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("UniformFill", {"min": -1.0, "max": 1.0}),
        ("GaussianFill", {"mean": 0.5, "std": 0.1}),
    ],
)
def test_caffe2(operator: str, arguments: dict[str, float], tmp_path: Path) -> None:
    hold(caffe2_net(tmp_path / "net.caffe2", operator, arguments), ["x:float32[batch,6]"])
