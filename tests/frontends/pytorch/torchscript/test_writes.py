"""In-place writes of TorchScript programs, and those that cannot be converted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from convert.errors import BadInput, ConvertError, Unsupported
from convert.outcome.report import Report
from tests.support.torchscript_tools import agree, converted, scripted

# -- writes ------------------------------------------------------------------------------------------------------------


def aliases(x):
    y = x * 1
    z = y
    z += 1
    y.mul_(2)
    return y, z, x


def views(x):
    y = x.clone()
    row, column, flat = y[1], y[:, 0], y.view(-1)
    row.add_(10)
    column *= 2
    y[:, 1:3] = 5
    flat[0] = -1
    y.t()[0].neg_()
    return y, row, column, flat, y.unsqueeze(0).transpose(1, 2)


def activations(x):
    a = torch.relu_(x + 0.1)
    b = F.leaky_relu(x - 0.5, 0.1, inplace=True)
    c = torch.zeros_like(x)
    c[0] = a[0]
    c.clamp_(max=0.5)
    return a, b, c


def masked(x):
    y = x.clone()
    y[y > 0.5] = 0.0
    y.masked_fill_(y < 0.1, 3.0)
    return y


def dtype_kept(x):
    y = x.to(torch.int32)
    y += 2
    y.copy_(x * 3)
    y.fill_(7)
    y[0] = 1
    return y


@pytest.mark.parametrize("function", [aliases, views, activations, masked, dtype_kept])
def test_writes(function: Any) -> None:
    program = torch.jit.script(function)
    agree(program, converted(program, "x:float32[n,4]"), (torch.rand(4, 4) * 2,), (torch.rand(3, 4),))


def uncertain(x):
    y = x * 2
    z = y.reshape(-1)
    z.add_(1)
    return y


def test_write_that_another_name_may_see() -> None:
    with pytest.raises(Unsupported, match="may or may not share") as caught:
        converted(torch.jit.script(uncertain), "x:float32[n,4]")
    assert "test_writes.py:" in str(caught.value)


def certain_again(x):
    y = x * 2
    z = y.reshape(-1)
    z.add_(1)
    return z


def test_write_that_no_other_name_reads() -> None:
    program = torch.jit.script(certain_again)
    agree(program, converted(program, "x:float32[n,4]"), (torch.rand(3, 4),))


def more_dims(x):
    y = x * 2
    z = torch.atleast_3d(y)
    z += 1
    row = x[0] * 2
    torch.atleast_2d(row).mul_(3)
    pieces = torch.unsafe_chunk(y, 2, 1)
    pieces[1].neg_()
    return y, row


def summed(x):
    y = x * 2
    z = torch.einsum("ij->i", y)
    z += 1
    return y, z


@pytest.mark.parametrize("function", [more_dims, summed])
def test_writes_to_what_hides_whether_it_is_an_argument(function: Any) -> None:
    program = torch.jit.script(function)
    agree(program, converted(program, "x:float32[n,4]"), (torch.rand(3, 4),))


def permuted(x):
    y = x * 2
    z = torch.einsum("ij->ji", y)
    z += 1
    return y, z


def broadcast(x):
    y = x * 2
    z = torch.broadcast_tensors(y, x[0])[0]
    z += 1
    return y, z


@pytest.mark.parametrize("function", [permuted, broadcast])
def test_writes_that_the_argument_may_see_are_refused(function: Any) -> None:
    with pytest.raises(Unsupported, match="may or may not share"):
        converted(torch.jit.script(function), "x:float32[n,4]")


# -- what cannot be converted ------------------------------------------------------------------------------------------


class Strange(nn.Module):
    def forward(self, x):
        y = torch.poisson(x)
        if bool(y.sum() > 0):
            y = torch.real(torch.linalg.eigvals(y)) + y
        return y + 1


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.ModuleList([Strange(), Strange()])
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        for layer in self.inside:
            x = layer(self.linear(x))
        return torch.binomial(x, x)


def test_all_unsupported_operators_are_listed_with_module_and_line() -> None:
    with pytest.raises(Unsupported) as caught:
        converted(scripted(Outer()), "x:float32[3,3]")
    text = str(caught.value)
    for operator in ("poisson", "linalg_eigvals", "binomial"):
        assert operator in text
    assert "inside.0" in text
    assert "and 1 more like it" in text
    assert "test_writes.py:" in text
    assert len(caught.value.problems) == 3


def changing(x, flag):
    y = x
    if bool(flag):
        y = y.to(torch.int64)
    return y


def test_value_of_two_dtypes() -> None:
    with pytest.raises(Unsupported, match="as the data decides"):
        converted(torch.jit.script(changing), "x:float32[n]", "flag:bool[]")


class Checked(nn.Module):
    def forward(self, x):
        if x.size(1) != 3:
            raise ValueError("three channels")
        if bool(x.sum() < -1000):
            raise ValueError("too small")
        return x * 2


def test_checks_of_the_input() -> None:
    program = scripted(Checked())
    report = Report("test")
    agree(program, converted(program, "x:float32[n,3]", report=report), (torch.rand(2, 3),))
    assert any(note.code == "dropped-check" for note in report.notes)
    with pytest.raises(BadInput, match="three channels"):
        converted(program, "x:float32[n,4]")


def test_errors_are_one_paragraph() -> None:
    with pytest.raises(ConvertError) as caught:
        converted(torch.jit.script(uncertain), "x:float32[n,4]")
    assert "\n" not in caught.value.message
