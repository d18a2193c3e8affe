"""Sums of many numbers keep their digits: means over large images, and norms computed from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.support.marks import slow

pytest.importorskip("tensorflow", reason="TensorFlow runs the artefacts")

import convert
from tests.support.run_targets import SUFFIXES, run_target

X = np.maximum(np.random.default_rng(0).standard_normal((1, 8, 64, 64)), 0).astype(np.float32)


class Reduced(nn.Module):
    """Reductions over axes that are last in PyTorch but not in TensorFlow, and over axes that are last in neither."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "mean": x.mean((2, 3)),
            "sum": x.sum((1, 3)),
            "square": x.square().sum((0, 1, 2)),
            "norm": torch.linalg.vector_norm(x, dim=(1, 2)),
            "logarithm": x.logsumexp((1, 3)),
            "all": x.mean().reshape(1),
        }


class Named(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.layer(x)}


MODELS = {
    "GroupNorm": Named(nn.GroupNorm(2, 8)),
    "InstanceNorm2d": Named(nn.InstanceNorm2d(8, affine=True)),
    "LayerNorm": Named(nn.LayerNorm([8, 64, 64], elementwise_affine=False)),
    "reductions": Reduced(),
}


@pytest.mark.parametrize("form", slow(["tf", "keras", "tflite"], "tflite"))
@pytest.mark.parametrize("name", MODELS)
def test_digits_of_long_sums(name: str, form: str, tmp_path: Path) -> None:
    model, x = MODELS[name].eval(), torch.from_numpy(X)
    path = tmp_path / f"m.{SUFFIXES[form]}"
    convert.convert(model.float(), form, path, inputs=["x:float32[1,8,64,64]"], verify=False)
    (got,) = run_target(form, path, [{"x": X}])
    with torch.no_grad():
        exact = {k: v.numpy() for k, v in model.double()(x.double()).items()}
    assert set(got) == set(exact)
    for key, want in exact.items():
        error = float(np.sqrt(np.mean(np.square(got[key] - want))) / np.sqrt(np.mean(np.square(want))))
        assert error < 16 * 2.0**-24, f"{key}: {error:.2g}"
