"""Training continues in PyTorch where Keras stopped: the losses of the next steps equal Keras's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import convert
from tests.support.marks import slow, slow_but

keras = pytest.importorskip("keras", reason="Keras trains the source")
RATE, STEPS = 0.05, 8


def network(recurrent: bool) -> Any:
    """A network with convolutions that PyTorch writes in another way (one-sided pads, depthwise, swish), norms, a
    recurrent layer.
    """
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
    """Return losses of plain gradient descent by Keras's optimizer on TensorFlow's gradients; averages of norms stay
    fixed.
    """
    import tensorflow as tf

    optimizer, found = keras.optimizers.SGD(RATE), []
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=False) - wanted))
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        found.append(float(loss))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("form", "recurrent"), [("torch", True), ("torch-code", False)])
def test_losses_are_those_of_keras(form: str, recurrent: bool, tmp_path: Path) -> None:
    """Each step agrees within rounding, although every weight has another layout than in Keras.

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


def _lengths(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.linalg.vector_norm(x, dim=-1) * other[:, 0]


def _directions(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(x, dim=-1) * other


def _attended(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The first of three queries may attend to nothing."""
    allowed = torch.tensor([[False] * 3, [True, False, False], [True, True, False]])
    return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], other[None], attn_mask=allowed)


def _spreads(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return x.std(1) * other[:, 0] + torch.std_mean(x, 1, correction=0)[0]


def _angles(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return angles of (0, 0), of points on both axes, and of zeros of both signs."""
    spectrum = torch.fft.rfft(torch.cat([x, other * 0], 1))
    return torch.atan2(x, x.flip(-1)) + torch.atan2(x, x * 0) + spectrum.angle()[:, :2]


def _sums_of_powers(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.logcumsumexp(x, 1) * other + torch.logaddexp(x, x.flip(-1)) * other


def _long(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x, [0, 1100]).norm(dim=1) * other[:, 0]


FUNCTIONS = [_lengths, _directions, _attended, _spreads, _angles, _sums_of_powers, _long]


class _Called(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return self.function(x, other)


@pytest.mark.parametrize("function", slow(FUNCTIONS, _angles, _sums_of_powers), ids=lambda f: f.__name__)
@pytest.mark.parametrize("form", slow_but(["torch", "torch-code", "tf", "keras"], "torch"))
def test_gradients_are_numbers_where_those_of_the_source_are(function: Any, form: str, tmp_path: Path) -> None:
    """The inputs have a row of zeros, like padding, that no output reads, and a query that attends to no key."""
    source = _Called(function)
    count = 3 if function is _attended else 5
    rows = torch.tensor([[0.0, 0.0], [1.0, -2.0], [0.5, 3.0], [2.0, 2.0], [0.0, -1.5]])[:count]
    other = torch.tensor([[0.0, 0.0], [1.0, 2.0], [-1.0, 4.0], [0.5, 1.5], [2.0, -1.0]])[:count]
    from tests.backends.pytorch.test_state import FORMS

    path = tmp_path / {"tf": "m.savedmodel", "keras": "m.keras"}.get(form, f"m{FORMS.get(form)}")
    report = convert.convert(source, form, path, inputs=(rows, other), verify=False)
    x = rows.clone().requires_grad_()
    source(x, other).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    of = _gradient_in_tensorflow if form in ("tf", "keras") else _gradient_in_torch
    torch.testing.assert_close(of(path, report, rows, other), x.grad)


def _gradient_in_torch(path: Path, report: Any, rows: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    from tests.backends.pytorch.test_state import loaded

    x = rows.clone().requires_grad_()
    y = loaded(path)(x, other)
    (y[report.outputs[0].name] if isinstance(y, dict) else y).sum().backward()
    assert x.grad is not None
    return x.grad


def _gradient_in_tensorflow(path: Path, report: Any, rows: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    import keras
    import tensorflow as tf

    module = keras.models.load_model(path) if path.suffix == ".keras" else tf.saved_model.load(str(path))
    x = tf.constant(rows.numpy())
    feed = {report.inputs[0].name: x, report.inputs[1].name: tf.constant(other.numpy())}
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = module(feed) if path.suffix == ".keras" else module.signatures["serving_default"](**feed)
        total = tf.add_n([tf.reduce_sum(part) for part in tf.nest.flatten(y)])
    return torch.from_numpy(tape.gradient(total, x).numpy())


@pytest.mark.parametrize("momentum", [0.1, 0.01])
def test_a_batch_norm_moves_its_averages_as_fast(momentum: float, tmp_path: Path) -> None:
    """This is tested in code, where norms are layers: in training mode, and with ONNX's attribute, which is a
    float32.
    """
    from tests.backends.pytorch.test_state import loaded

    torch.manual_seed(0)
    source = torch.nn.Sequential(torch.nn.Conv1d(2, 3, 2), torch.nn.ReLU(), torch.nn.BatchNorm1d(3, momentum=momentum))
    x = torch.randn(4, 2, 5)
    convert.convert(source.eval(), "onnx", tmp_path / "m.onnx", inputs=(x,), verify=False)
    convert.convert(tmp_path / "m.onnx", "torch-code", tmp_path / "m.torch", verify=False)
    code = loaded(tmp_path / "m.torch")
    averages = []
    for module in (source.train(), code.train()):
        y = module(x)
        assert isinstance(y, torch.Tensor)
        averages.append([b for name, b in module.named_buffers() if "running" in name])
    torch.testing.assert_close(averages[1], averages[0])


class Filtered(torch.nn.Module):
    """Weights, some of them scalars; and tensors that are no weights: buffers, a folded literal, tensors made in
    forward.
    """

    def __init__(self) -> None:
        super().__init__()
        self.head, self.norm = torch.nn.Linear(12, 1), torch.nn.BatchNorm1d(12)
        self.prelu, self.logit_scale = torch.nn.PReLU(), torch.nn.Parameter(torch.tensor(0.7))
        self.scale = torch.nn.Parameter(torch.linspace(0.5, 1.5, 12))
        self.register_buffer("bank", torch.linspace(-1, 1, 144).reshape(12, 12))
        self.register_buffer("window", torch.hann_window(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x * (self.window + 1)) @ self.bank + torch.arange(12) / 12
        return self.head(self.prelu(self.norm(x * self.scale))) * self.logit_scale


@pytest.mark.parametrize("form", slow_but(["torch", "torch-code", "torch-script"], "torch"))
def test_what_the_source_does_not_train_is_not_trained(form: str, tmp_path: Path) -> None:
    from tests.backends.pytorch.test_state import FORMS, loaded

    source, path = Filtered().eval(), tmp_path / f"m{FORMS[form]}"
    convert.convert(source, form, path, inputs="x:float32[batch,12]", verify=False)
    shapes = {name: tuple(p.shape) for name, p in loaded(path).named_parameters()}
    assert shapes == {name: tuple(p.shape) for name, p in source.named_parameters()}
