"""Keras models with oneDNN, TensorFlow's default on most servers, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F

import convert
from tests.suites.fused import model_of
from tests.support.marks import slow_but
from tests.support.tensorflow_networks import close, onnxruntime_of

pytest.importorskip("keras", reason="the Keras backend writes with Keras")

PREDICT = """
import sys
import keras, numpy
numpy.save(sys.argv[3], keras.saving.load_model(sys.argv[1]).predict(numpy.load(sys.argv[2]), verbose=0))
"""


def predicted(path: Path, x: np.ndarray, folder: Path) -> np.ndarray:
    """Return the prediction of the Keras model at a path, with oneDNN on."""
    given, found = folder / "x.npy", folder / "y.npy"
    np.save(given, x)
    command = [sys.executable, "-c", PREDICT, str(path), str(given), str(found)]
    subprocess.run(command, env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1"}, check=True, capture_output=True)
    loaded: np.ndarray = np.load(found)
    return loaded


PADDED = {
    "conv2d_of_more_channels": (3, 6, 6, 6),
    "conv3d_of_more_channels": (2, 4, 4, 2, 4),
    "conv3d_behind_pad": (2, 4, 7, 6, 8),
}
"""Layers after a Pad. The layer takes over the pads, except those of channels, or the Pad has only pads of channels."""


@pytest.mark.parametrize("family", PADDED)
def test_no_convolution_reads_pads_that_it_would_take_for_its_own(family: str, tmp_path: Path) -> None:
    """If oneDNN is off, or this processor has other kernels, no other test shows this fault."""
    import keras

    model, _ = model_of(family, "none", "none", "float32")
    model.opset_import[0].version = 20
    convert.convert(model, "keras", tmp_path / "m.keras", verify=False)
    layers = keras.saving.load_model(tmp_path / "m.keras").layers
    (layer,) = (found for found in layers if type(found).__name__.startswith("Conv"))
    before = layer.input._keras_history.operation
    assert not isinstance(before, keras.src.ops.numpy.Pad)
    assert layer.padding == "valid" or not type(before).__name__.startswith("ZeroPadding")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "added", "act"),
    [
        ("conv2d", "none", "MaxMultiple"),
        *(("matmul", added, "Relu") for added in ("wider", "one_wider", "wider_negative")),
        ("batches_of_one_row", "longer", "Relu"),
        *((family, added, "Relu") for family in PADDED for added in ("bias", "none")),
    ],
)
def test_what_onednn_fuses_wrongly_is_not_fused(family: str, added: str, act: str, tmp_path: Path) -> None:
    model, arrays = model_of(family, added, act, "float32")
    model.opset_import[0].version = 20
    x = arrays["x"].astype(np.float32)
    onnx.save(model, tmp_path / "m.onnx")
    convert.convert(tmp_path / "m.onnx", "keras", tmp_path / "m.keras", verify=False)
    found, (want,) = predicted(tmp_path / "m.keras", x, tmp_path), onnxruntime_of(model, {"x": x})
    assert found.shape == want.shape
    assert want.shape in ((1, 5, 32), (1, 6, 2, 4), (3, 6, 7, 6), *PADDED.values())
    close(found, want)


class Normalization(torch.nn.Module):
    """x · r + (b − mean · r), where r is g · (variance + 0.1) to the power of -1/2."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("g", torch.linspace(0.5, 2, 8))  # a parameter is a variable in Keras, which is not fused
        self.register_buffer("b", torch.linspace(-1, 1, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(-1, keepdim=True)
        r = ((x - mean).pow(2).mean(-1, keepdim=True) + 0.1) ** -0.5 * self.g
        return x * r + (self.b - mean * r)


@pytest.mark.slow
def test_a_normalization_keeps_its_epsilon(tmp_path: Path) -> None:
    """TensorFlow turns a normalization with an Rsqrt into oneDNN's layer norm, which has an epsilon of its own
    (2.21).
    """
    module, x = Normalization(), torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))
    convert.convert(module, "keras", tmp_path / "m.keras", inputs="x:float32[n,t,8]", verify=False)
    close(predicted(tmp_path / "m.keras", x.numpy(), tmp_path), module(x).numpy())


class Residual(torch.nn.Module):
    """Two convolutions, the first with a bias, their sum, and an activation, as in a residual block."""

    def __init__(self, activation: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(4, 6, 3), torch.nn.Conv2d(4, 6, 3, bias=False)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(self.first(x) + self.second(x * 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    "activation",
    [F.leaky_relu, F.mish, lambda x: torch.maximum(x, x * 0.2), lambda x: torch.maximum(x, x * 1.5), F.relu],
    ids=["leaky_relu", "mish", "maximum", "maximum_of_more", "relu"],
)
def test_an_activation_behind_a_sum_of_convolutions(
    activation: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path
) -> None:
    """After a sum of convolutions, oneDNN loses the slope of a LeakyRelu, and TensorFlow has no kernel with a Mish
    (2.21).
    """
    module, x = Residual(activation).eval(), torch.randn(2, 4, 9, 8, generator=torch.Generator().manual_seed(0))
    convert.convert(module, "keras", tmp_path / "m.keras", inputs="x:float32[n,4,9,8]", verify=False)
    close(predicted(tmp_path / "m.keras", x.numpy(), tmp_path), module(x).detach().numpy())


@pytest.mark.slow
def test_a_mish_of_logarithms_is_exact_where_it_is_next_to_nothing(tmp_path: Path) -> None:
    """oneDNN's kernel for Keras's layer has an absolute error of 1e-6."""

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.mish(x.abs().neg() - 8)

    x = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    convert.convert(Net(), "keras", tmp_path / "m.keras", inputs="x:float32[n,40]", verify=False)
    found = predicted(tmp_path / "m.keras", x.numpy(), tmp_path)
    wide = -x.abs().double().numpy() - 8
    np.testing.assert_allclose(found, wide * np.tanh(np.logaddexp(0, wide)), rtol=5e-6)


@pytest.mark.parametrize(
    "family", slow_but(["conv2d_in_its_pads", "conv2d_in_pads", "conv1d_in_pads"], "conv2d_in_pads")
)
def test_a_window_in_the_pads_behind_the_input_is_read_from_them(family: str, tmp_path: Path) -> None:
    """If a Pad is fused with the layer, oneDNN reads beyond the input, and sometimes crashes the process."""
    import keras

    model, arrays = model_of(family, "bias", "none", "float32")
    model.opset_import[0].version = 20
    x = arrays["x"].astype(np.float32)
    convert.convert(model, "keras", tmp_path / "m.keras", verify=False)
    (layer,) = (n for n in keras.saving.load_model(tmp_path / "m.keras").layers if type(n).__name__.startswith("Conv"))
    before = type(layer.input._keras_history.operation).__name__
    assert before != "Pad"
    assert not before.startswith("ZeroPadding")
    close(predicted(tmp_path / "m.keras", x, tmp_path), onnxruntime_of(model, {"x": x})[0])
