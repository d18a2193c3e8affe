"""Python loops over a length, or until data ends them: torch.export unrolls them, TorchScript keeps them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import convert
from convert.errors import Unsupported
from convert.outcome.report import Report
from tests.support.marks import slow
from tests.support.pytorch_tools import agrees, noise, read


class Cells(nn.Module):
    """Steps of an LSTM and attention over their outputs."""

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
    """Runs a GRU cell from the last step to the first, and returns only the last state."""

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
    """A decaying sum along time, over the rows of an unbind."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(x.size(0), 4)
        for t in range(x.size(1)):
            total = total * 0.5 + x[:, t]
        return total


class Halved(nn.Module):
    """A while loop whose condition depends on data."""

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, 0] * 8
        while bool(x.abs().max() > 1):
            x = x / 2
        return x


class Scaled(nn.Module):
    """No loop, but a Python number that is a size."""

    def forward(self, x: Tensor) -> Tensor:
        return x * float(x.shape[1])


@pytest.mark.parametrize("kind", slow([Cells, Backwards, Inside, Rows, Halved, Scaled], Halved))
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


class Around(nn.Module):
    """Code that TorchScript does not compile, around a submodule with a loop, which is run twice."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.before, self.inner = nn.Linear(4, 4), inner

    def forward(self, x: Tensor, **options: Any) -> Any:
        named = {key: getattr(self, key) for key in ("before", "inner")}
        y = named["before"](x).tanh()
        first, second = (named["inner"](z) for z in (y, y.flip(1)))
        return {"first": first, "size": second * x.shape[1]}


class Deeper(nn.Module):
    """The loop is in a function, inside a list of modules."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.ModuleList([StepsOfFunction()]), nn.ModuleList([Around(Backwards())])])

    def forward(self, x: Tensor, *, scale: float = 2.0, **options: Any) -> Tensor:
        first, second = (layers[0](x * scale, **options) for layers in self.layers)
        return first + second["first"] - second["size"]


class StepsOfFunction(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.drop = nn.GRUCell(4, 3), nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(x)
        return scanned(self.cell(x[:, 0], None), x)


def scanned(h: Tensor, x: Tensor) -> Tensor:
    for t in range(x.size(1)):
        h = h * 0.5 + x[:, t, :3]
    return h


@pytest.mark.parametrize(
    "module",
    [
        Around(Rows()),
        *(pytest.param(net, marks=pytest.mark.slow) for net in (Around(Backwards()), Around(Inside()), Deeper())),
        Around(Halved()),
    ],
)
def test_a_loop_in_a_submodule_of_what_torchscript_does_not_compile(module: nn.Module) -> None:
    report, kept = Report("convert"), dict(module.named_modules())
    model = read(module.train(), "x:float32[b,t,4]", report=report)
    assert any(note.code == "scripted" for note in report.notes)
    assert dict(module.named_modules()) == kept
    assert module.training
    for b, t in ((2, 5), (1, 9), (3, 1), (2, 3)):
        agrees(module.eval(), model, noise(b, t, 4))


class AsksBeside(nn.Module):
    """A submodule with a loop, and a decision of the module itself, which a recorded run would lose."""

    def __init__(self, question: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.inner, self.question = Rows(), question

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        return self.inner(x) * self.question(x)


QUESTIONS: dict[str, Callable[[Tensor], Any]] = {
    "value": lambda x: 2 if bool(x.sum() > 0) else 3,
    "size": lambda x: 2 if x.shape[1] > 4 else 3,
    "remainder": lambda x: 2 if x.shape[1] % 2 else 3,
    "number": lambda x: float(x.shape[1]),
    "range": lambda x: sum(range(x.shape[1])),
    "index": lambda x: list(range(99))[x.shape[1]],
    "unbind": lambda x: x.unbind(1)[-1],
    "split": lambda x: len(x.split(2, 1)),
    "rows": lambda x: sum(row.sum() for row in x),
}


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_decision_beside_the_loop_is_refused(question: str) -> None:
    with pytest.raises(Unsupported, match=r"test_python_loops\.py:\d+"):
        read(AsksBeside(QUESTIONS[question]).eval(), "x:float32[b,t,4]")


UNASKED: dict[str, Callable[[Tensor], Any]] = {
    "key": lambda x: {1: 2.0, 5: 3.0}.get(x.shape[1], 4.0),
    "set": lambda x: len(set(x.shape)),
    "text": lambda x: len(str(x.shape[1])),
    "format": lambda x: len(f"{x.shape[1]}"),
    "type": lambda x: 2 if type(x.shape[1]) is int else 3,
}
"""Uses of a size by Python that PyTorch does not notice, so that a recorded run has no trace of them."""


@pytest.mark.parametrize("question", UNASKED)
def test_what_is_done_with_a_size_beside_the_loop_is_refused(question: str) -> None:
    with pytest.raises(Unsupported, match=r"takes only one size.*test_python_loops\.py:\d+"):
        read(AsksBeside(UNASKED[question]).eval(), "x:float32[b,t,4]")


class NotForTorchScript(nn.Module):
    def forward(self, x: Tensor, **others: Tensor) -> Tensor:
        total = x[:, 0]
        for row in (x[:, t] for t in range(x.shape[1])):
            total = total * 0.5 + row
        return total


def test_what_torchscript_does_not_take_either_is_refused_with_its_line() -> None:
    with pytest.raises(Unsupported, match=r"only one size of a dim .*: t of x, at .*test_python_loops\.py:\d+"):
        read(NotForTorchScript().eval(), "x:float32[b,t,4]")
