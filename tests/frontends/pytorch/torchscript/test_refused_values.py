"""TorchScript programs are refused if they use run-time values in ways that a graph cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from convert.errors import Unsupported
from convert.graph.metadata import DIMS_KEY
from convert.outcome.report import Report
from tests.support.torchscript_tools import agree, converted, session


def item_of_run_time_key(x):
    table = {2: 10.0}
    table[x.size(0)] = 3.0
    return x * len(table)


def default_of_run_time_key(x):
    table = {2: 10.0}
    return x * table.setdefault(x.size(0), 3.0)


def text_that_is_compared(x):
    return x * 2 if str(x.size(0)) == "3" else x


def text_that_is_looked_for(x):
    name = f"rows{x.size(0)}"
    return x * 2 if name in ["rows3", "rows4"] else x


def text_that_is_joined(x):
    name = "-".join(["rows", "of" + str(x.size(0))])
    return x * 2 if name == "rows-of3" else x


def text_that_is_measured(x):
    return x * len(str(x.size(0)))


def text_in_a_text(x):
    return x * 2 if "3" in str(x.size(0)) else x


def text_that_is_a_key(x):
    return x * {"3": 2}.get(str(x.size(0)), 1)


def text_that_is_returned(x):
    return str(x.size(0))


def removed(x):
    numbers = [x.size(0), 5, 3]
    numbers.remove(3)
    return x * float(numbers[0] * 10 + numbers[1])


def inserted(x):
    numbers = [1, 2, 3]
    numbers.insert(x.size(0) - 2, 9)
    return x * numbers[1]


def popped(x):
    numbers = [1, 2, 3]
    return x * numbers.pop(x.size(0) - 2)


def list_of_two_names(x):
    a = [1, 2]
    b = a
    if bool(x.sum() > 0):
        b = [5, 6]
    b[0] = 9
    return torch.tensor(a), torch.tensor(b)


def other_list_of_two_names(x):
    a = [1, 2]
    b = a
    if bool(x.sum() > 0):
        b = [5, 6, 7]
    a.append(9)
    return torch.tensor(b)


def dict_of_two_names(x):
    a = {"k": x}
    b = a
    if bool(x.sum() > 0):
        b = {"k": x * 2}
    b["k"] = x * 5
    return a["k"]


def item_of_two_names(x):
    a = [[1], [2]]
    b = a[0]
    if bool(x.sum() > 0):
        b = a[1]
    b.append(7)
    return torch.tensor(a[0])


def list_of_two_names_in_a_loop(x):
    a = [0]
    b = a
    for i in range(x.size(0)):
        b = b + [i] if i == 1 else b  # noqa: RUF005  (TorchScript has no other way)
        b.append(i)
    return torch.tensor(a), torch.tensor(b)


def larger_of_two_lists(x):
    return x * max([1, 2], [x.size(0), 3])[0]


REFUSED = {
    item_of_run_time_key: "a key of a dict that is known at run time only",
    default_of_run_time_key: "a key of a dict that is known at run time only",
    text_that_is_compared: "values that are known at run time only",
    text_that_is_looked_for: "looking for a value that is known at run time only",
    text_that_is_joined: "values that are known at run time only",
    text_that_is_measured: "a text with a value that is known at run time only",
    text_in_a_text: "a text with a value that is known at run time only",
    text_that_is_a_key: "a key of a dict that is known at run time only",
    text_that_is_returned: "a text of what is known at run time only",
    removed: "removing from a list what is known at run time only",
    inserted: "put into a list at a place that is known at run time only",
    popped: "at a place that is known at run time only",
    list_of_two_names: "was changed under a name that stands for it or for another one",
    other_list_of_two_names: "was changed under a name that stands for it or for another one",
    dict_of_two_names: "was changed under a name that stands for it or for another one",
    item_of_two_names: "was changed under a name that stands for it or for another one",
    list_of_two_names_in_a_loop: "was changed under a name that stands for it or for another one",
    larger_of_two_lists: "two lists with numbers known at run time only",
}


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_refused(function: Any) -> None:
    with pytest.raises(Unsupported, match=REFUSED[function]):
        converted(torch.jit.script(function), "x:float32[n,4]")


@torch.jit.script
class Entered:
    def __init__(self, n: int):
        self.n = n

    def __enter__(self):
        self.n = self.n + 1

    def __exit__(self, type: Any, value: Any, tb: Any) -> None:
        self.n = 0


def test_with_of_a_class_of_its_own_is_refused() -> None:
    @torch.jit.script
    def function(x):
        s = Entered(2)
        with s:
            y = x * s.n
        return y + s.n

    with pytest.raises(Unsupported, match="`with` of an object of the program's own class Entered"):
        converted(function, "x:float32[3]")


class Tied(nn.Module):
    def __init__(self, part: slice) -> None:
        super().__init__()
        self.register_buffer("a", torch.zeros(3))
        self.register_buffer("b", self.a[part])

    def forward(self, x: Tensor) -> Tensor:
        self.a.add_(x)
        return self.b.sum() * 2 + x


@pytest.mark.parametrize("part", [slice(None), slice(0, 2)], ids=["whole", "part"])
def test_writes_to_memory_of_two_buffers_are_refused(part: slice) -> None:
    with pytest.raises(Unsupported, match="forward writes to a, whose memory b has too"):
        converted(torch.jit.script(Tied(part).eval()), "x:float32[3]")


def squeezed(x):
    return x.sum(1, keepdim=True).squeeze()


def squeezed_first(x):
    return x.squeeze(0) * 2


def squeezed_in_place(x):
    return (x + 1).squeeze_(0)


@pytest.mark.parametrize("function", [squeezed, squeezed_first, squeezed_in_place])
def test_a_squeeze_of_an_open_dim_fails_for_a_length_of_1(function: Any) -> None:
    program, report = torch.jit.script(function), Report("test")
    model = converted(program, "x:float32[batch,4]", report=report)
    agree(program, model, (torch.rand(3, 4),), (torch.rand(2, 4),))
    assert any(note.code == "size-limits" and "batch != 1" in note for note in report.notes)
    assert model.metadata_props[DIMS_KEY] == '{"batch": [2, null]}'
    with pytest.raises(Exception, match="only_if_batch_is_not_1"):
        session(model).run(None, {"x": np.zeros((1, 4), np.float32)})
