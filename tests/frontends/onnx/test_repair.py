"""Files that ONNX's checker refuses and onnxruntime runs, compared with onnxruntime on the unchanged file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from convert.errors import BadInput
from convert.outcome.notes import as_note
from convert.outcome.report import Report
from convert.reference import executor
from tests.support.onnx_support import info, read, run_ort
from tests.support.tensorflow_helper import images

X, Y = info("x", [2, 3]), info("y", [2, 3])
node = helper.make_node


def _file(nodes: list[onnx.NodeProto], name: str = "g") -> onnx.ModelProto:
    weight = numpy_helper.from_array(images(3), "w")
    graph = helper.make_graph(nodes, name or "g", [X], [Y], [weight])
    graph.name = name
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _without_type(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    model = _file(nodes)
    model.graph.output[0].ClearField("type")
    return model


def _if(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return an If whose condition and whose outer tensor are computed after it."""
    graph = helper.make_graph(nodes, "branch", [], [info("b", [2, 3])])
    true = numpy_helper.from_array(np.array(True), "c")
    return [
        node("If", ["c"], ["y"], then_branch=graph, else_branch=graph),
        node("Constant", [], ["c"], value=true),
        node("Relu", ["x"], ["outer"]),
    ]


def _old(nodes: list[onnx.NodeProto], listed: bool = False) -> onnx.ModelProto:
    """Return a file of IR version 3, which must list the weight among its inputs, and lists another one if `listed`."""
    model = _file(nodes)
    model.ir_version = 3
    if listed:
        model.graph.initializer.append(numpy_helper.from_array(images(3), "v"))
        model.graph.input.append(info("v", [3]))
    return model


FILES: dict[str, Callable[[], onnx.ModelProto]] = {
    "backwards": lambda: _file([node("Neg", ["b"], ["y"]), node("Add", ["a", "w"], ["b"]), node("Relu", ["x"], ["a"])]),
    "a constant behind": lambda: _file(
        [node("Add", ["x", "c"], ["y"]), node("Constant", [], ["c"], value=numpy_helper.from_array(images(3)))]
    ),
    "read within a branch": lambda: _file(_if([node("Neg", ["outer"], ["b"])])),
    "no name": lambda: _file([node("Relu", ["x"], ["y"])], ""),
    "a weight is no input": lambda: _old([node("Add", ["x", "w"], ["y"])]),
    "one of two weights is an input": lambda: _old(
        [node("Add", ["x", "w"], ["a"]), node("Mul", ["a", "v"], ["y"])], listed=True
    ),
    "no type": lambda: _without_type([node("Add", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])]),
    "no type, of an If": lambda: _without_type(_if([node("Neg", ["outer"], ["b"])])),
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_repaired(name: str, tmp_path: Path) -> None:
    (path := tmp_path / "m.onnx").write_bytes(FILES[name]().SerializeToString())
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(str(path))
    report = Report("convert")
    model = read(path, report=report)
    assert "repaired" in {as_note(note).code for note in report.notes}
    feed = {"x": images(2, 3)}
    (want,) = run_ort(path, feed)
    (got,) = executor.run(model, feed).values()
    np.testing.assert_allclose(got, want, 1e-6, 1e-6)


def test_a_circle_is_refused() -> None:
    with pytest.raises(BadInput):
        read(_file([node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"]), node("Relu", ["b"], ["y"])]))


def test_an_attribute_that_no_operator_reads_is_the_cause_where_an_output_has_no_type(tmp_path: Path) -> None:
    (path := tmp_path / "m.onnx").write_bytes(
        _without_type([node("Relu", ["x"], ["y"], slope=0.5)]).SerializeToString()
    )
    with pytest.raises(BadInput, match="attribute: slope"):
        read(path)
