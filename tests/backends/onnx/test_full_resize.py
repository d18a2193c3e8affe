"""Resizes behind a Transpose, which onnxruntime's own optimizer would break: several, to one size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch.nn import functional

import convert


class Pyramid(torch.nn.Module):
    """As SegFormer's head: maps of several sizes, channels last, are brought to the size of the first."""

    def __init__(self, size: tuple[int, int] | None = None) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        size = self.size or x.shape[2:]
        maps = [functional.interpolate(m.permute(0, 3, 1, 2), size=size, mode="bilinear") for m in (y, z)]
        return torch.cat([x, *maps], 1) + functional.interpolate(z.permute(0, 3, 1, 2), size=size).mean(1, keepdim=True)


@pytest.mark.parametrize("size", [None, (8, 6)], ids=["of another tensor", "constant"])
def test_several_resizes_to_one_size(tmp_path: Path, size: tuple[int, int] | None) -> None:
    path = tmp_path / "m.onnx"
    h, w = size or ("h", "w")
    inputs = [f"x:float32[batch,2,{h},{w}]", "y:float32[batch,4,3,3]", "z:float32[batch,c,d,2]"]
    inputs = inputs if size is None else [*inputs[:2], "z:float32[batch,2,2,2]"]
    convert.convert(Pyramid(size), "onnx", path, inputs=inputs, verify=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for batch, h, w, c, d in ((2, 8, 6, 2, 2), (3, 8, 6, 2, 2), *[(2, 5, 7, 3, 9)] * (size is None)):
        feed = {"x": torch.randn(batch, 2, h, w), "y": torch.randn(batch, 4, 3, 3), "z": torch.randn(batch, c, d, 2)}
        (got,) = session.run(None, {n: t.numpy() for n, t in feed.items()})
        np.testing.assert_allclose(got, Pyramid(size)(**feed).numpy(), rtol=1e-5, atol=1e-5)
