"""Training goes on in PyTorch where Keras left off: the losses of the next steps are those that Keras has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import convert

keras = pytest.importorskip("keras", reason="Keras trains the source")
RATE, STEPS = 0.05, 8


def network(recurrent: bool) -> Any:
    """Convolutions that PyTorch writes otherwise (pads of one side, depthwise, swish), norms, a recurrent layer."""
    layers = keras.layers
    keras.utils.set_random_seed(3)
    x = keras.Input((12, 12, 3), name="x")
    y = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(x)
    y = layers.BatchNormalization()(y)
    y = layers.Activation("swish")(y)
    y = layers.DepthwiseConv2D(3, padding="same")(y)
    y = layers.add([y, layers.SeparableConv2D(8, 3, padding="same", activation="relu")(y)])
    y = layers.LayerNormalization()(layers.Reshape((36, 8))(y))
    y = layers.LSTM(10)(y) if recurrent else layers.Flatten()(y)
    model = keras.Model(x, layers.Dense(4, name="y")(layers.Dense(16, activation="tanh")(y)))
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            rows = [np.linspace(a, b, 8) for a, b in ((0.5, 1.5), (-0.2, 0.3), (-0.1, 0.1), (0.02, 0.4))]
            layer.set_weights(rows)
    return model


def losses_of_keras(model: Any, x: np.ndarray, wanted: np.ndarray) -> list[float]:
    """Plain gradient descent by Keras's optimizer on TensorFlow's gradients; averages of norms stay."""
    import tensorflow as tf

    optimizer, found = keras.optimizers.SGD(RATE), []
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=False) - wanted))
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        found.append(float(loss))
    return found


@pytest.mark.parametrize(("form", "recurrent"), [("torch", True), ("torch-code", False)])
def test_losses_are_those_of_keras(form: str, recurrent: bool, tmp_path: Path) -> None:
    """Step by step within rounding, though not a weight has the layout that it has in Keras.

    In code an LSTM is `nn.LSTM`, which trains two biases where Keras has one.
    """
    from tests.backends.pytorch.test_state import FORMS, loaded

    model = network(recurrent)
    convert.convert(model, form, tmp_path / f"m{FORMS[form]}", verify=False)
    module = loaded(tmp_path / f"m{FORMS[form]}")
    rng = np.random.default_rng(0)
    x, wanted = rng.normal(size=(16, 12, 12, 3)).astype(np.float32), rng.normal(size=(16, 4)).astype(np.float32)
    start = [p.detach().clone() for p in module.parameters()]
    optimizer, found = torch.optim.SGD(module.parameters(), RATE), []
    for _ in range(STEPS):
        y = module(torch.from_numpy(x))
        loss = torch.nn.functional.mse_loss(y["y"] if isinstance(y, dict) else y, torch.from_numpy(wanted))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    expected = losses_of_keras(model, x, wanted)
    assert found == pytest.approx(expected, rel=2e-5)
    assert found[-1] < 0.95 * found[0]
    moved = sum(int((p != before).sum()) for p, before in zip(module.parameters(), start, strict=True))
    count = sum(int(np.prod(w.shape)) for w in model.trainable_weights)
    assert 0.9 * count < moved <= count, "what Keras trains, and nothing else"
    with torch.no_grad():
        y = module(torch.from_numpy(x))
    np.testing.assert_allclose(y["y"] if isinstance(y, dict) else y, model(x), rtol=1e-3, atol=1e-4)
