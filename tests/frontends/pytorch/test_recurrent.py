"""Recurrent layers and cells against PyTorch: packed sequences, projections, directions, layers, shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import convert.api
from tests.support.marks import slow_but
from tests.support.pytorch_tools import noise, read
from tests.support.pytorch_tools import run as run_graph
from tests.support.torchscript_tools import kinds

LAYERS = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
    "projected": (nn.LSTM, {"proj_size": 2}),
}
SHAPES = {
    "plain": {},
    "deep": {"num_layers": 2, "dropout": 0.5, "batch_first": True},
    "both ways": {"num_layers": 2, "bidirectional": True},
    "no bias": {"bias": False, "bidirectional": True, "batch_first": True},
}


def agree(module: nn.Module, model: ir.Model, *arrays: np.ndarray) -> None:
    """Assert that values, dtypes and shapes of all outputs, flattened, equal the module's."""
    with torch.no_grad():
        want = torch.utils._pytree.tree_leaves(module(*(torch.from_numpy(a.copy()) for a in arrays)))
    for got, tensor in zip(run_graph(model, *arrays), want, strict=True):
        assert got.shape == tuple(tensor.shape)
        assert got.dtype == tensor.numpy().dtype
        np.testing.assert_allclose(got, tensor.numpy(), rtol=1e-5, atol=2e-6)


class Packed(nn.Module):
    """Sequences of several lengths, as in a text classifier."""

    def __init__(self, kind: str, shape: str, ordered: bool, value: float = 0.0) -> None:
        super().__init__()
        layer, more = LAYERS[kind]
        self.layer = layer(5, 4, **SHAPES[shape], **more)
        self.first, self.ordered, self.value = self.layer.batch_first, ordered, value

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, batch_first=self.first, enforce_sorted=self.ordered)
        y, state = self.layer(packed)
        out, ends = pad_packed_sequence(y, batch_first=self.first, padding_value=self.value)
        return out, state, ends


SPECS = {True: ["x:float32[n,t,5]", "lengths:int64[n]"], False: ["x:float32[t,n,5]", "lengths:int64[n]"]}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", slow_but(LAYERS, "lstm"))
def test_packed_sequences(kind: str, shape: str) -> None:
    """Cases include sequences that are all shorter than the padding, and sequences that all have its length."""
    torch.manual_seed(0)
    module = Packed(kind, shape, ordered=False).eval()
    model = read(torch.jit.script(module), *SPECS[module.first])
    for lengths in ([2, 6, 3], [4, 1, 2], [6, 6, 6], [1]):
        x = noise(len(lengths), 6, 5)
        agree(module, model, x if module.first else x.swapaxes(0, 1).copy(), np.array(lengths))


@pytest.mark.parametrize("traced", [True, False])
def test_packed_sequences_in_order(traced: bool) -> None:
    torch.manual_seed(0)
    module = Packed("lstm", "plain", ordered=True, value=-2.0).eval()
    example = (torch.randn(6, 3, 5), torch.tensor([6, 4, 2]))
    program = torch.jit.trace(module, example, check_trace=False) if traced else torch.jit.script(module)
    model = read(program, *SPECS[False])
    # One node per layer; packed rows that are never read leave no node.
    assert kinds(model).count("LSTM") == 1
    agree(module, model, noise(6, 3, 5), np.array([6, 4, 2]))


class Rows(nn.Module):
    """A module that computes on the packed rows themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.layer, self.head = nn.Linear(3, 5), nn.GRU(5, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        inner = PackedSequence(
            self.embed(packed.data), packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices
        )
        y, state = self.layer(inner)
        scores = PackedSequence(self.head(y.data), y.batch_sizes, y.sorted_indices, y.unsorted_indices)
        return pad_packed_sequence(scores, padding_value=9.0, total_length=8)[0], state, packed.data, y.batch_sizes


def test_operators_on_packed_rows() -> None:
    torch.manual_seed(0)
    module = Rows().eval()
    model = read(torch.jit.script(module), "x:float32[t,n,3]", "lengths:int64[n]")
    for lengths in ([2, 6, 3], [4, 1, 2], [1]):
        agree(module, model, noise(6, len(lengths), 3), np.array(lengths))


@pytest.mark.slow
def test_modules_with_packed_sequences_are_scripted() -> None:
    torch.manual_seed(0)
    module = Packed("gru", "both ways", ordered=False).eval()
    agree(module, read(module, *SPECS[False]), noise(6, 2, 5), np.array([3, 5]))


class Whole(nn.Module):
    """Sequences of one length, with or without an initial state."""

    def __init__(self, kind: str, shape: str) -> None:
        super().__init__()
        layer, more = LAYERS[kind]
        self.layer = layer(5, 4, **SHAPES[shape], **more)

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x)


@pytest.mark.parametrize("form", ["module", "script"])
@pytest.mark.parametrize("shape", SHAPES)
def test_projections(shape: str, form: str) -> None:
    torch.manual_seed(0)
    module = Whole("projected", shape).eval()
    model = read(module if form == "module" else torch.jit.script(module), "x:float32[a,b,5]")
    agree(module, model, noise(3, 4, 5))
    agree(module, model, noise(2, 1, 5))


@pytest.mark.parametrize("kind", LAYERS)
def test_without_a_batch(kind: str) -> None:
    torch.manual_seed(0)
    module = Whole(kind, "both ways").eval()
    for form in (module, torch.jit.script(module)):
        agree(module, read(form, "x:float32[t,5]"), noise(6, 5))


class Steps(nn.Module):
    """A cell in a loop of Python."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        for row in x:
            h = self.cell(row, h)
        return h


class LSTMSteps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(5, 4)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> Any:
        c = h * 2
        for row in x:
            h, c = self.cell(row, (h, c))
        return h, c


CELLS = {
    "gru": lambda: Steps(nn.GRUCell(5, 4)),
    "no bias": lambda: Steps(nn.GRUCell(5, 4, bias=False)),
    "tanh": lambda: Steps(nn.RNNCell(5, 4)),
    "relu": lambda: Steps(nn.RNNCell(5, 4, nonlinearity="relu")),
    "lstm": LSTMSteps,
}


@pytest.mark.parametrize("kind", CELLS)
def test_cells(kind: str) -> None:
    torch.manual_seed(0)
    module = CELLS[kind]().eval()
    agree(module, read(module, "x:float32[3,b,5]", "h:float32[b,4]"), noise(3, 2, 5), noise(2, 4))
    looped = read(torch.jit.script(module), "x:float32[t,b,5]", "h:float32[b,4]")
    assert "Loop" in kinds(looped)
    for steps in (3, 1, 0):
        agree(module, looped, noise(steps, 2, 5), noise(2, 4))


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, False])
def test_lengths_are_verified_in_their_range(tmp_path: Path, ordered: bool) -> None:
    """PyTorch refuses lengths of zero, lengths beyond the padding, and unordered lengths if order is required."""
    torch.manual_seed(0)
    module = Packed("gru", "deep", ordered).eval()
    report = convert.api.convert(module, "onnx", tmp_path / "m.onnx", inputs=SPECS[True])
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
