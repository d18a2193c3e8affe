"""An exported program is loaded once for its runs in both precisions, if the first run leaves no trace in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends.pytorch.runner import run as runner

from convert.request.options import Options
from convert.request.source import Source


class Scaled(torch.nn.Module):
    """Multiplies by thirds, which float32 and float64 round differently."""

    def __init__(self, third: float) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((3,), third))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.w / 3


class Counting(torch.nn.Module):
    """Has a state that no input sets."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.count


class Training(torch.nn.Module):
    """A batch norm that keeps statistics, which its operator does not declare."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.batch_norm(x, self.norm.running_mean, self.norm.running_var, training=True)
        return y * 0 + x + self.norm.running_mean


@pytest.mark.slow
def test_a_program_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Path | None] = []

    def load(source: Source, options: Options, *, keep_mode: bool = False) -> Any:
        loads.append(source.path)
        return before(source, options, keep_mode=keep_mode)

    before = runner.load
    monkeypatch.setattr(runner, "load", load)
    x = np.array([[1, 2, 3], [2, 3, 5]], np.float32)

    def run(path: Path, precision: str) -> np.ndarray:
        (found,) = runner.run(Source("torch-export", path), [{"x": x}], precision, Options())
        return next(iter(found.values()))

    def save(module: torch.nn.Module, path: Path) -> None:
        torch.export.save(torch.export.export(module.eval(), (torch.from_numpy(x),)), path)

    path = tmp_path / "m.pt2"
    save(Scaled(1.0), path)
    np.testing.assert_array_equal(run(path, "float32"), x / np.float32(3))
    np.testing.assert_array_equal(run(path, "float64"), x.astype(np.float64) / 3)
    assert len(loads) == 1
    np.testing.assert_array_equal(run(path, "float64"), x.astype(np.float64) / 3)
    np.testing.assert_array_equal(run(path, "float32"), x / np.float32(3))
    assert len(loads) == 3  # a program in float64 is not cached

    save(Scaled(2.0), path)
    np.testing.assert_array_equal(run(path, "float64"), x.astype(np.float64) * 2 / 3)
    assert len(loads) == 4

    counting = tmp_path / "counting.pt2"
    save(Counting(), counting)
    for precision in ("float32", "float64"):
        np.testing.assert_array_equal(run(counting, precision), x + 1)
    assert len(loads) == 6

    training = tmp_path / "training.pt2"
    save(Training(), training)
    for precision in ("float32", "float64"):
        np.testing.assert_allclose(run(training, precision), x + 0.1 * x.mean(0), rtol=1e-6)
    assert len(loads) == 8
