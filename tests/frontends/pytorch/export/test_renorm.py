"""Embeddings with `max_norm`, which PyTorch shortens in the weight itself, and generators, which have no equivalent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import convert
from convert.errors import Unsupported
from tests.support.pytorch_tools import read, run


class Called(nn.Module):
    """A layer, or a function of indices into a table of its own."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call
        self.table = nn.Parameter(torch.randn(9, 4, generator=torch.Generator().manual_seed(0)) * 2)

    def forward(self, i: Tensor) -> Tensor:
        return self.call(i) if isinstance(self.call, nn.Module) else self.call(i, self.table)


LAYERS = {
    "embedding": lambda: nn.Embedding(9, 4, max_norm=1.0),
    "of the sum": lambda: nn.Embedding(9, 4, max_norm=1.5, norm_type=1.0),
    "with padding": lambda: nn.Embedding(9, 4, padding_idx=2, max_norm=0.5),
    "never reached": lambda: nn.Embedding(9, 4, max_norm=100.0),
    "bag": lambda: nn.EmbeddingBag(9, 4, max_norm=1.0, mode="sum"),
    "function": lambda: lambda i, table: functional.embedding(i, table, max_norm=1.0),
    "without a bound": lambda: nn.Embedding(9, 4),
}


@pytest.mark.parametrize("name", LAYERS)
def test_rows_are_no_longer_than_the_bound(name: str) -> None:
    torch.manual_seed(0)
    module = Called(LAYERS[name]()).eval()
    before = {n: t.clone() for n, t in module.state_dict().items()}
    model = read(module, "i:int64[b,t]")
    for n, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[n]), "the user's weights stay as they were"
    for b, t in ((2, 5), (1, 9), (4, 2)):
        i = torch.randint(0, 9, (b, t))
        (got,) = run(model, i.numpy())
        with torch.no_grad():
            np.testing.assert_allclose(got, module(i).numpy(), rtol=1e-5, atol=1e-6)


def test_the_verdict_takes_the_weights_as_they_were(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Called(nn.Embedding(9, 4, max_norm=1.0)).eval()
    before = module.call.weight.clone()
    report = convert.convert(module, "onnx", tmp_path / "m.onnx", inputs="i:int64[b,t]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert torch.equal(module.call.weight, before)


class Drawing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn(x.shape, generator=self.generator)


def test_a_generator_is_refused_and_leads_on() -> None:
    with pytest.raises(Unsupported, match=r"torch\.Generator") as error:
        read(Drawing(), "x:float32[2,3]")
    assert "buffer" in error.value.hint
