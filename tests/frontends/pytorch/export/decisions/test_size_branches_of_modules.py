"""Decisions on sizes as an If: the nodes before it, its condition, and the cases without an If."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

import convert
from convert.graph.values import nodes_of
from convert.outcome.report import Report
from convert.parity.inputs.size_branches import branch_feeds, uncovered_branches
from tests.suites.programs.torch_program import Called
from tests.support.marks import slow_but
from tests.support.pytorch_tools import agrees, noise, read
from tests.support.run_targets import run_target


def count(model: ir.Model, operator: str, *, inside: bool = True) -> int:
    return sum(n.op_type == operator for n in (nodes_of(model.graph) if inside else model.graph))


class Padded(nn.Module):
    """A layer on both paths, a decision on its result, and a layer on one path only."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.odd = nn.Conv2d(4, 4, 3, padding=1)
        self.last = nn.Linear(40, 2000)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).relu()
        if y.shape[-1] % 2:
            y = self.odd(y)
        return self.last(y.mean(3).reshape(y.shape[0], -1)[:, :40])


def test_what_both_ways_have_is_before_the_if_and_weights_are_there_once() -> None:
    torch.manual_seed(0)
    module = Padded().eval()
    model = read(module, "x:float32[batch,3,16,w]")
    assert (count(model, "If"), count(model, "Split")) == (1, 0)
    assert (count(model, "Conv", inside=False), count(model, "Conv")) == (1, 2)
    names = [
        name for name, v in model.graph.initializers.items() if v.const_value is not None and v.const_value.size > 9
    ]
    assert sorted(names) == ["first.weight", "last.bias", "last.weight", "odd.weight"]
    for w in (1, 2, 7, 8):
        agrees(module, model, noise(2, 3, 16, w))


def floors(n: int) -> int:
    return (5 - n) // 3


def remainders(n: int) -> int:
    return (7 - 3 * n) % 4


def remainders_of_negative(n: int) -> int:
    return (3 * n + 1) % -5


def quotients(n: int) -> float:
    return (n - 9) / 7


@pytest.mark.parametrize("function", [floors, remainders, remainders_of_negative, quotients])
@pytest.mark.parametrize("number", slow_but([-3, -2, -1, 0, 1, 2], -2, 1))
def test_conditions_are_computed_as_in_python(function: Callable[[int], float], number: int) -> None:
    module = Called(lambda x: x * 2 if function(x.shape[0]) >= number else x * 3)
    model = read(module, "x:float32[n,2]")
    for n in range(1, 30):
        agrees(module, model, noise(n, 2))


def raises(x: Tensor) -> Tensor:
    if x.shape[0] % 2:
        raise ValueError("odd")
    return x + 1


def another_rank(x: Tensor) -> Tensor:
    return x.sum() if x.shape[0] % 2 else x + 1


def another_dtype(x: Tensor) -> Tensor:
    return x.double() if x.shape[0] % 2 else x + 1


def more_outputs(x: Tensor) -> Any:
    return (x, x) if x.shape[0] % 2 else x + 1


def decides_on_data(x: Tensor) -> Tensor:
    if x.shape[0] % 2 and x.sum() > 0:
        return x - 1
    return x + 1


@pytest.mark.parametrize("function", [raises, another_rank, another_dtype, more_outputs, decides_on_data])
def test_a_way_that_cannot_be_had_is_refused_by_the_graph(function: Callable[[Tensor], Any]) -> None:
    report = Report("test")
    model = read(Called(function), "x:float32[n,2]", report=report)
    assert (count(model, "If"), count(model, "Split")) == (0, 1)
    assert any(note.code == "size-limits" and f"{Path(__file__).name}:" in note for note in report.notes)
    agrees(Called(function), model, noise(4, 2))


def many(x: Tensor) -> Tensor:
    for place, divisor in enumerate((2, 3, 5, 7)):
        x = x + place if x.shape[0] % divisor else x * 2
    return x


def test_more_than_eight_ways_are_one() -> None:
    report = Report("test")
    model = read(Called(many), "x:float32[n,2]", report=report)
    assert (count(model, "If"), count(model, "Split")) == (0, 1)
    assert not any(note.code == "control-flow" for note in report.notes)


