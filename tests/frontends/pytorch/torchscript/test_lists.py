"""Lists of TorchScript programs whose length depends on data, and pieces of tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Tuple  # noqa: UP035  (TorchScript's own)

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import convert
from convert.errors import Unsupported, UsageError
from tests.support.onnx_support import run_ort
from tests.support.torchscript_tools import agree, converted, scripted, session

ROWS = [(torch.linspace(-2, 3, n * 4).reshape(n, 4).sin() * 2,) for n in (3, 2, 7, 1)]
NONE = (torch.zeros(0, 4),)


class Both(nn.Module):
    """Steps forward and backward over the rows of a sequence, like unrolled layers."""

    def __init__(self) -> None:
        super().__init__()
        self.there, self.back = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        rows = x.unbind(0)
        h, g = torch.zeros(4), torch.zeros(4)
        outputs: list[torch.Tensor] = []
        others: list[torch.Tensor] = []
        for i in range(len(rows)):
            h = torch.tanh(self.there(h) + rows[i])
            outputs += [h]
        for i in range(len(rows) - 1, -1, -1):
            g = torch.tanh(self.back(g) + rows[i])
            others = [g] + others  # noqa: RUF005  (TorchScript has no other way)
        return torch.cat([torch.stack(outputs), torch.stack(others)], 1), rows[-1]


def parts(x):
    total = torch.zeros(4)
    for i, part in enumerate(x.chunk(3)):
        total = total + part.sum(0) * float(i + 1)
    return len(x.chunk(3)), len(x.split(2)), len(x.unbind(0)), len(x.t().chunk(3, -1)), total


def slices(x):
    rows = x.unbind(0)
    n = x.size(0)
    more = [x.sum(0)] + rows[1:]  # noqa: RUF005  (TorchScript has no other way)
    return torch.stack(rows[::-1]), torch.stack(rows[-1:]), torch.stack(more), len(rows[n : n + 2])


def swapped(x):
    rows: list[torch.Tensor] = []
    for i in range(x.size(0)):
        rows.append(x[i])
    n = len(rows)
    for i in range(n // 2):
        row = rows[i]
        rows[i] = rows[n - 1 - i]
        rows[n - 1 - i] = row
    rows[-1] = x.mean(0)
    return torch.stack(rows)


def queue(x):
    waiting: list[torch.Tensor] = [x[0]]
    total = torch.zeros(4)
    n = 0
    while len(waiting) > 0 and n < 9:
        total = total * 0.5 + waiting.pop(0)
        n += 1
        if n < x.size(0):
            waiting.append(x[n])
            if bool(x[n].sum() > 0):
                waiting.insert(0, x[n] * 2)
    return total, n, len(waiting)


def joined(x):
    up: list[torch.Tensor] = [x[0]]
    down: list[torch.Tensor] = [x[0]]
    for i in range(x.size(0)):
        if bool(x[i, 0] > 0):
            up.append(x[i])
        else:
            down.append(x[i])
    both = up + down
    up.extend(down)
    down.reverse()
    return torch.stack(both), torch.stack(up), torch.stack(down)


def numbers(x):
    total = 0.0
    values: list[float] = x[:, 0].tolist()
    for v in values:
        total = total * 0.5 + v
    return total, len(values)


def written_pieces(x):
    y = x.clone()
    a, b = y.chunk(2, 1)
    a.add_(1)
    b.mul_(2)
    y.unbind(1)[-1].fill_(3)
    y.split(3, 1)[1].sub_(1)
    return y, a, b


def written_in_one_branch(x):
    y = x.clone()
    row = y[0]
    if bool(x.sum() > 0):
        row.add_(1)
    else:
        y.mul_(2)
    return y, row


def empty_slices(x):
    n = x.size(0)
    y = torch.zeros(6, 4)
    y[n:2] = 1
    y[5:n] += 2
    y[-2:1] = 5
    y[n - 1 : n + 1] = 9
    return y


def truth_of_nothing(x):
    return bool((x > 0).any()), bool((x > 2).all())


def doubled(x, times: int):
    for _ in range(times):
        if bool(x.sum() > 10):
            return x
        x = x * 2
    return x


def returned_early(x):
    return doubled(x.abs(), 4) + doubled(x, x.size(0))


PROGRAMS: dict[Any, list[Any]] = {
    Both: ROWS,
    parts: [*ROWS, NONE],
    slices: ROWS,
    swapped: ROWS,
    queue: ROWS,
    joined: ROWS,
    numbers: [*ROWS, NONE],
    written_pieces: ROWS,
    written_in_one_branch: ROWS,
    empty_slices: [*ROWS, NONE],
    truth_of_nothing: [*ROWS, NONE],
    returned_early: ROWS,
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program: Any) -> None:
    module = scripted(program() if isinstance(program, type) else program)
    agree(module, converted(module, "x:float32[n,4]"), *PROGRAMS[program])


def item_written(x):
    rows: list[torch.Tensor] = []
    for i in range(x.size(0)):
        rows.append(x[i] * 1)
    rows[0].add_(1)
    return torch.stack(rows)


def written_behind(x):
    total = torch.zeros(4)
    rows: list[torch.Tensor] = []
    for i in range(x.size(0)):
        total.add_(x[i])
        rows.append(total)
    return torch.stack(rows)


def last_written(x):
    state = torch.zeros(4)
    rows: list[torch.Tensor] = []
    for i in range(x.size(0)):
        state = state + x[i]
        rows.append(state)
    state.mul_(3)
    return torch.stack(rows)


def base_written(x):
    y = x.clone()
    pieces = y.split(2, 0)
    y.add_(1)
    return pieces[0]


def carried_round(x):
    a, b, c = x[0] * 1, x[0] * 2, x[0] * 3
    rows: list[torch.Tensor] = []
    for _ in range(x.size(0)):
        rows.append(a)
        a, b, c = c, a, b
    b.mul_(2)
    return torch.stack(rows)


@pytest.mark.parametrize("program", [item_written, written_behind, last_written, base_written, carried_round])
def test_writes_that_an_item_of_a_list_would_see_are_refused(program: Any) -> None:
    with pytest.raises(Unsupported, match="memory that an item of a list of unknown length may share"):
        converted(scripted(program), "x:float32[n,4]")


def states(x: Tensor, st: List[Tuple[Tensor, Tensor]]) -> Tensor:  # noqa: UP006  (TorchScript's own)
    for a, b in st:
        x = x + a * b
    return x


def test_items_of_a_list_are_tuples_by_their_numbers() -> None:
    module = torch.jit.script(states)
    names = [f"st_{i}_{j}" for i in range(2) for j in range(2)]
    model = converted(module, "x:float32[n,3]", *(f"{name}:float32[n,3]" for name in names))
    x, *rest = (torch.randn(2, 3) for _ in range(5))
    (got,) = session(model).run(None, {"x": x.numpy()} | {n: t.numpy() for n, t in zip(names, rest, strict=True)})
    wanted = module(x, [(rest[0], rest[1]), (rest[2], rest[3])])
    np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6)
    with pytest.raises(UsageError, match="items of st") as error:
        converted(module, "x:float32[n,3]")
    assert "st_0_0, st_0_1" in error.value.hint
    with pytest.raises(UsageError, match="the inputs st_0_1 of"):
        converted(module, "x:float32[n,3]", "st_0_0:float32[n,3]")


def by_name(levels: Dict[str, List[Tensor]], pairs: Dict[str, Tuple[Tensor, Tensor]]) -> Tensor:  # noqa: UP006
    y = levels["p_2"][1] * 2 - levels["p"][0]
    for _, (a, b) in pairs.items():
        y = y + a * b
    return y


@pytest.mark.slow
def test_items_of_a_dict_may_be_lists_and_tuples(tmp_path: Path) -> None:
    module = torch.jit.script(by_name)
    tensors = [torch.randn(2, 3) for _ in range(7)]
    given = {"p": tensors[:1], "p_2": tensors[1:3]}, {"a": tuple(tensors[3:5]), "b": tuple(tensors[5:])}
    path = tmp_path / "y.onnx"
    report = convert.convert(module, "onnx", path, inputs={"levels": given[0], "pairs": given[1]})
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    names = ["levels_p_0", "levels_p_2_0", "levels_p_2_1", "pairs_a_0", "pairs_a_1", "pairs_b_0", "pairs_b_1"]
    assert [t.name for t in report.inputs] == names
    (got,) = run_ort(path, {n: t.numpy() for n, t in zip(names, tensors, strict=True)})
    np.testing.assert_allclose(got, module(*given).numpy(), rtol=1e-6)
