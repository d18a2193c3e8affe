"""Layers over sequences of dynamic length: recurrent ones, and transformers with masks made in forward."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends import pytorch as frontend
from torch import Tensor, nn

from convert.outcome.report import Report
from convert.request.options import Options, parse_input
from convert.request.source import Source
from tests.support.pytorch_tools import Calling, read, run


class Recurrent(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


class Masked(nn.Module):
    """A decoder whose causal mask is as long as its input."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Transformer(6, 2, 1, 1, 12, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.layers(x, x.flip(2), src_mask=mask, tgt_mask=mask)


MODULES = {
    "lstm": lambda: Recurrent(nn.LSTM(6, 5, batch_first=True)),
    "deep lstm": lambda: Recurrent(nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)),
    "gru": lambda: Recurrent(nn.GRU(6, 5, bidirectional=True, batch_first=True)),
    "rnn": lambda: Recurrent(nn.RNN(6, 5, nonlinearity="relu", batch_first=True)),
    "transformer": Masked,
}


@pytest.mark.parametrize("name", MODULES)
def test_one_capture_serves_every_length(name: str) -> None:
    torch.manual_seed(0)
    module = MODULES[name]().eval()
    options = Options(inputs=(parse_input("x:float32[batch,length,6]"),))
    model = frontend.read(Source("torch-module-object", model=module), options, Report("convert"))
    assert list(model.graph.inputs[0].shape) == ["batch", "length", 6]
    assert {"LSTM", "GRU", "RNN", "Attention"} & {node.op_type for node in model.graph}
    for batch, length in ((2, 7), (3, 1), (1, 12)):
        x = torch.randn(batch, length, 6)
        with torch.no_grad():
            want = module(x).numpy()
        (got,) = run(model, x.numpy())
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)


def test_capture_leaves_pytorch_as_it_was() -> None:
    """Kernels that are replaced during capture are restored afterwards."""
    before = dict(torch.ops.aten.lstm.input.py_kernels)
    module = MODULES["lstm"]().eval()
    options = Options(inputs=(parse_input("x:float32[batch,length,6]"),))
    frontend.read(Source("torch-module-object", model=module), options, Report("convert"))
    assert torch.ops.aten.lstm.input.py_kernels == before
    assert torch.nn.modules.transformer._detect_is_causal_mask.__module__ == "torch.nn.modules.transformer"


def test_sizes_are_not_named_after_what_torch_calls_them_inside() -> None:
    source = Source("torch-module-object", model=Recurrent(nn.LSTM(4, 3)).eval())
    model = frontend.read(source, Options(inputs=(parse_input("x:float32[5,b,4]"),)), Report("test"))
    names = {str(v.name) for n in model.graph for v in n.outputs} | {str(n.name) for n in model.graph}
    assert not [name for name in names if "hook" in name or name.startswith("_")]


def padded_to_the_longest(x: Tensor, n: Tensor) -> Tensor:
    longest = int(n.max())
    return x[:, :longest] * (torch.arange(longest)[None] < n[:, None])[..., None]


def summed_by_graph(x: Tensor, n: Tensor) -> Tensor:
    graphs = int(n.max().item()) + 1
    return torch.zeros(graphs, 6).index_add(0, n, x.sum(1)) / torch.bincount(n, minlength=graphs).clamp(min=1)[:, None]


def scaled(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    scale, most = float(x.abs().max()), int(x.max().item() * 2)
    return (x / scale * 127).round(), x * (1.0 / scale), x + most, x * isinstance(most, int), x + int("2")


def asked_for_its_type(x: Tensor, n: Tensor) -> Tensor:
    rows = x.shape[0]
    return x.expand(*((2, rows) if isinstance(rows, int) else rows), -1, -1) * (2 if isinstance(rows, float) else 3)


@pytest.mark.parametrize("function", [padded_to_the_longest, summed_by_graph, scaled, asked_for_its_type])
def test_python_s_numbers_of_what_only_a_run_knows(function: Callable[..., Any]) -> None:
    model = read(Calling(function), "tensors_0:float32[rows,7,6]", "tensors_1:int64[rows]")
    for lengths in ([2, 5, 3], [7], [0, 1]):
        x, n = torch.randn(len(lengths), 7, 6), torch.tensor(lengths)
        want = function(x, n)
        for got, expected in zip(run(model, x, n), want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_allclose(got, expected.numpy(), rtol=1e-5, atol=2e-6)


HELPERS = {
    "helper.py": "def rows(x): return len(x)\n"
    "def twice(n): return n * 2 if isinstance(n, int) else n * 3\n"
    "def sides(n): return divmod(n, 3)\n",
    "layers.py": "import helper\n"
    "def scaled(x):\n    quotient, rest = helper.sides(x.shape[1])\n"
    "    return x * helper.rows(x) + helper.twice(x.shape[1]) + quotient - rest\n",
    "network.py": "from torch import nn\nimport layers\n"
    "class Network(nn.Module):\n    def forward(self, x): return layers.scaled(x)\n",
}


def test_sizes_are_numbers_in_files_that_the_module_s_file_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in HELPERS.items():
        (tmp_path / name).write_text(text)
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("network").Network()
    model = read(module, "x:float32[b,n]")
    for b, n in ((2, 7), (1, 4), (5, 1)):
        x = torch.randn(b, n)
        np.testing.assert_allclose(run(model, x.numpy())[0], module(x).numpy(), rtol=1e-6)
    assert not {"len", "isinstance", "divmod"} & vars(sys.modules["helper"]).keys()
