"""Checks on data that only raise are left out of a capture, with a note; decisions on anything else are refused with
their line.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from torch import nn

from convert.errors import Unsupported
from convert.outcome.report import Report
from tests.support.pytorch_tools import Calling, agrees, noise, read


class Checked(nn.Module):
    def __init__(self, check: Callable[[torch.Tensor], None]) -> None:
        super().__init__()
        self.check = check

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.check(x)
        return x * 2


def raises(x: torch.Tensor) -> None:
    if (x.abs() > 100).any():
        raise ValueError("too large")


def raises_with_words(x: torch.Tensor) -> None:
    large = x > 100
    if large.any():
        first = torch.where(large)[0][0].tolist()
        raise ValueError(f"too large at {first}")


def asserts(x: torch.Tensor) -> None:
    assert (x < 100).all(), "too large"


def calls_assert(x: torch.Tensor) -> None:
    torch._assert((x < 100).all(), "too large")


def negated(x: torch.Tensor) -> None:
    if not (torch.isfinite(x).all() and (x < 100).all()):
        raise ValueError("too large")


def of_two(x: torch.Tensor) -> None:
    if x.max() > 100 or x.min() < -100:
        torch._assert(False, "too large")


def of_numbers(x: torch.Tensor) -> None:
    if x.sum().item() > 1e6:
        raise ValueError("too large")


def of_counts(x: torch.Tensor) -> None:
    if x.flatten().nonzero().shape[0] > 10_000:
        raise ValueError("too many")


def catches_another(x: torch.Tensor) -> None:
    try:
        raises(x)
    except (KeyError, ArithmeticError):
        x.mul_(0)


def raises_again(x: torch.Tensor) -> None:
    try:
        raises(x)
    except ValueError as error:
        raise RuntimeError("too large") from error


@pytest.mark.parametrize(
    "check",
    [
        raises,
        raises_with_words,
        asserts,
        calls_assert,
        negated,
        of_two,
        of_numbers,
        of_counts,
        catches_another,
        raises_again,
    ],
)
def test_a_check_is_left_out_and_said(check: Callable[[torch.Tensor], None]) -> None:
    report, module = Report("convert"), Checked(check)
    model = read(module, "x:float32[n,3]", report=report)
    (note,) = [n for n in report.notes if "only raises" in n]
    assert "test_checks.py" in note
    agrees(module, model, noise(2, 3))


@pytest.mark.parametrize("function", [torch.linalg.cholesky, lambda x: torch.linalg.ldl_factor(x).LD])
def test_what_is_caught_of_a_function_that_raises_is_said(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def factor(x: torch.Tensor) -> torch.Tensor:
        try:
            return function(x)
        except RuntimeError:
            return function(x + torch.eye(3))

    report = Report("convert")
    read(Calling(factor), "tensors_0:float32[n,3,3]", report=report)
    (note,) = [n for n in report.notes if "forward catches" in n]
    assert "test_checks.py" in note


def decides(x: torch.Tensor) -> None:
    if x.sum() > 3:
        x += 1


def mixed(x: torch.Tensor) -> None:
    if (x > 100).any() and not (x < 0).any():
        raise ValueError("both ways of a part are needed")


def chooses(x: torch.Tensor) -> None:
    if (x if x.sum() > 3 else -x).min() < -100:
        raise ValueError("the line has a condition of another kind")


def goes_on(x: torch.Tensor) -> None:
    while x.abs().max() > 1:
        x /= next(iter([2]))  # TorchScript does not compile this


def counts_one_way(x: torch.Tensor) -> None:
    if x.sum() > 3:
        for _ in range(int(x.argmax())):
            x.add_(next(iter([1])))


def catches(x: torch.Tensor) -> None:
    try:
        if (x.sum() > 3).item():
            raise ValueError("large")
        x.mul_(2)
    except ValueError:
        x.add_(1)


def catches_an_assertion(x: torch.Tensor) -> None:
    try:
        assert x.sum() <= 3
    except (KeyError, AssertionError):
        x.neg_()


def is_large(x: torch.Tensor) -> None:
    if x.sum() > 3:
        raise LookupError("large")


def catches_what_another_raises(x: torch.Tensor) -> None:
    try:
        is_large(x)
    except Exception:
        x.neg_()


def catches_everything(x: torch.Tensor) -> None:
    """PyTorch's refusal to decide too."""
    try:
        factor = 2 if x.sum() > 3 else 3
    except Exception:
        factor = 1
    x.mul_(factor)


@pytest.mark.parametrize(
    "check", [decides, catches, catches_an_assertion, catches_what_another_raises, catches_everything]
)
def test_what_decides_is_in_the_graph_both_ways(check: Callable[[torch.Tensor], None]) -> None:
    report, module = Report("convert"), Checked(check)
    model = read(module, "x:float32[n,3]", report=report)
    assert any("test_checks.py" in n and "both ways" in n for n in report.notes)
    for x in (noise(2, 3), noise(4, 3) + 2):
        agrees(module, model, x)


@pytest.mark.parametrize(
    ("check", "line"),
    [
        (mixed, "if (x > 100)"),
        (chooses, "if (x if x.sum()"),
        (goes_on, "while x.abs().max() > 1"),
        (counts_one_way, "for _ in range(int("),
    ],
)
def test_what_decides_on_more_is_refused_with_its_line(
    check: Callable[[torch.Tensor], None], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Unsupported) as error:
        read(Checked(check), "x:float32[n,3]")
    assert "test_checks.py" in error.value.message
    assert line in error.value.message
    if check is counts_one_way:
        assert "on one way only of the condition at" in error.value.message
    assert "def forward" not in "".join(capsys.readouterr()), "torch.export prints what it has captured so far"


class Placed(nn.Module):
    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.transpose(1, 2)
        if x.shape[0] >= self.most:
            x = x.contiguous()
        return x.flatten(1) + 1


def test_a_size_that_only_decides_where_a_tensor_lies_is_no_bound() -> None:
    """diffusers' Upsample2D makes this check on the batch size."""
    model = read(Placed(64), "x:float32[batch,2,3]")
    assert json.loads(model.metadata_props["convert.dims"]) == {"batch": [1, None]}
    assert "convert.guards" not in model.metadata_props
    for batch in (1, 3, 64, 70):
        agrees(Placed(64), model, noise(batch, 2, 3))
