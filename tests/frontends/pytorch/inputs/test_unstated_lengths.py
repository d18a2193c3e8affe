"""Lengths that neither a layer nor the user states are dynamic if forward accepts others; a note names the rest."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from convert.frontends.pytorch.inputs.trial_runs import first_that_runs, free_places
from torch import nn

import convert
from convert.errors import UsageError


class Pooled(nn.Module):
    """A classifier of images of any size that pools in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Conv2d(3, 4, 3, 2), nn.Linear(4, 2)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.first(image).relu().mean((2, 3)))


class Lines(nn.Module):
    """A recurrent layer over the columns of an image of 28 rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer = nn.Conv2d(1, 2, 3, padding=1), nn.GRU(56, 8, batch_first=True)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.layer(self.first(image).permute(0, 3, 1, 2).flatten(2))[0]


BARE: dict[str, tuple[Callable[[], nn.Module], Callable[[int, int], tuple[int, ...]]]] = {
    # A module, and the shape of its input for a batch and a length.
    "LSTM": (lambda: nn.LSTM(8, 16, batch_first=True), lambda b, n: (b, n, 8)),
    "GRU, time first": (lambda: nn.GRU(8, 16), lambda b, n: (n, b, 8)),
    "RNN": (lambda: nn.RNN(4, 6, batch_first=True, bidirectional=True), lambda b, n: (b, n, 4)),
    "encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2),
        lambda b, n: (b, n, 16),
    ),
    "encoder layer, time first": (lambda: nn.TransformerEncoderLayer(16, 2, 32), lambda b, n: (n, b, 16)),
    "Conv1d and adaptive pooling": (
        lambda: nn.Sequential(nn.Conv1d(3, 8, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 2)),
        lambda b, n: (b, 3, n),
    ),
    "images": (Pooled, lambda b, n: (b, 3, n, n // 2 + 3)),
    "columns of an image": (Lines, lambda b, n: (b, 1, 28, n)),
    "adaptive pooling of images": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(36, 2)),
        lambda b, n: (b, 3, n, n // 2 + 3),
    ),
    "volumes": (lambda: nn.Conv3d(2, 3, 3), lambda b, n: (b, 2, n % 7 + 4, 5, n % 5 + 3)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), lambda b, n: (b, 3, n, 5)),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(3), lambda b, n: (b, 3, n)),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(3), lambda b, n: (b, 3, n, 5, 2)),
    "Conv1d": (lambda: nn.Sequential(nn.Conv1d(3, 8, 3, 2), nn.ReLU(), nn.MaxPool1d(2)), lambda b, n: (b, 3, n)),
}


@pytest.mark.parametrize("name", BARE)
def test_made_up_lengths_are_dynamic(name: str, tmp_path: Path) -> None:
    make, shape = BARE[name]
    module = make().eval()
    convert.convert(module, "onnx", tmp_path / "m.onnx", verify=False)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    draw = np.random.default_rng(0)
    for batch, length in ((1, 20), (3, 9), (5, 300)):
        x = draw.standard_normal(shape(batch, length)).astype(np.float32)
        want = module(torch.from_numpy(x))
        got = session.run(None, {session.get_inputs()[0].name: x})[0]
        first = want[0] if isinstance(want, tuple) else want
        np.testing.assert_allclose(got, first.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_length_that_is_fixed_is_in_a_note_with_the_option_that_sets_it(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Conv1d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 254, 2)).eval()
    report = convert.convert(module, "onnx", tmp_path / "m.onnx", verify=False)
    (note,) = [n for n in report.notes if n.code == "assumed-input"]
    assert "length is fixed at 256, because forward does not run with other lengths" in note
    assert "set others with --input input:float32[batch,3,L]" in note


class Positions(nn.Module):
    """Token ids with a table of twelve positions."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(30, 8), nn.Parameter(torch.randn(12, 8))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.words(ids) + self.places


