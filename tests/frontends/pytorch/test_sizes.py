"""Dynamic sizes of PyTorch modules: conditions that capture found, equal dims, dims that a line of forward fixes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import convert
from convert.errors import Unsupported
from convert.outcome.report import Report
from convert.parity.inputs.feeds import generate_feeds
from convert.parity.inputs.size_guards import broken_guards
from tests.support.pytorch_tools import Calling, agrees, noise, read, shape_of


class Halves(nn.Module):
    """Downsampling and upsampling, which is right for even heights and widths."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 4, 3, 2, 1), nn.ConvTranspose2d(4, 3, 2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(self.down(x)) + x


class Decides(nn.Module):
    """Branches on sizes, in Python."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[1] % 5 == 0
        if x.shape[1] == 40:
            return x * 2
        return x + 1 if x.shape[0] > 3 else x - 1


def test_conditions_on_sizes_are_kept_and_verified(tmp_path: Path) -> None:
    torch.manual_seed(0)
    report = convert.convert(Halves().eval(), "onnx", tmp_path / "m.onnx", inputs="x:float32[batch,3,h,w]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert any("batch=1" in feed for feed in report.verdict.feeds)
    model = read(Halves().eval(), "x:float32[batch,3,h,w]")
    guards = json.loads(model.metadata_props["convert.guards"])
    assert not broken_guards(guards, {"h": 4, "w": 18})
    assert broken_guards(guards, {"h": 5, "w": 18})
    assert broken_guards(guards, {"h": 4, "w": 17})


@pytest.mark.slow
def test_branches_on_sizes_are_in_the_graph_and_assertions_conditions() -> None:
    model = read(Decides(), "x:float32[rows,n]")
    assert json.loads(model.metadata_props["convert.dims"]) == {"rows": [1, None], "n": [1, None]}
    guards = json.loads(model.metadata_props["convert.guards"])
    for rows in (2, 5):
        broken = [bool(broken_guards(guards, {"rows": rows, "n": n})) for n in (5, 35, 40, 41)]
        assert broken == [False, False, False, True]
    for rows, n in ((1, 5), (3, 10), (2, 45), (5, 10), (2, 40), (4, 40)):
        agrees(Decides(), model, noise(rows, n))


class Sum(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


@pytest.mark.parametrize("names", [("rows", "rows"), ("a", "b")])
def test_dims_that_forward_makes_equal_have_one_name(names: tuple[str, str]) -> None:
    model = read(Sum(), f"x:float32[{names[0]},3]", f"y:float32[{names[1]},3]")
    assert [shape_of(v) for v in model.graph.inputs] == [[names[0], 3], [names[0], 3]]
    for rows in (1, 2, 5):
        agrees(Sum(), model, noise(rows, 3), noise(rows, 3, seed=1))


class Longer(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y[1:] * y[:-1]


def test_a_dim_that_another_determines() -> None:
    model = read(Longer(), "x:float32[n]", "y:float32[m]", examples={0: noise(5), 1: noise(6)})
    assert sorted(str(shape_of(v)[0]) for v in model.graph.inputs) in (["m", "m-1"], ["n", "n+1"])
    feeds = generate_feeds(model)
    assert len({feed.arrays["x"].shape for feed in feeds}) == 3
    for feed in feeds:
        agrees(Longer(), model, *feed.arrays.values())


class Fixed(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x * math.hypot(x.shape[1], 0)  # TorchScript does not compile this


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line)


def test_the_line_that_fixes_a_dim_is_told() -> None:
    line = f"test_sizes.py:{line_of('return x * math.hypot(')}"
    with pytest.raises(Unsupported, match=f"only one size.*length of x, at {line}") as error:
        read(Fixed(), "x:float32[batch,length]")
    assert "--input" in error.value.hint

    class Rows(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([x[i] * i for i in range(x.shape[0])])

    report = Report("convert")
    read(Rows(), examples={0: noise(4, 3)}, report=report)
    line = f"test_sizes.py:{line_of('for i in range(x.shape[0])')}"
    assert any("fixed at 4" in note and line in note for note in report.notes), report.notes


class FloatsOnly(nn.Module):
    """Refuses a length of 1 in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 5)[:, None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype == torch.float64 and x.shape[1] == 1:
            raise RuntimeError("no such length in float64")
        return torch.tanh(self.weight * x).sum(-1)


def test_sizes_that_the_source_refuses_in_float64_have_a_note(tmp_path: Path) -> None:
    done = convert.convert(FloatsOnly(), "onnx", tmp_path / "made.onnx", inputs=["x:float32[5,length]"], verify=True)
    assert done.verdict is not None
    assert done.verdict.status == "PASS"
    assert [n for n in done.verdict.notes if "the source does not run in float64 on seed 3" in n], done.verdict.notes
    assert "the shared graph in float64" in done.verdict.reference
    assert done.verdict.outputs[0].twin is not None


class Strided(nn.Module):
    """Keeps few of many steps, and uses their number as a size."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(3, 4, 3, 2), nn.Conv1d(4, 4, 3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.first(x)).transpose(1, 2)
        return y.reshape(x.shape[0], y.shape[1], 2, 2).softmax(1) + torch.zeros(x.shape[0], y.shape[1], 1, 1)


def test_a_step_that_strides_leave_of_a_short_example_is_not_built_in() -> None:
    torch.manual_seed(0)
    module = Strided().eval()
    model = read(module, "x:float32[n,3,m]")
    for n, m in ((1, 7), (2, 11), (3, 30)):
        agrees(module, model, noise(n, 3, m))


def test_a_built_in_step_is_checked_where_no_longer_example_may_be_taken(tmp_path: Path) -> None:
    report = convert.convert(
        Strided().eval(), "onnx", tmp_path / "m.onnx", inputs="x:float32[n,3,m=1..14]", verify=False
    )
    assert any("m >= 7" in note and "max(1, ((-3) + m) // 4) == 1" in note for note in report.notes)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    assert session.run(None, {"x": noise(2, 3, 10)})[0].shape == (2, 1, 2, 2)
    with pytest.raises(Exception, match="only_if"):
        session.run(None, {"x": noise(2, 3, 12)})


class Cached(nn.Module):
    """Uses a mask as long as the cache and the new steps together."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        return torch.cat([cache, x], 1) * (mask > 0)[..., None]


CACHED = ["x:float32[b,new,4]", "mask:int64[b,past+new]", "cache:float32[b,past,4]"]


def test_a_length_is_described_as_a_sum_of_others() -> None:
    model = read(Cached(), *CACHED)
    assert shape_of(model.graph.inputs[1]) in (["b", "past+new"], ["b", "new+past"])
    assert {tuple(feed.arrays["mask"].shape) for feed in generate_feeds(model, 2)} >= {(2, 32)}
    with pytest.raises(convert.UsageError, match="a sum with extra, which is no dim"):
        read(Cached(), CACHED[0], "mask:int64[b,extra+new]", CACHED[2])


NUMBERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "int": lambda x: F.interpolate(x, size=int(x.shape[2] * 1.5), mode="linear"),
    "int of a list": lambda x: F.adaptive_avg_pool1d(x, [int(n * 0.5) + 1 for n in x.shape[2:]]),
    "int by map": lambda x: x[:, : next(map(int, [x.shape[1] / 2 + 1]))] * 2,
    "int below zero": lambda x: x * int(-x.shape[2] * 0.3),
    "float": lambda x: x.sum() / float(x.numel()),
    "float of a condition": lambda x: x * float(x.shape[1] == x.shape[2]),
    "type": lambda x: x * {"int": 2, "float": 5}.get(type(x.shape[1]).__name__, 3),
    "a condition as an index": lambda x: x * (2.0, 3.0)[x.shape[1] > 4],
    "a condition compared": lambda x: x * (2 if (x.shape[1] > 4) == True else 3),  # noqa: E712
    "conditions that differ": lambda x: x * (2 if (x.shape[1] > 4) != (x.shape[2] > 4) else 3),
    "one of two conditions": lambda x: x * (2 if (x.shape[1] > 4) ^ (x.shape[2] > 4) else 3),
    "padding for a stride": lambda x: F.pad(x, (0, max((math.ceil(x.shape[2] / 2) - 1) * 2 + 3 - x.shape[2], 0))),
}
"""Functions in which Python makes another number or a condition of sizes."""


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_sizes_stay_dynamic(name: str) -> None:
    model = read(Calling(NUMBERS[name]), "tensors_0:float32[b,h,w]")
    for sizes in ((1, 1, 1), (2, 7, 5), (3, 8, 8), (4, 3, 12), (1, 33, 17)):
        agrees(Calling(NUMBERS[name]), model, noise(*sizes))


