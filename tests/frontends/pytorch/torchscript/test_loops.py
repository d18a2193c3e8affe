"""Loops of TorchScript programs, for other numbers of steps than the example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import convert
from tests.support.torchscript_tools import agree, converted, kinds, scripted


def rows(x, w):
    y = x.new_zeros([2, 3])
    for t in x:
        y = y.mm(w) + t
    return y


def test_loop_over_rows() -> None:
    """The pair of loops from the ONNX talk: converted once, right for 3 rows, 2 and none."""
    program = torch.jit.script(rows)
    model = converted(program, "x:float32[rows,2,3]", "w:float32[3,3]")
    assert "Loop" in kinds(model)
    agree(program, model, *((torch.rand(n, 2, 3), torch.rand(3, 3)) for n in (3, 2, 0, 7)))


def talk(y, x, w):
    for t in x:
        y = y.mm(w) + t
    return y


def static_loop(x):
    total = x
    i = 0
    while i < 5:
        i += 2
        total = total + x * i
    for j in range(3, 0, -1):
        total = total * j
    return total


def halving(x):
    steps = 0
    while bool(x.abs().max() > 1):
        x = x / 2
        steps += 1
        if steps >= 4:
            break
    return x, steps


def in_place_loop(x):
    out = torch.zeros_like(x)
    total = torch.zeros([3])
    for i in range(x.size(0)):
        out[i] = x[i] * i
        total += x[i]
    return out, total


def growing(x):
    seen: list[torch.Tensor] = []
    state = torch.zeros([3])
    for i in range(x.size(0)):
        state = torch.tanh(state + x[i])
        if i % 2 == 0:
            seen.append(state)
    return torch.stack(seen), len(seen), seen[0]


def growing_shape(x, n: int):
    y = x
    for i in range(n):
        y = torch.cat([y, x * i])
    return y


def nested_loops(x):
    total = torch.zeros([])
    count = 0
    for i in range(x.size(0)):
        for j in range(i, x.size(1)):
            if bool(x[i, j] > 0):
                total = total + x[i, j]
                count += 1
            elif bool(x[i, j] < -0.9):
                continue
    return total, count


def states(x):
    h, c = torch.zeros([2]), torch.ones([2])
    pair = (h, c)
    for i in range(x.size(0)):
        h, c = pair
        pair = (c + x[i], h)
    return pair


def fibonacci(n: int):
    a, b = 0, 1
    while a < n:
        a, b = b, a + b
    return a, b, a / b


LOOPS = [
    (
        talk,
        ["y:float32[k,3]", "x:float32[rows,k,3]", "w:float32[3,3]"],
        [(torch.rand(2, 3), torch.rand(n, 2, 3), torch.rand(3, 3)) for n in (3, 2, 0)],
    ),
    (static_loop, ["x:float32[n]"], [(torch.rand(3),)]),
    (halving, ["x:float32[n]"], [(torch.rand(3) * k,) for k in (0.5, 3, 7, 1000)]),
    (in_place_loop, ["x:float32[n,3]"], [(torch.rand(n, 3),) for n in (1, 4, 0)]),
    (growing, ["x:float32[n,3]"], [(torch.rand(n, 3),) for n in (1, 4, 5)]),
    (growing_shape, ["x:float32[n,3]", "n:int64[]"], [(torch.rand(2, 3), n) for n in (0, 1, 4)]),
    (nested_loops, ["x:float32[n,m]"], [(torch.randn(n, m),) for n, m in ((3, 4), (1, 1), (4, 2))]),
    (states, ["x:float32[n,2]"], [(torch.rand(n, 2),) for n in (0, 1, 4)]),
    (fibonacci, ["n:int64[]"], [(n,) for n in (1, 10, 1000)]),
]


@pytest.mark.parametrize(("function", "inputs", "calls"), LOOPS, ids=lambda v: v.__name__ if callable(v) else "")
def test_loop(function: Any, inputs: list[str], calls: list[tuple[Any, ...]]) -> None:
    program = torch.jit.script(function)
    model = converted(program, *inputs)
    assert ("Loop" in kinds(model)) == (function is not static_loop)
    agree(program, model, *calls)


class Recurrent(nn.Module):
    """A cell in a loop over time, with a state of two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Linear(9, 20)
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        h, c = torch.zeros(x.size(1), 5), torch.zeros(x.size(1), 5)
        outputs: list[torch.Tensor] = []
        for t in range(x.size(0)):
            i, f, g, o = self.gates(torch.cat([x[t], h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(self.head(h))
        return torch.stack(outputs), (h, c)


def test_cell_in_a_loop_over_time() -> None:
    program = scripted(Recurrent())
    model = converted(program, "x:float32[time,batch,4]")
    agree(program, model, *((torch.rand(t, b, 4),) for t, b in ((3, 2), (1, 1), (7, 3))))


def rows_of_a_recurrence(x):
    h = torch.zeros(3)
    rows: list[torch.Tensor] = []
    for i in range(x.size(0)):
        h = h * 0.5 + x[i]
        rows.append(h)
    return torch.stack(rows), h


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "torch", "tflite"])
def test_rows_that_a_loop_collects_are_no_sequence(to: str, tmp_path: Path) -> None:
    report = convert.convert(
        torch.jit.script(rows_of_a_recurrence), to, tmp_path / "rows", inputs=["x:float32[steps,3]"]
    )
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
