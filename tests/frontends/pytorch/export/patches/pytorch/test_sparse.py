"""Sparse tensors in a module: dense in the graph, and unchanged in the module."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import convert


class Mixes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Parameter((torch.eye(3) * 2).to_sparse())
        self.register_buffer("rows", (torch.eye(3) + 1).to_sparse_csr())

    def forward(self, x: Tensor) -> Tensor:
        return torch.sparse.mm(self.own, x.T).T.sin() + (self.get_buffer("rows") @ x.T).T


def test_sparse_weights_are_verified_and_stay_sparse(tmp_path: Path) -> None:
    module = Mixes()
    report = convert.convert(module, "onnx", tmp_path / "m.onnx", inputs=torch.randn(2, 3))
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    assert any("sparse tensors rows, own are dense" in note for note in report.notes)
    assert (module.own.layout, module.own.dtype) == (torch.sparse_coo, torch.float32)
    assert module.get_buffer("rows").layout == torch.sparse_csr


@pytest.mark.parametrize("form", ["to_sparse", "to_sparse_csr"])
def test_a_sparse_result_is_dense_in_the_graph(form: str, tmp_path: Path) -> None:
    """The runs that are compared during capture return sparse tensors, which cannot be compared element by element."""

    class Sparse(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return getattr(x.relu(), form)()

    report = convert.convert(Sparse(), "onnx", tmp_path / "m.onnx", inputs="x:float32[n,3]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