def by_class(x: torch.Tensor) -> torch.Tensor:
    match x.shape[1]:
        case int():
            return x * 2
        case _:
            return x * 3


@pytest.mark.parametrize(
    "function",
    [
        by_class,
        lambda x: x * (2 if x.shape[1].__class__.__name__ == "int" else 3),
        lambda x: x * (2 if (x.shape[1] > 4) is True else 3),
        lambda x: x * (2 if x.shape[1] is x.shape[2] else 3),
        lambda x: x * (2 if id(x.shape[1]) == id(x.shape[2]) else 3),
        lambda x: x * (2 if torch.compiler.is_exporting() else 3),
    ],
)
def test_a_forward_that_sees_that_it_is_captured_is_refused(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(Unsupported, match="forward gives other results when"):
        read(Calling(function), "tensors_0:float32[b,h,w]")


class Large(nn.Module):
    """A module that asks for the type of a size, behind a layer of 90,000 weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(300, 300)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return by_class(self.layer(x))


def test_a_large_forward_that_sees_that_it_is_captured_is_refused() -> None:
    with pytest.raises(Unsupported, match="forward gives other results when"):
        read(Large(), "x:float32[b,h,300]")


def test_random_results_are_no_other_program() -> None:
    read(Calling(lambda x: x + torch.rand_like(x)), "tensors_0:float32[b,h]")
