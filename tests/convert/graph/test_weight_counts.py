"""Weights that are larger than their files: repeated bytes are refused, packed weights are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import convert
from convert import limits
from convert.errors import ResourceLimit

COUNT, SIZE = 200, 1 << 14


def _overlapping(folder: Path, *, in_branch: bool = False, as_constants: bool = False) -> Path:
    """Return a sum of weights that all use the same bytes of a file."""
    np.zeros(SIZE, np.float32).tofile(folder / "w.bin")
    held, nodes = [], []
    for i in range(COUNT):
        weight = TensorProto(name=f"w{i}", data_type=1, dims=[SIZE], data_location=TensorProto.EXTERNAL)
        weight.external_data.add(key="location", value="w.bin")
        nodes += [helper.make_node("Constant", [], [f"w{i}"], value=weight)] if as_constants else []
        nodes.append(helper.make_node("Add", [f"h{i}" if i else "x", f"w{i}"], [f"h{i + 1}" if i + 1 < COUNT else "y"]))
        held += [] if as_constants else [weight]
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, [SIZE])
    begin = helper.make_tensor_value_info("x", TensorProto.FLOAT, [SIZE])
    if in_branch:
        inner = helper.make_graph(nodes, "b", [], [end], held)
        other = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "c", [], [end])
        nodes, held = [helper.make_node("If", ["t"], ["y"], then_branch=inner, else_branch=other)], []
        begins = [begin, helper.make_tensor_value_info("t", TensorProto.BOOL, [])]
    else:
        begins = [begin]
    graph = helper.make_graph(nodes, "g", begins, [end], held)
    path = folder / "m.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()
    )
    return path


@pytest.mark.parametrize("where", [{}, {"in_branch": True}, {"as_constants": True}], ids=["graph", "If", "constants"])
def test_weights_on_the_same_bytes(where: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _overlapping(tmp_path, **where)
    monkeypatch.setattr(limits, "WEIGHTS_FREE_BYTES", 1 << 20)
    with pytest.raises(ResourceLimit, match=r"weights of the model are 13 MB, and its files \d+ kB") as found:
        convert.convert(path, "onnx", tmp_path / "out.onnx", verify=False)
    assert found.value.exit_code == 6
    assert not (tmp_path / "out.onnx").exists()
    monkeypatch.setattr(limits, "WEIGHTS_EXPANSION", 300)
    convert.convert(path, "onnx", tmp_path / "out.onnx", verify=False)


@pytest.mark.not_core
def test_a_weight_that_repeats_one_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(1024, 1024, bias=False)
    layer.weight = torch.nn.Parameter(torch.ones(1).expand(1024, 1024))
    torch.save(layer.eval(), tmp_path / "m.pt")
    convert.inspect(tmp_path / "m.pt", inputs="float32[1,1024]")
    monkeypatch.setattr(limits, "WEIGHTS_FREE_BYTES", 1 << 20)
    with pytest.raises(ResourceLimit, match="repeat an element"):
        convert.inspect(tmp_path / "m.pt", inputs="float32[1,1024]")
    convert.inspect(layer, inputs="float32[1,1024]")  # weights in memory have no limit


@pytest.mark.parametrize("options", [{"quantize": "int8"}, {"quantize": "int4"}, {"dtype": "float16"}], ids=str)
def test_weights_that_were_packed(
    options: dict[str, str], fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WEIGHTS_FREE_BYTES", 1)
    monkeypatch.setattr(limits, "WEIGHTS_EXPANSION", 10)
    convert.convert(fixtures / "mnist_cnn.onnx", "onnx", tmp_path / "small.onnx", verify=False, **options)
    report = convert.convert(tmp_path / "small.onnx", "caffe2", tmp_path / "m.caffe2", verify=False)
    assert report.weight_bytes > 0


def test_weights_in_files_beside_the_model(fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.load(fixtures / "mnist_cnn.onnx")
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    monkeypatch.setattr(limits, "WEIGHTS_FREE_BYTES", 1)
    monkeypatch.setattr(limits, "WEIGHTS_EXPANSION", 2)
    assert convert.inspect(tmp_path / "m.onnx").parameters > 0
