"""A TorchScript target runs in the mode in which it was saved, as its users run it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import convert
from convert.outcome.verdict import FAIL, PASS


class Doubling(nn.Module):
    """Computes something else in training mode, by its flag or by its dropout."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(4, 4), nn.Dropout(rate)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.dropout(self.linear(x))
        return y * 2 if self.training else y


@pytest.mark.parametrize(("training", "status"), [(False, PASS), (True, FAIL)])
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_the_mode_of_the_file(tmp_path: Path, training: bool, status: str, rate: float) -> None:
    module = Doubling(rate).eval()
    source, target = tmp_path / "source.pt2", tmp_path / "target.pt"
    batch = torch.export.Dim("batch", min=1)
    torch.export.save(torch.export.export(module, (torch.ones(3, 4),), dynamic_shapes=({0: batch},)), source)
    torch.jit.script(module.train(training)).save(str(target))
    report = convert.verify(source, target)
    assert report.verdict is not None
    assert report.verdict.status == status, report.verdict.reason
    noted = [note for note in report.notes if "target.pt: the module is in training mode" in note]
    assert len(noted) == training
