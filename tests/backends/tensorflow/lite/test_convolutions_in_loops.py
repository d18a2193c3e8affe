"""Recurrent layers of convolutions become a WHILE of CONV_2D, for any batch size; compared with Keras and PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

import convert

torch = pytest.importorskip("torch", reason="one of the sources")


class ConvCell(torch.nn.Module):  # type: ignore[misc]
    """A cell of a ConvLSTM without its gates, over steps of any number."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Conv2d(5, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(x.shape[0], 3, 5, 6)
        for i in range(x.shape[1]):
            h = torch.tanh(self.inner(torch.cat([x[:, i], h], 1)))
        return h


@pytest.mark.slow  # TensorFlow's converter runs
@pytest.mark.parametrize("dims", [1, 2])
def test_conv_lstm_of_keras(tmp_path: Path, dims: int) -> None:
    from tests.support.keras_helper import keras, layers

    layer = {1: layers.ConvLSTM1D, 2: layers.ConvLSTM2D}[dims](3, 2, padding="same")
    x = keras.Input((4, *(5, 6)[:dims], 2))
    keras.Model(x, layer(x)).save(tmp_path / "m.keras")
    report = convert.convert(tmp_path / "m.keras", "tflite", tmp_path / "m.tflite")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    assert report.inputs[0].shape[0] == "batch"


@pytest.mark.slow  # TensorFlow's converter runs
def test_a_loop_of_torchscript(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(ConvCell().eval()), tmp_path / "m.pt")
    report = convert.convert(tmp_path / "m.pt", "tflite", tmp_path / "m.tflite", inputs="x:float32[batch,steps,2,5,6]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
