"""Decisions of forward on sizes: both paths are in the graph, or it refuses sizes of the path that was not captured."""

from __future__ import annotations

import math
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from convert.frontends.pytorch.export.capture.export_module import capture_sizes
from convert.frontends.pytorch.inputs.examples import DynamicDim, Example
from torch import nn
from torch.nn import functional

import convert
from convert.outcome.report import Report
from tests.support.marks import slow
from tests.support.pytorch_tools import agrees, noise, read, run
from tests.support.run_targets import run_target

Sizes = Callable[[int, int], bool]


class Called(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


FUNCTIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Sizes]] = {
    # The function, and the sizes of the two dims for which the captured branch is taken.
    "greater": (lambda x: x + 1 if x.shape[0] > 3 else x - 1, lambda a, b: a <= 3),
    "equal": (lambda x: x + 1 if x.shape[0] == 4 else x - 1, lambda a, b: a != 4),
    "one row": (lambda x: x + 1 if x.shape[0] == 1 else x - 1, lambda a, b: a > 1),
    "one element": (lambda x: x + 1 if x.numel() == 1 else x - 1, lambda a, b: a * b > 1),
    "modulo": (lambda x: x + 1 if x.shape[0] % 2 == 0 else x - 1, lambda a, b: a % 2 == 0),
    "quotient": (lambda x: x + 1 if x.shape[0] // 2 > 3 else x - 1, lambda a, b: a < 8),
    "half": (lambda x: x + 1 if x.shape[0] / 2 > 3 else x - 1, lambda a, b: a <= 6),
    "square": (lambda x: x + 1 if x.shape[0] ** 2 > 30 else x - 1, lambda a, b: a <= 5),
    "rounded up": (lambda x: x + 1 if math.ceil(x.shape[0] / 3) > 2 else x - 1, lambda a, b: a <= 6),
    "ratio": (lambda x: x + 1 if x.shape[0] / x.shape[1] > 2.5 else x - 1, lambda a, b: a / b <= 2.5),
    "one row of positive numbers": (lambda x: x.relu() if x.shape[0] == 1 else x * 1, lambda a, b: a > 1),
    "less than the other": (lambda x: x + 1 if x.shape[0] > x.shape[1] else x - 1, lambda a, b: a <= b),
    "all elements": (lambda x: x + 1 if x.numel() > 20 else x - 1, lambda a, b: a * b <= 20),
    "as a number": (lambda x: x * int(x.shape[0] > 5), lambda a, b: a <= 5),
    "two": (lambda x: x + 1 if x.shape[0] > 3 and x.shape[1] < 9 else x - 1, lambda a, b: a <= 3),
    "squeeze": (lambda x: x.squeeze(), lambda a, b: a > 1 and b > 1),
    "squeeze of a dim": (lambda x: x.squeeze(1), lambda a, b: b > 1),
    "no decision": (lambda x: x[: min(x.shape[0], 5)], lambda a, b: True),
    "a short cut": (lambda x: x * 1 if x.shape[0] == 1 else x.flip(0).flip(0), lambda a, b: True),
    "nearly a short cut": (lambda x: x * 1.00002 if x.shape[0] == 1 else x * 1, lambda a, b: a > 1),
    "last rows": (lambda x: x[-2:] * x[-2:].shape[0], lambda a, b: a >= 2),
    "first columns": (lambda x: x[:, :3].reshape(x.shape[0], -1) + x[:, :3].shape[1], lambda a, b: b >= 3),
    "any rows": (lambda x: x[-1:] * x[1:].shape[0], lambda a, b: True),
    "only the size": (lambda x: torch.ones(3) if x.shape[0] > 3 else torch.zeros(3), lambda a, b: a <= 3),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sizes_that_take_another_way_are_refused(name: str) -> None:
    function, taken = FUNCTIONS[name]
    report = Report("test")
    model = read(Called(function), "x:float32[a,b]", report=report, single_size_branch=True)
    sizes = [(1, 1), (1, 4), (2, 2), (2, 6), (3, 1), (4, 5), (5, 2), (7, 3), (8, 8), (9, 30), (24, 2)]
    refusing = any(note.code == "size-limits" for note in report.notes)
    met = {taken(a, b) for a, b in sizes}
    assert refusing == (False in met), report.notes
    for a, b in sizes:
        x = noise(a, b)
        if taken(a, b):
            np.testing.assert_array_equal(run(model, x)[0], function(torch.from_numpy(x)).numpy(), err_msg=f"{a}, {b}")
            continue
        with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="only_if_"):
            run(model, x)


NUMBERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    # Arguments that PyTorch's operators take as numbers.
    "window of a mean": lambda x: functional.avg_pool1d(x[None], x.shape[1] // 2),
    "window of a mean in two dims": lambda x: functional.avg_pool2d(x[None], (1, x.shape[1] // 2)),
    "window of a maximum": lambda x: functional.max_pool1d(x[None], x.shape[1] // 2),
    "window of a norm": lambda x: functional.lp_pool1d(x[None], 2, x.shape[1] // 2),
    "adaptive mean": lambda x: functional.adaptive_avg_pool1d(x[None], x.shape[1] // 2),
    "adaptive maximum": lambda x: functional.adaptive_max_pool1d(x[None], x.shape[1] // 2),
    "patches": lambda x: functional.unfold(x[None, None], (1, x.shape[1] // 2)),
    "windows": lambda x: x.unfold(1, x.shape[1] // 2, 1),
    "diagonal": lambda x: x.diagonal(x.shape[1] // 2 - 2),
    "classes": lambda x: functional.one_hot((x > 0).long(), x.shape[1] // 2 + 2),
    "bins": lambda x: torch.histc(x, x.shape[1] // 2 + 1, -2, 2),
    "power": lambda x: torch.linalg.matrix_power(x @ x.mT / 9, x.shape[1] // 2),
    "padding of a convolution": lambda x: functional.conv1d(x[None, :1], torch.ones(1, 1, 2), None, 1, x.shape[1] // 2),
}


@pytest.mark.parametrize("name", slow(NUMBERS, "patches", "power", "diagonal"))
def test_numbers_that_operators_take_out_of_sizes_are_right_or_refused(name: str) -> None:
    function = NUMBERS[name]
    report = Report("test")
    model = read(Called(function), "x:float32[a,b]", report=report)
    refused = 0
    for a, b in [(4, 6), (4, 7), (6, 4), (5, 9), (9, 12), (3, 30), (4, 1)]:
        x = noise(a, b)
        try:
            want = function(torch.from_numpy(x)).numpy()
        except RuntimeError:
            continue  # half of 1 is 0, which some operators accept: a separate path up to PyTorch 2.10
        try:
            got = run(model, x)[0]
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:
            if "only_if_" not in str(error):
                raise
            refused += 1
            continue
        assert got.shape == want.shape, (a, b)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=f"{a}, {b}")
    assert (refused > 0) == any(note.code == "size-limits" for note in report.notes)


WITHOUT_OTHER_WAY = {"squeeze", "squeeze of a dim"}
"""Functions in which an operator decides, with another rank on the other path."""


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in WITHOUT_OTHER_WAY])
def test_both_ways_are_in_the_graph(name: str) -> None:
    function, taken = FUNCTIONS[name]
    report = Report("test")
    model = read(Called(function), "x:float32[a,b]", report=report)
    sizes = [(1, 1), (1, 4), (2, 2), (2, 6), (3, 1), (4, 5), (5, 2), (7, 3), (8, 8), (9, 30), (24, 2)]
    decides = not all(taken(a, b) for a, b in sizes if a > 1 or "last" not in name)
    notes = [note for note in report.notes if note.code == "control-flow"]
    assert bool(notes) == decides, report.notes
    for a, b in sizes:
        x = noise(a, b)
        if notes or taken(a, b):
            np.testing.assert_array_equal(run(model, x)[0], function(torch.from_numpy(x)).numpy(), err_msg=f"{a}, {b}")


ENDS = [(-5, -1), (2, 7), (-4, 3), (None, 4), (-3, None), (1, -2), (0, -6)]


@pytest.mark.parametrize("ends", slow(ENDS, (-5, -1), (None, 4), (1, -2)), ids=str)
def test_slices_between_constants_are_right_or_refused(ends: tuple[int | None, int | None]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        part = x[ends[0] : ends[1]]
        return part.sum(0) * part.shape[0]

    model, right = read(Called(function), "x:float32[a,3]"), 0
    for a in range(1, 13):
        x = np.arange(3.0 * a, dtype=np.float32).reshape(a, 3)
        try:
            (got,) = run(model, x)
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
            continue
        np.testing.assert_array_equal(got, function(torch.from_numpy(x)).numpy(), err_msg=str(a))
        right += 1
    assert right >= 2


ROUNDED: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x + 1 if int(x.shape[0] * 0.5) > 2 else x - 1,
    lambda x: x + int(x.numel() * 0.1),
]


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(ROUNDED)))
def test_decisions_on_rounded_sizes_are_right(place: int) -> None:
    model = read(Called(ROUNDED[place]), "x:float32[a,3]")
    for a in range(1, 40):
        (got,) = run(model, noise(a, 3))
        np.testing.assert_array_equal(got, ROUNDED[place](torch.from_numpy(noise(a, 3))).numpy(), err_msg=str(a))


class Offset(nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x + n if x.shape[1] == 1 else x * 1


class Places(nn.Module):
    """One token at its position, or all tokens from the beginning, as in decoders."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Embedding(20, 4)

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        t = x.shape[1]
        return x + self.places(n.expand(1) if t == 1 else torch.arange(t))[:, 0]


class Masked(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (x.masked_fill(mask, 0.0) if x.shape[1] > 1 else x) * 2


class MaskedAlike(nn.Module):
    """A shortcut that changes nothing, for any mask."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.where(mask, x, x.flip(1).flip(1)) if x.shape[1] > 1 else x * 1


@pytest.mark.parametrize(("kind", "dtype"), [(Offset, "int64"), (Places, "int64"), (Masked, "bool")])
def test_short_lengths_that_zeros_hide_are_refused(kind: type[nn.Module], dtype: str) -> None:
    torch.manual_seed(0)
    module = kind().eval()
    specs = "x:float32[2,t]", f"n:{dtype}[1]" if dtype == "int64" else "mask:bool[2,t]"
    model, both = read(module, *specs, single_size_branch=True), read(module, *specs)
    x = noise(2, 5)
    second = np.array([5]) if dtype == "int64" else noise(2, 5) > 0
    with torch.no_grad():
        want = module(torch.from_numpy(x), torch.from_numpy(second))
    np.testing.assert_allclose(run(model, x, second)[0], want.numpy(), rtol=1e-6)
    short = x[:, :1], second if dtype == "int64" else second[:, :1]
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="only_if_"):
        run(model, *short)
    for arrays in ((x, second), short):
        agrees(module, both, *arrays)


def test_a_short_cut_that_changes_nothing_beside_a_mask_is_taken() -> None:
    model = read(MaskedAlike(), "x:float32[2,t]", "mask:bool[2,t]")
    for t in (1, 5):
        np.testing.assert_array_equal(run(model, noise(2, t), noise(2, t) > 0)[0], noise(2, t))


class Weighted(nn.Module):
    """Decides on a length that equals another length from then on."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x * w[:, :, None] if x.shape[1] > 1 and x.shape[0] > 1 else x


def test_decisions_on_a_length_that_turns_out_to_be_anothers() -> None:
    specs = "x:float32[n,t,3]", "w:float32[n,t]"
    model, both = read(Weighted(), *specs, single_size_branch=True), read(Weighted(), *specs)
    x, w = noise(4, 5, 3), noise(4, 5)
    np.testing.assert_array_equal(run(model, x, w)[0], x * w[:, :, None])
    for rows, steps in ((1, 5), (4, 1)):
        agrees(Weighted(), both, x[:rows, :steps], w[:rows, :steps])
        with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="only_if_"):
            run(model, x[:rows, :steps], w[:rows, :steps])


class Lengths(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == y.shape[0]:
            return x.sum() + y.sum()
        return x.sum() - y.sum()


def test_lengths_that_forward_found_equal_have_to_be() -> None:
    model = read(Lengths(), "x:float32[n]", "y:float32[n]")
    assert run(model, noise(3), noise(3, seed=1))[0] == pytest.approx(float(noise(3).sum() + noise(3, seed=1).sum()))
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="only_if_"):
        run(model, noise(3), noise(5))


def even(x: torch.Tensor) -> torch.Tensor:
    """The other branch returns another rank, so only one branch can be written."""
    return x + 1 if x.shape[0] % 2 == 0 else x.sum()


def test_the_report_and_the_printed_contract_say_it(tmp_path: Path) -> None:
    function, _ = FUNCTIONS["greater"]
    report = convert.convert(
        Called(function), "onnx", tmp_path / "m.onnx", inputs="x:float32[batch=4..,3]", verify=False
    )
    assert report.contract(report.inputs[0]) == "x: float32[batch≥4,3]"
    assert report.bounds == {"batch": [4, None]}
    report = convert.convert(Called(even), "onnx", tmp_path / "e.onnx", inputs="x:float32[batch,3]", verify=False)
    assert report.conditions == ["(batch % 2) == 0"]
    assert any(f"{Path(__file__).name}:" in note and "(batch % 2) == 0" in note for note in report.notes)


@pytest.mark.parametrize(("form", "suffix", "options"), [("tf", "savedmodel", {}), ("onnx", "onnx", {"opset": 11})])
def test_artefacts_refuse_other_sizes(tmp_path: Path, form: str, suffix: str, options: dict[str, Any]) -> None:
    path = tmp_path / f"m.{suffix}"
    convert.convert(Called(even), form, path, inputs="x:float32[batch,3]", verify=False, **options)
    (right,) = run_target(form, path, [{"x": noise(4, 3)}])
    np.testing.assert_array_equal(right["output"], noise(4, 3) + 1)
    with pytest.raises(Exception, match="only_if_batch_is_a_multiple_of_2"):
        run_target(form, path, [{"x": noise(3, 3)}])


class Halves(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 2 == 1:
            return x.mean()
        return (x * 2).reshape(-1, 2, 3).sum(1) if x.shape[0] <= 30 else x.sum()


@pytest.mark.parametrize("form", slow(["torch", "torch-script", "torch-code"], "torch"))
def test_pytorchs_programs_refuse_other_sizes(form: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    report = convert.convert(Halves(), form, path, inputs="x:float32[batch,3]", verify=False)
    assert not any(note.code == "unchecked-sizes" for note in report.notes)
    if form == "torch":
        made: Any = torch.export.load(path).module()
    else:
        made = torch.jit.load(path) if form == "torch-script" else runpy.run_path(str(path / "model.py"))["Model"]()
    for n in (4, 6, 10):
        x = torch.from_numpy(noise(n, 3))
        found = made(x)
        np.testing.assert_array_equal(found["output"] if isinstance(found, dict) else found, Halves()(x))
    for n in (1, 3, 5, 32):
        with pytest.raises((AssertionError, torch.jit.Error)):
            made(torch.from_numpy(noise(n, 3)))


def test_what_has_no_way_of_refusing_says_so(tmp_path: Path) -> None:
    report = convert.convert(Called(even), "caffe2", tmp_path / "m.caffe2", inputs="x:float32[b,3]", verify=False)
    assert any(note.code == "unchecked-sizes" and "(b % 2) == 0" in note for note in report.notes)


def test_errors_and_notes_say_what_to_feed() -> None:
    """Errors name the multiple that a size must be, even for chunk, instead of a negative size of Split."""
    report = Report("test")
    model = read(Called(lambda x: x.chunk(2)[0] * 2), "x:float32[batch,3]", report=report, single_size_branch=True)
    with pytest.raises(Exception, match=r"only_if_.*batch"):
        run(model, noise(1, 3))
    read(Called(even), "x:float32[batch,3]", report=(other := Report("test")), single_size_branch=True)
    assert any("batch is a multiple of 2" in note for note in other.notes)


LAYOUTS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], list[bool]]] = {
    # The function, and for each line that asked for the layout, whether it told forward.
    "contiguous": (lambda x: x.mT.contiguous() * 2, [False]),
    "is_contiguous": (lambda x: x.mT * 2 if x.mT.is_contiguous() else x.mT * 3, [True]),
    "stride": (lambda x: x.mT * 2 if x.mT.stride(1) == 1 else x.mT * 3, [False]),  # a branch of forward
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_forward_is_told_the_layout_by_what_returns_no_tensor(name: str) -> None:
    function, told = LAYOUTS[name]
    dims = {0: DynamicDim("rows", asked=True), 1: DynamicDim("columns", asked=True)}
    decided = capture_sizes(Called(function), {"x": Example(torch.randn(3, 5), dims)}, Report("capture")).decided
    assert [line in decided.answered for line in decided.settled] == told


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_at_length_1_are_right(name: str) -> None:
    module = Called(LAYOUTS[name][0])
    model = read(module, "x:float32[a,b]")
    for sizes in [(3, 5), (1, 5), (3, 1), (1, 1)]:
        agrees(module, model, noise(*sizes))
