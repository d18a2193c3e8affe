"""Runs in float64 leave Dynamo as it was, so that a program goes on with PyTorch after a verification."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention

import convert


class Attends(nn.Module):
    """Attention with a bias by distance, which PyTorch's eager mode compiles."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score - (i - j).abs() * 0.1).flatten(2)


def test_flex_attention_is_exported_after_a_verification(tmp_path: Path) -> None:
    """Dynamo skips what it meets where a dispatch mode is active, also later: the export ended with its ValueError."""
    torch.manual_seed(0)
    module = Attends().eval().requires_grad_(False)
    report = convert.convert(module, "onnx", tmp_path / "m.onnx", inputs="x:float32[b,t,8]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    x = torch.randn(2, 6, 8)
    program = torch.export.export(module, (x,))
    torch.testing.assert_close(program.module()(x), module(x))
