"""Dims that weights determine get their sizes, whatever a file names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper, numpy_helper

import convert
from convert.graph.values import dims
from convert.outcome.notes import as_note
from convert.outcome.report import Report
from tests.support.onnx_support import info, read
from tests.support.tensorflow_helper import images

ROWS: dict[str, tuple[str, list[Any], tuple[int, ...], dict[str, Any], list[Any]]] = {
    "Conv": ("Conv", ["b", "c", "h", "w"], (4, 3, 2, 2), {}, ["b", 3, "h", "w"]),
    "Conv in groups": ("Conv", ["b", "c", "h", "w"], (4, 3, 2, 2), {"group": 2}, ["b", 6, "h", "w"]),
    "Conv1d": ("Conv", ["b", "c", "t"], (4, 3, 2), {}, ["b", 3, "t"]),
    "ConvTranspose": ("ConvTranspose", ["b", "c", "h", "w"], (3, 4, 2, 2), {}, ["b", 3, "h", "w"]),
    "Gemm": ("Gemm", ["b", "c"], (4, 3), {"transB": 1}, ["b", 3]),
    "Gemm of a transposed": ("Gemm", ["c", "b"], (3, 4), {"transA": 1}, [3, "b"]),
    "MatMul": ("MatMul", ["b", "t", "c"], (3, 4), {}, ["b", "t", 3]),
    "LSTM": ("LSTM", ["t", "b", "c"], (1, 8, 3), {"hidden_size": 2}, ["t", "b", 3]),
}


def model_of(name: str) -> onnx.ModelProto:
    operator, declared, shape, attributes, _ = ROWS[name]
    weights = [numpy_helper.from_array(images(*shape), "w")]
    if operator == "LSTM":
        weights.append(numpy_helper.from_array(images(1, 8, 2), "r"))
    node = helper.make_node(operator, ["x", *(w.name for w in weights)], ["y"], **attributes)
    graph = helper.make_graph([node], "g", [info("x", declared)], [info("y", None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("name", ROWS)
def test_sizes_of_weights(name: str, tmp_path: Path) -> None:
    (path := tmp_path / "m.onnx").write_bytes(model_of(name).SerializeToString())
    report = Report("convert")
    found = read(path, report=report)
    assert list(dims(found.graph.inputs[0])) == ROWS[name][-1]
    assert "fixed-dim" in {as_note(note).code for note in report.notes}


@pytest.mark.slow  # PyTorch captures a program
def test_a_convolution_of_a_named_number_of_channels_becomes_a_program(tmp_path: Path) -> None:
    (path := tmp_path / "m.onnx").write_bytes(model_of("Conv in groups").SerializeToString())
    report = convert.convert(path, "torch", tmp_path / "m.pt2")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


def test_a_weight_that_is_data_demands_nothing(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [info("x", ["b", "c"]), info("w", ["c", 4])], [info("y", ["b", 4])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (path := tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert list(dims(read(path).graph.inputs[0])) == ["b", "c"]