FIXED = {
    # A module, its input, and what a note says of it.
    "a head": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 30 * 30, 2)),
        ["batch", 3, 32, 32],
        "assuming input: float32[batch,3,32,32] (from 0; set it with --input)",
    ),
    "an unusual head": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 35 * 35, 2)),
        ["batch", 3, 37, 37],
        "assuming input: float32[batch,3,37,37] (from 0; set it with --input)",
    ),
    "rows of an image": (Lines, ["batch", 1, 28, "width"], "set others with --input image:float32[batch,1,H,width]"),
    "positions": (Positions, ["batch", 12], "sequence is fixed at 12"),
    "a flat text": (
        lambda: nn.Sequential(nn.Embedding(20, 8), nn.Flatten(), nn.Linear(80, 2)),
        ["batch", 10],
        "set others with --input input:int64[batch,S]",
    ),
}


@pytest.mark.parametrize("name", FIXED)
def test_sizes_that_forward_fixes_are_found_and_noted(name: str, tmp_path: Path) -> None:
    make, shape, text = FIXED[name]
    report = convert.convert(make().eval(), "onnx", tmp_path / "m.onnx", verify=False)
    assert list(report.inputs[0].shape) == shape
    (note,) = [n for n in report.notes if n.code == "assumed-input"]
    assert text in note


class Mismatched(nn.Module):
    """A network for images whose head takes no image of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Conv2d(3, 4, 3), nn.Linear(7, 2)
        self.runs = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        type(self).count += not torch.compiler.is_exporting()
        return self.head(self.layer(x).mean((2, 3)))

    count = 0


@pytest.mark.slow
def test_no_other_size_is_tried_if_the_size_is_not_why_forward_fails(tmp_path: Path) -> None:
    """Each of 511 sizes of each layer was tried; a ResNet-18 that reads a number out of a tensor took two minutes."""
    Mismatched.count = 0
    with pytest.raises(UsageError, match="no size was found"):
        convert.convert(Mismatched().eval(), "onnx", tmp_path / "m.onnx", verify=False)
    assert 0 < Mismatched.count < 200


@pytest.mark.parametrize(("stride", "wanted", "found"), [(32, 1, 32), (32, 7, 224), (32, 17, None), (8, 41, 328),
                                                         (1, 2, 2), (1, 512, 512)])  # fmt: skip
def test_the_smallest_size_that_a_head_fits_is_found(stride: int, wanted: int, found: int | None) -> None:
    tried = []

    @functools.cache
    def failure(size: int) -> str | None:
        tried.append(size)
        return None if size // stride == wanted else f"{size // stride} columns, and not {wanted}"

    assert first_that_runs(failure, range(2, 513)) == found
    assert len(tried) <= 6 * 512 // stride


class Counting(nn.Module):
    """A module that counts its calls, also those that fail."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(2, 3, 3)
        self.head = nn.Linear(3 * 62, 2)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + x.mean()
        return self.head(self.layer(x).flatten(1))


def test_runs_that_fail_leave_the_buffers_as_they_were() -> None:
    module = Counting().eval()
    buffer = module.calls
    tensor = torch.ones(2, 2, 64)
    assert free_places(module, {"x": tensor}, "x", [2]) == []
    assert module.calls is buffer
    assert buffer.tolist() == [0.0]


class Texts(nn.Module):
    """Token ids, and the table of their embeddings."""

    def forward(self, ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding(ids, table).mean(1)


class Text(nn.Module):
    """A module with one number for a batch of token ids."""

    def forward(self, ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding(ids, table).mean()


class Edges(nn.Module):
    """A module that sums over the edges of a graph."""

    def forward(self, edges: torch.Tensor, nodes: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(nodes).index_add(0, edges[1], nodes[edges[0]])


@pytest.mark.parametrize(
    ("module", "shapes"), [(Texts(), [(5, 7), (1, 3)]), (Text(), [(5, 7), (1, 3)]), (Edges(), [(2, 9), (2, 30)])]
)
def test_two_rows_of_integers_are_texts_or_edges_as_runs_tell(module: nn.Module, shapes: list[Any]) -> None:
    draw = np.random.default_rng(0)
    examples = [draw.integers(0, 6, (2, 5)), draw.standard_normal((6, 4)).astype(np.float32)]
    proto = convert.to_onnx(module, examples, verify=False)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for shape in shapes:
        feeds = [draw.integers(0, 6, shape), examples[1]]
        got = session.run(None, {i.name: x for i, x in zip(session.get_inputs(), feeds, strict=True)})[0]
        np.testing.assert_allclose(got, module(*map(torch.from_numpy, feeds)).numpy(), rtol=1e-5, atol=1e-5)
