"""Programs converted from the tensors of one example, as users do it, and compared with PyTorch at other inputs too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

import convert
from convert.runtimes.onnx import run_file

I = torch.tensor  # noqa: E741
f = torch.randn


@dataclass(frozen=True)
class Row:
    """A module, and its inputs for each call; the first call is the example."""

    name: str
    make: Callable[[], nn.Module]
    calls: tuple[tuple[Tensor, ...], ...]
    rounding: float = 1e-5


ROWS: list[Row] = []


def row(*calls: Any, rounding: float = 1e-5) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Return a decorator that adds a class to the table, with the tensors of each call."""

    def add(kind: type[nn.Module]) -> type[nn.Module]:
        listed = tuple(call if isinstance(call, tuple) else (call,) for call in calls)
        ROWS.append(Row(kind.__name__, kind, listed, rounding))
        return kind

    return add


# -- lengths and places that are data ---------------------------------------------------------------------------------


@row((f(7, 3), I([3, 2, 2])), (f(7, 3), I([1, 2, 4])), (f(9, 3), I([1, 2, 6])))
class PaddedPieces(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        return pad_sequence(list(x.split(n.tolist())), batch_first=True)


@row((f(1, 12, 4), I([3, 4])), (f(1, 12, 4), I([2, 6])))
class ViewedBySizes(nn.Module):
    def forward(self, x: Tensor, sides: Tensor) -> Tensor:
        height, width = sides.tolist()
        return x.view(1, height, width, 4).permute(0, 3, 1, 2).amax(3)


@row((f(9, 2), I([[1, 3, 2], [2, 4, 1]])), (f(9, 2), I([[2, 1, 2], [2, 4, 1]])))
class GridOfPlaces(nn.Module):
    def forward(self, x: Tensor, grids: Tensor) -> Tensor:
        places = [torch.arange(h)[:, None].expand(h, w).flatten().repeat(t) for t, h, w in grids.tolist()]
        return x[torch.cat(places)]


@row((f(3, 6, 4), I([6, 3, 2])), (f(3, 6, 4), I([2, 6, 1])), (f(5, 6, 4), I([2, 6, 1, 3, 3])))
class PackedByExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(4, 5, batch_first=True)

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]


@row((f(1, 5, 4), I([3])), (f(3, 5, 4), I([1, 5, 2])), (f(2, 5, 4), I([5, 4])))
class LengthOfTheOnlyRow(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        kept = torch.arange(x.size(1))[None] < n[:, None]
        return (x * kept[..., None]).sum(1) / n[:, None]


@row((f(1, 5, 4), I([3])), (f(3, 5, 4), I([4])))
class OneNumberForAllRows(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        return x * int(n)


# -- autocast ---------------------------------------------------------------------------------------------------------

HALF = 2.0**-7


@row(f(2, 8), f(1, 8), f(5, 8), rounding=HALF)
class NarrowDense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = functional.gelu(functional.layer_norm(self.first(x), (16,)))
            y = self.last(y)
        return y.float()


@row(f(2, 3, 8, 8), f(1, 3, 8, 8), rounding=HALF)
class NarrowPicture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = functional.max_pool2d(functional.relu(self.norm(self.conv(x))), 2)
            return self.last(y.mean((2, 3)))


@row(f(2, 5, 8), f(1, 5, 8), rounding=HALF)
class NarrowAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Linear(8, 24)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            q, k, v = self.all(x).chunk(3, -1)
            with torch.autocast("cpu", enabled=False):
                scores = q.float() @ k.float().transpose(1, 2)
            mixed = torch.cat([x, torch.softmax(q @ k.transpose(1, 2), -1)], -1)
            attended = functional.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])
        return scores, mixed, attended.float()


# -- bags -------------------------------------------------------------------------------------------------------------


class EqualBags(nn.Module):
    """Bags as rows of indices, which need no scatter."""

    mode: str = "mean"
    padding: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 6, mode=self.mode, padding_idx=self.padding)

    def forward(self, places: Tensor, weights: Tensor | None = None) -> Tensor:
        return self.bag(places, per_sample_weights=weights)


PLACES = I([[3, 7, 3, 1], [3, 3, 3, 3], [0, 19, 4, 3]])
row(PLACES, PLACES[:1])(EqualBags)


@row(PLACES, PLACES[:1])
class BagsOfMaxima(EqualBags):
    mode = "max"
    padding = 3


@row(PLACES, PLACES[:2])
class MeansWithoutPadding(EqualBags):
    padding = 3


@row((PLACES, f(3, 4)), (PLACES[:1], f(1, 4)))
class WeightedBags(EqualBags):
    mode = "sum"


@row((PLACES, I([[5, 9, 2, 7]] * 3)), (PLACES[:1], I([[8, 1, 6, 3]])))
class RankedCandidates(EqualBags):
    """For a candidate that occurs twice, which is ranked first is PyTorch's choice, also in float64."""

    padding = 0

    def forward(self, places: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        scores = (self.bag(places)[:, None] * self.bag.weight[candidates]).sum(-1)
        best = scores.topk(2)
        return best.values, best.indices


@row((torch.complex(f(3, 4), f(3, 4)), f(3, 4)), (torch.complex(f(2, 4), f(2, 4)), f(2, 4)))
class Complex(nn.Module):
    """Complex examples are pairs of real numbers for the artefact."""

    def forward(self, z: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return (z * z.conj() * x).abs(), torch.view_as_real(torch.fft.ifft(z))


@pytest.mark.parametrize("kind", [EqualBags, BagsOfMaxima, MeansWithoutPadding])
def test_equal_bags_are_an_ordinary_reduction(kind: type[EqualBags], tmp_path: Path) -> None:
    """Keras and TensorFlow Lite have no scatter of this kind."""
    report = convert.convert(kind().eval(), "onnx", tmp_path / "m.onnx", inputs=(PLACES,), dry_run=True)
    assert "ScatterND" not in report.operators


def _array(x: Tensor) -> np.ndarray:
    return (torch.view_as_real(x) if x.is_complex() else x).numpy()


SLOW = (GridOfPlaces, PackedByExample, ViewedBySizes, PaddedPieces, NarrowAttention, OneNumberForAllRows)


@pytest.mark.parametrize(
    "given", [pytest.param(row, id=row.name, marks=[pytest.mark.slow] * (row.make in SLOW)) for row in ROWS]
)
def test_program(given: Row, tmp_path: Path) -> None:
    """The program is verified, and the file gives PyTorch's results, in PyTorch's dtypes."""
    torch.manual_seed(0)
    module = given.make().eval()
    path = tmp_path / "m.onnx"
    report = convert.convert(module, "onnx", path, inputs=given.calls[0])
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    names = [str(value.name) for value in report.inputs]
    for call in given.calls:
        with torch.no_grad():
            wanted = module(*call)
        (found,) = run_file(path, [dict(zip(names, map(_array, call), strict=True))])
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for want, got in zip(wanted, found.values(), strict=True):
            assert got.dtype.name == str(want.dtype).removeprefix("torch.")
            scale = want.float().abs().max().item()
            np.testing.assert_allclose(
                got.astype(np.float32), want.float().numpy(), rtol=given.rounding, atol=given.rounding * scale
            )
