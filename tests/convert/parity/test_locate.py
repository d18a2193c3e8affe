"""Where a target differs from the graph: defects planted in a file, found by node, module and source line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import convert
from convert.outcome.verdict import FAIL, Divergence


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GELU())
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = x + self.block(x)
        return self.head(x.mean((2, 3)))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Path]:
    torch.manual_seed(0)
    module = Net().eval()
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    convert.convert(module, "onnx", path, inputs="x:float32[batch,3,8,8]", verify=False)
    return module, path


def spoil(model: onnx.ModelProto, operator: str) -> str:
    """Change the second node of a kind (its weight or an attribute); return the module that it belongs to."""
    node = [n for n in model.graph.node if n.op_type == operator][-1]
    if operator == "Gelu":
        del node.attribute[:]
        node.attribute.append(onnx.helper.make_attribute("approximate", "tanh"))
    else:
        weight = next(i for i in model.graph.initializer if i.name == node.input[1])
        array = numpy_helper.to_array(weight).copy()
        array.flat[3] *= 1.01
        weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    return {"Gelu": "block.1", "Conv": "block.0", "Gemm": "head"}[operator]


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["Conv", "Gelu", "Gemm"])
def test_the_node_is_named_with_its_module(operator: str, pair: tuple[nn.Module, Path], tmp_path: Path) -> None:
    module, clean = pair
    model = onnx.load(clean)
    at_fault = spoil(model, operator)
    path = tmp_path / "planted.onnx"
    onnx.save(model, path)
    verdict = convert.verify(module, path, inputs="x:float32[batch,3,8,8]").verdict
    assert verdict is not None
    assert (verdict.status, verdict.at_fault) == (FAIL, "")
    assert isinstance(verdict.divergence, Divergence), verdict.divergence
    assert verdict.divergence.operator == operator
    assert verdict.divergence.module == at_fault
    assert verdict.divergence.inputs
    assert "rms" in verdict.divergence.output


@pytest.mark.long
def test_it_is_found_through_another_backend(pair: tuple[nn.Module, Path], tmp_path: Path) -> None:
    """The wrong file is converted to TensorFlow, channels last; the reported location is still that of the PyTorch
    module.
    """
    module, clean = pair
    model = onnx.load(clean)
    spoil(model, "Conv")
    onnx.save(model, tmp_path / "planted.onnx")
    convert.convert(tmp_path / "planted.onnx", "tf", tmp_path / "planted.savedmodel", verify=False)
    verdict = convert.verify(module, tmp_path / "planted.savedmodel", inputs="x:float32[batch,3,8,8]").verdict
    assert verdict is not None
    assert isinstance(verdict.divergence, Divergence), verdict.divergence
    assert verdict.divergence.module == "block.0"


def test_a_clean_pair_has_no_place(pair: tuple[nn.Module, Path]) -> None:
    module, clean = pair
    verdict = convert.verify(module, clean, inputs={"x": np.ones((2, 3, 8, 8), np.float32)}).verdict
    assert verdict is not None
    assert verdict.divergence is None
