"""Control flow of PyTorch modules: operators are kept; Python control flow is refused or traced."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from convert.errors import Unsupported
from convert.outcome.report import Report
from tests.support.pytorch_tools import agrees, noise, read


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.fc(x), lambda x: x * 2 - 1, (x,))


class Loop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def again(i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return (i < 5) & (y.abs().max() < 10)

        def step(i: torch.Tensor, y: torch.Tensor) -> Any:
            return i + 1, y * 1.5 + x

        return torch._higher_order_ops.while_loop(again, step, (torch.zeros((), dtype=torch.int64), x.clone()))[1]


class Scanned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))

    def forward(self, x: torch.Tensor) -> Any:
        from torch._higher_order_ops.scan import scan

        def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
            new = carry * self.w + row
            return new, new.tanh()

        return scan(step, torch.zeros(3), x, dim=0)


class Mapped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.map import map as torch_map

        return torch_map(lambda row, y: row * 2 + y, x, x.sum(0))


class Nested(nn.Module):
    """Branches in branches, with a loop in one of them, which use weights and a value of forward."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        k = x.mean(0)

        def loop(x: torch.Tensor) -> torch.Tensor:
            def step(i: torch.Tensor, y: torch.Tensor) -> Any:
                return i + 1, y * 1.1 + self.a(x) + k

            start = (torch.zeros((), dtype=torch.int64), x.clone())
            return torch._higher_order_ops.while_loop(lambda i, y: i < 3, step, start)[1]

        def branch(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.max() > -0.5, lambda x: self.b(x), lambda x: x - k, (x,))

        return torch.cond(x.sum() > 0, loop, branch, (x,))


class Several(nn.Module):
    """Results of different shapes; a buffer in both branches; a condition on a size."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("t", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> Any:
        pair = torch.cond(x.sum() > 0, lambda x: (x + self.t, x.sum(0)), lambda x: (x - 1, x.mean(0)), (x,))
        return *pair, torch.cond(x.shape[0] > 3, lambda x: x + self.t, lambda x: x * self.t, (x,))


class Backwards(nn.Module):
    """A scan from the end, with a branch in it."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> Any:
        from torch._higher_order_ops.scan import scan

        def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
            new = torch.cond(row.sum() > 0, lambda c, r: torch.tanh(self.fc(r) + c), lambda c, r: c - r, (carry, row))
            return new, new * 2

        return scan(step, torch.zeros(3), x, dim=0, reverse=True)


class MappedPairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> Any:
        from torch._higher_order_ops.map import map as torch_map

        return torch_map(lambda row: (self.fc(row), row.sum()), x)


KINDS = [Branch, Loop, Scanned, Mapped, Nested, Several, Backwards, MappedPairs]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_control_flow_is_kept(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module = kind()
    model = read(module, "x:float32[rows,3]")
    assert {n.op_type for n in model.graph.all_nodes()} & {"If", "Loop", "Scan"}
    for seed, rows in ((0, 4), (1, 2), (2, 6), (3, 1)):
        for sign in (1, -1):
            agrees(module, model, sign * np.abs(noise(rows, 3, seed=seed)))


class Cumulative(nn.Module):
    """A linear recurrence as an associative scan, which PyTorch unrolls for one length."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.rand(3))

    def forward(self, x: torch.Tensor) -> Any:
        from torch._higher_order_ops.associative_scan import associative_scan

        def combine(a: Any, b: Any) -> Any:
            return a[0] * b[0], a[1] * b[0] + b[1]

        return associative_scan(combine, (x.sigmoid() * self.w, x), 0, combine_mode="generic")


@pytest.mark.slow
def test_an_associative_scan_has_a_fixed_length() -> None:
    torch.manual_seed(0)
    module = Cumulative()
    for rows in (1, 6):
        agrees(module, read(module, f"x:float32[{rows},3]"), noise(rows, 3))
    with pytest.raises(Unsupported, match="associative_scan") as error:
        read(module, "x:float32[rows,3]")
    assert "torch.scan" in error.value.hint
    report = Report("convert")
    model = read(module, examples={0: noise(5, 3)}, report=report)
    assert any("fixed at 5" in note for note in report.notes)
    agrees(module, model, noise(5, 3, seed=1))


class Decides(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1


def test_a_size_that_forward_ties_down_is_named() -> None:
    class Length(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * math.hypot(x.shape[1], 0)  # TorchScript does not compile this

    with pytest.raises(Unsupported, match=r"only one size.*length of x, at test_control.py:\d+") as error:
        read(Length(), "x:float32[batch,length]")
    assert "--input" in error.value.hint


def test_python_control_flow_on_data_is_an_error_that_says_where() -> None:
    class Halves(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            while x.abs().max() > 1:
                x = next(iter([x / 2]))  # TorchScript does not compile this
            return x

    with pytest.raises(Unsupported, match=r"test_control.py:\d+ \(while x.abs\(\).max\(\) > 1:\)") as error:
        read(Halves(), "x:float32[batch,3]")
    assert "torch.cond" in error.value.hint
    assert "--trace" in error.value.hint
    assert error.value.exit_code == 4


def test_trace_converts_the_path_taken_and_says_so() -> None:
    report = Report("convert")
    model = read(Decides(), "x:float32[batch,3]", trace=True, report=report)
    assert any(note.code == "traced" for note in report.notes)
    agrees(Decides(), model, np.abs(noise(2, 3)))
