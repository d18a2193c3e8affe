"""Quantized modules of PyTorch are computed with integers in TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import convert
from convert.outcome.verdict import PASS
from tests.backends.tensorflow.lite.test_quantized import in_floats, operators_of

torch = pytest.importorskip("torch")
pytest.importorskip("ai_edge_litert")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

AVERAGES: dict[str, Callable[[Any], Any]] = {
    "mean": lambda x: x.mean((2, 3)),
    "adaptive pool": lambda x: torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1),
    "pool": lambda x: torch.flatten(functional.avg_pool2d(x, 3, 1), 1),  # the average of 9 numbers is never a tie
    "enlarged": lambda x: torch.flatten(functional.interpolate(x, scale_factor=2, mode="bilinear"), 1),
}


class Network(nn.Module):
    """A convolution, a sum, an average and a linear layer, as eager quantization needs them."""

    def __init__(self, average: Callable[[Any], Any], features: int) -> None:
        super().__init__()
        self.quant, self.dequant = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub()
        self.first, self.relu = nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU()
        self.deep, self.last = nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.Linear(features, 5)
        self.sums, self.average = torch.ao.nn.quantized.FloatFunctional(), average

    def forward(self, x: Any) -> Any:
        y = self.relu(self.first(self.quant(x)))
        return self.dequant(self.last(self.average(self.sums.add(self.deep(y), y))))


def quantized(average: Callable[[Any], Any]) -> Any:
    """Return the module quantized with ranges of random pictures, as TorchScript."""
    torch.manual_seed(0)
    pictures = torch.randn(8, 3, 8, 8)
    module = Network(average, average(torch.zeros(1, 8, 4, 4)).shape[1]).eval()
    module.qconfig = torch.ao.quantization.get_default_qconfig("fbgemm")
    torch.ao.quantization.fuse_modules(module, [["first", "relu"]], inplace=True)
    torch.ao.quantization.prepare(module, inplace=True)
    module(pictures)
    return torch.jit.trace(torch.ao.quantization.convert(module), pictures[:1])


@pytest.mark.slow
@pytest.mark.parametrize("name", AVERAGES)
def test_an_average_of_steps_is_one_of_integers(tmp_path: Path, name: str) -> None:
    torch.jit.save(quantized(AVERAGES[name]), tmp_path / "net.pt")
    report = convert.convert(tmp_path / "net.pt", "tflite", tmp_path / "net.tflite", inputs=["x:float32[1,3,8,8]"])
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason
    assert not in_floats(tmp_path / "net.tflite"), operators_of(tmp_path / "net.tflite")


@pytest.mark.slow
def test_scales_that_are_chosen_at_run_time_are_computed_in_float32(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 5)).eval()
    dynamic = torch.ao.quantization.quantize_dynamic(layers, {nn.Linear}, dtype=torch.qint8)
    torch.jit.save(torch.jit.trace(dynamic, torch.randn(3, 16)), tmp_path / "net.pt")
    report = convert.convert(tmp_path / "net.pt", "tflite", tmp_path / "net.tflite", inputs=["input:float32[3,16]"])
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason
    assert "narrower-dtype" in {note.code for note in report.notes}
    assert "int8" in {dtype for _, given, _ in operators_of(tmp_path / "net.tflite") for dtype in given}
