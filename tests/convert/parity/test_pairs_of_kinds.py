"""One network in every kind of artefact, each kind against the others: paired, judged, and a wrong weight is found."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import convert
from convert.cli import cli

KINDS = ["pt2", "torchscript", "onnx", "tf", "keras", "tflite", "caffe2"]
SUFFIX = {"tf": "savedmodel", "torchscript": "pt"}
pytestmark = pytest.mark.long


class Net(nn.Module):
    """Two inputs that must not be swapped, and two outputs of different shapes."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.head = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 3)
        with torch.no_grad():
            self.head.weight *= scale

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.tanh(self.one(left)) - self.two(right)
        return self.head(h), h


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, float], Path]:
    """Return the network as this kind, with its head's weight multiplied by a factor; built at the first call."""
    made: dict[tuple[str, float], Path] = {}

    def make(kind: str, scale: float) -> Path:
        if (kind, scale) not in made:
            net, given = Net(scale).eval(), (torch.randn(4, 6), torch.randn(4, 6))
            path = tmp_path_factory.mktemp(kind) / f"m.{SUFFIX.get(kind, kind)}"
            if kind == "pt2":
                torch.export.save(torch.export.export(net, given), path)
            elif kind == "torchscript":
                torch.jit.trace(net, given).save(path)
            else:
                convert.convert(net, kind, path, inputs=list(given), verify=False)
            made[kind, scale] = path
        return made[kind, scale]

    return make


@pytest.mark.parametrize(("one", "other"), list(permutations(KINDS, 2)))
def test_a_pair_of_kinds(one: str, other: str, artefact: Callable[[str, float], Path]) -> None:
    if "caffe2" in (one, other) and not os.environ.get("CONVERT_CAFFE2_PYTHON"):
        pytest.skip("no Caffe2 here (CONVERT_CAFFE2_PYTHON)")
    for scale, status, code in ((1.0, "PASS", 0), (1.05, "FAIL", 3)):
        done = CliRunner().invoke(cli, ["verify", str(artefact(one, 1.0)), str(artefact(other, scale)), "--json"])
        assert done.exit_code == code, done.output
        verdict = json.loads(done.stdout)["verdict"]
        assert (verdict["status"], verdict["at_fault"]) == (status, "")
        if status == "FAIL":
            assert verdict["reason"].startswith("weights differ: 1 of "), verdict["reason"]
