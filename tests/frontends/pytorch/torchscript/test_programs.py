"""TorchScript programs with dicts, lists and optionals, or that leave loops early, on other data than the example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import convert
from convert.errors import Unsupported
from tests.support.torchscript_tools import agree, converted, kinds, scripted

ONE = torch.eye(4)


def optional_carried(x):
    before: torch.Tensor | None = None
    for i in range(x.size(0)):
        if before is None:  # noqa: SIM108
            before = x[i]
        else:
            before = before * 0.5 + x[i]
    assert before is not None
    return before


class Decoder(nn.Module):
    """A decoder whose state is None before the first step, with a stop condition that may never be true."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def forward(self, x):
        state: tuple[torch.Tensor, torch.Tensor] | None = None
        found: int | None = None
        outputs: list[torch.Tensor] = []
        for t in range(x.size(0)):
            if state is None:
                h, c = x[t], x[t] * 2
            else:
                h, c = state
            h = torch.tanh(self.cell(h) + c)
            state = (h, c + 1)
            if bool(h.sum() > 0):
                found = t
            outputs.append(h)
        last = -1
        if found is not None:
            last = found
        return torch.stack(outputs), last


def optional_result(x, flag):
    y: torch.Tensor | None = None
    if bool(flag):
        y = x * 2
    if y is not None:
        return y
    return x - 1


def dict_carried(x):
    sums: dict[str, torch.Tensor] = {"s": torch.zeros(3), "n": torch.zeros(1)}
    for i in range(x.size(0)):
        sums["s"] = sums["s"] + x[i]
        sums["n"] += 1
    return sums


def best_row(x):
    best = (x[0], 0)
    for i in range(x.size(0)):
        if bool(x[i].sum() > best[0].sum()):
            best = (x[i], i)
    return best


def skips_and_stops(x):
    total = torch.zeros([])
    for i in range(x.size(0)):
        if bool(x[i] < 0):
            continue
        if bool(x[i] > 5):
            break
        total = total + x[i]
    return total


def first_above(x):
    for i in range(x.size(0)):
        if bool(x[i] > 0.5):
            return x[i], i
    return x.sum(), -1


def greedy(x):
    tokens = torch.zeros([1], dtype=torch.int64)
    for t in range(x.size(0)):
        tokens = torch.cat([tokens, x[t].argmax().view(1)])
        if bool(tokens[-1] == 2):
            break
    return tokens


def grows_or_doubles(x):
    steps = 0
    while bool(x.sum() < 100) and steps < 50:
        if bool(x[0] > 5):  # noqa: SIM108
            x = x + 1
        else:
            x = x * 2
        steps += 1
    return x, steps


def lists_of_lists(x):
    lists: list[list[torch.Tensor]] = [[x], [x * 2, x * 3]]
    lists[0].append(x * 4)
    shape: list[int] = []
    for n in x.shape:
        shape.append(n * 2)
    return torch.cat([torch.cat(some) for some in lists]), torch.zeros(shape) + 1


def masked_tail(x, lengths: torch.Tensor | None = None):
    if lengths is None:
        lengths = torch.full([x.size(0)], x.size(1), dtype=torch.int64)
    assert lengths is not None
    mask = torch.arange(x.size(1))[None, :] < lengths[:, None]
    return x * mask.to(x.dtype)


def slices(x):
    n = x.size(0)
    return x[n // 2 :], x[:-1], x[::2], x[-1], x[None], x[..., 0]


def written_columns(x):
    y = torch.empty([x.size(0), 2])
    y[:, 0] = x.sum(1)
    y[:, 1] = x.max(dim=1)[0]
    y[y > 1] = 1.0
    return y


def rows(*counts: int) -> list[tuple[torch.Tensor]]:
    return [(torch.rand(n, 3) * sign,) for n, sign in zip(counts, (1, -1, 1, 1), strict=False)]


LENGTHS = torch.tensor([1, 0, 5])
PROGRAMS: list[tuple[Any, list[str], list[tuple[Any, ...]]]] = [
    (optional_carried, ["x:float32[n,3]"], rows(3, 1, 5)),
    (Decoder(), ["x:float32[n,3]"], rows(4, 1, 2)),
    (optional_result, ["x:float32[n]", "flag:bool[]"], [(torch.rand(3), torch.tensor(f)) for f in (True, False)]),
    (dict_carried, ["x:float32[n,3]"], rows(4, 1, 0)),
    (best_row, ["x:float32[n,3]"], rows(4, 3, 1)),
    (skips_and_stops, ["x:float32[n]"], [(torch.tensor(v),) for v in ([1.0, -2, 3, 7, 1], [-1.0], [2.0, 2])]),
    (first_above, ["x:float32[n]"], [(torch.tensor(v),) for v in ([0.1, 0.2], [0.1, 0.9, 2], [1.0])]),
    (greedy, ["x:float32[n,4]"], [(ONE,), (ONE[[0, 1, 3, 3]],), (ONE[[2]],), (ONE[:0],)]),
    (grows_or_doubles, ["x:float32[n]"], [(torch.rand(3),), (torch.rand(3) * 20,), (torch.zeros(1),)]),
    (lists_of_lists, ["x:float32[n,3]"], rows(2, 5)),
    (masked_tail, ["x:float32[n,m]"], [(torch.rand(2, 5),)]),
    (masked_tail, ["x:float32[n,m]", "lengths:int64[n]"], [(torch.rand(3, m), LENGTHS) for m in (5, 1, 7)]),
    (slices, ["x:float32[n,3]"], rows(5, 2)),
    (written_columns, ["x:float32[n,3]"], rows(5, 1)),
]


@pytest.mark.parametrize(
    ("program", "inputs", "calls"),
    PROGRAMS,
    ids=lambda v: getattr(v, "__name__", type(v).__name__ if callable(v) else ""),
)
def test_program(program: Any, inputs: list[str], calls: list[tuple[Any, ...]]) -> None:
    script = scripted(program)
    agree(script, converted(script, *inputs), *calls)


def test_optionals_that_data_decide_about_are_a_flag_and_a_value() -> None:
    model = converted(scripted(optional_carried), "x:float32[n,3]")
    (loop,) = [node for node in model.graph if node.op_type == "Loop"]
    assert sorted(v.dtype.name for v in loop.outputs if v.dtype is not None) == ["BOOL", "FLOAT"]
    assert "Loop" in kinds(model)


def passed_on(x, flag):
    y: torch.Tensor | None = None
    if bool(flag):
        y = x
    return torch.nn.functional.linear(x, x, y)


def test_an_optional_that_an_operator_takes_is_refused() -> None:
    with pytest.raises(Unsupported, match="an optional that data decide about"):
        converted(torch.jit.script(passed_on), "x:float32[3,3]", "flag:bool[]")


class Structured(nn.Module):
    def forward(self, pair: tuple[torch.Tensor, torch.Tensor], steps: int, parts: list[torch.Tensor]):
        y = pair[0] * steps + pair[1]
        for part in parts:
            y = y - part
        return y


@pytest.mark.long
def test_structured_arguments_are_verified(tmp_path: Path) -> None:
    torch.jit.script(Structured()).save(str(tmp_path / "m.pt"))
    specs = [f"{n}:float32[n]" for n in ("pair_0", "pair_1", "parts_0", "parts_1")]
    report = convert.convert(tmp_path / "m.pt", "onnx", tmp_path / "m.onnx", inputs=[*specs, "steps:int64[]"])
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert [t.name for t in report.inputs] == ["pair_0", "pair_1", "steps", "parts_0", "parts_1"]
