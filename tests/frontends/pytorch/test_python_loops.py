"""Loops of Python over a length, or until data says so: torch.export writes them out, TorchScript keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import convert
from convert.errors import Unsupported
from convert.report import Report
from tests.support.pytorch_tools import agrees, noise, read


class Cells(nn.Module):
    """Steps of an LSTM and attention over what they give."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.score = nn.LSTMCell(4, 5), nn.Linear(5, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = x.new_zeros(x.size(0), 5)
        c = x.new_zeros(x.size(0), 5)
        steps = []
        for t in range(x.size(1)):
            h, c = self.cell(x[:, t], (h, c))
            steps.append(h)
        y = torch.stack(steps, 1)
        return (self.score(y).softmax(1) * y).sum(1), y


class Backwards(nn.Module):
    """Steps of a GRU from the end, of which only the last state is left."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), 3)
        for t in range(x.size(1) - 1, -1, -1):
            h = self.cell(x[:, t], h)
        return h


class Inside(nn.Module):
    """The loop is in a submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.cells, self.after = nn.Linear(4, 4), Backwards(), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.cells(self.before(x).tanh()))


class Rows(nn.Module):
    """A sum along time with decay, over the rows of an unbind."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(x.size(0), 4)
        for t in range(x.size(1)):
            total = total * 0.5 + x[:, t]
        return total


class Halved(nn.Module):
    """A while loop whose end data decides."""

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, 0] * 8
        while bool(x.abs().max() > 1):
            x = x / 2
        return x


class Scaled(nn.Module):
    """No loop, but a number of Python that a size is."""

    def forward(self, x: Tensor) -> Tensor:
        return x * float(x.shape[1])


@pytest.mark.parametrize("kind", [Cells, Backwards, Inside, Rows, Halved, Scaled])
def test_loops_of_python_run_at_any_length(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module, report = kind().eval(), Report("convert")
    model = read(module, "x:float32[b,t,4]", report=report)
    assert any(note.code == "scripted" for note in report.notes)
    for b, t in ((2, 5), (1, 9), (3, 1), (2, 3)):
        agrees(module, model, noise(b, t, 4))


def test_a_loop_of_python_is_verified(tmp_path: Path) -> None:
    report = convert.convert(Cells().eval(), "onnx", tmp_path / "m.onnx", inputs="x:float32[b,t,4]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


class NotForTorchScript(nn.Module):
    def forward(self, x: Tensor, **others: Tensor) -> Tensor:
        total = x[:, 0]
        for row in (x[:, t] for t in range(x.shape[1])):
            total = total * 0.5 + row
        return total


def test_what_torchscript_does_not_take_either_is_refused_with_its_line() -> None:
    with pytest.raises(Unsupported, match=r"only one size of a dim .*: t of x, at .*test_python_loops\.py:\d+"):
        read(NotForTorchScript().eval(), "x:float32[b,t,4]")