@pytest.mark.parametrize("spec", ["x:float32[n=2..8,2]", "x:float32[n=400..,2]"])
def test_a_way_beyond_the_users_bounds_is_none(spec: str) -> None:
    def function(x: Tensor) -> Tensor:
        return x + 1 if x.shape[0] > 300 else x - 1

    model, one = read(Called(function), spec), read(Called(function), spec, single_size_branch=True)
    assert count(model, "If") == 0
    assert [n.op_type for n in model.graph] == [n.op_type for n in one.graph]
    assert model.metadata_props == one.metadata_props


def test_what_an_operator_asks_is_no_way() -> None:
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 1, 3)).eval()
    model = read(module, "input:float32[n,1,h,w]")
    assert (count(model, "If"), count(model, "Split")) == (0, 0)


def one_side_raises(x: Tensor) -> Tensor:
    """A decision that only the second path has."""
    if x.shape[0] <= 4:
        return x + 1
    if x.shape[0] % 3 == 0:
        raise ValueError("three")
    return x * 2


def test_a_check_behind_an_if_is_for_its_way_alone(tmp_path: Path) -> None:
    report = convert.convert(Called(one_side_raises), "onnx", tmp_path / "m.onnx", inputs="x:float32[n,2]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert report.conditions == ["not (n > 4) or ((n % 3) != 0)"]
    (note,) = [note for note in report.notes if note.code == "size-limits"]
    assert "with n > 4" in note


def test_dims_with_one_name_are_told_apart_by_their_inputs() -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            if x.shape[0] != y.shape[0]:
                raise ValueError("one number for each row")
            return x[:, 0] * y if x.shape[0] > 1 else x[:, 1]

    report = Report("test")
    read(Pair(), "x:float32[n,3]", "y:float32[n]", report=report)
    (note,) = [note for note in report.notes if note.code == "size-limits"]
    assert "y.shape[0] == x.shape[0]" in note


@pytest.mark.parametrize(
    ("form", "suffix", "options"),
    [
        ("onnx", "onnx", {}),
        ("onnx", "onnx", {"opset": 11}),
        ("tf", "savedmodel", {}),
        ("tflite", "tflite", {}),
        ("torch", "pt2", {}),
    ],
)
def test_targets_refuse_sizes_of_a_check_behind_an_if(
    form: str, suffix: str, options: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / f"m.{suffix}"
    convert.convert(Called(one_side_raises), form, path, inputs="x:float32[n,2]", verify=False, **options)
    for n in (3, 4, 5, 7):
        (found,) = run_target(form, path, [{"x": noise(n, 2)}])
        np.testing.assert_array_equal(found["output"], one_side_raises(torch.from_numpy(noise(n, 2))))
    with pytest.raises(Exception, match=r"only_if_n_is_(a|no)_multiple_of_3|Guard failed|RESHAPE"):
        run_target(form, path, [{"x": noise(6, 2)}])


def test_a_verification_takes_every_way(tmp_path: Path) -> None:
    def function(x: Tensor) -> Tensor:
        return x + 1 if x.shape[0] > 300 else x - 1

    report = convert.convert(Called(function), "onnx", tmp_path / "m.onnx", inputs="x:float32[n,2]")
    assert report.verdict is not None
    assert report.verdict.covered.endswith("2 of 2 ways that depend on sizes")
    model = read(Called(function), "x:float32[n,2]")
    assert uncovered_branches(model, []) == [["n <= 300"], ["n > 300"]]
    found = list(branch_feeds(model, [], 0))
    assert [feed.arrays["x"].shape[0] > 300 for feed in found] == [False, True]
    assert uncovered_branches(model, found) == []


@pytest.mark.parametrize("form", ["keras", "torch-script", "torch-code"])
def test_formats_without_branches_on_sizes_get_one_way(form: str, tmp_path: Path) -> None:
    report = convert.convert(Called(lambda x: x + 1 if x.shape[0] % 2 else x - 1), form, tmp_path / f"m.{form}",
                             inputs="x:float32[n,2]", verify=False)  # fmt: skip
    assert "If" not in report.operators
    assert report.conditions == ["(n % 2) == 0"]
