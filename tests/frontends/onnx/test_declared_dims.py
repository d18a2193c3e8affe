"""Names of dims in a file are kept if they are true, and dropped otherwise; onnxruntime tells the sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from convert.graph.values import dims
from convert.outcome.notes import as_note
from convert.outcome.report import Report
from convert.parity.compare.dim_names import false_dim_names
from convert.parity.inputs.feeds import Feed
from tests.support.onnx_support import info, read, run_ort

node = helper.make_node
BOOL, INT64 = onnx.TensorProto.BOOL, onnx.TensorProto.INT64
X = info("x", ["n", 4])
CONDITION = info("c", [], BOOL)
BOTH = node("Concat", ["x", "x"], ["y"], axis=0)


def _model(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[onnx.ValueInfoProto],
    inputs: Sequence[Any] = (X,),
    **constants: Any,
) -> onnx.ModelProto:
    weights = [numpy_helper.from_array(np.array(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _loop(body_dims: list[Any]) -> onnx.NodeProto:
    """Return a Loop whose state doubles its rows."""
    body = helper.make_graph(
        [node("Concat", ["v", "v"], ["w"], axis=0), node("Identity", ["c"], ["d"])],
        "body",
        [info("i", [], INT64), info("c", [], BOOL), info("v", body_dims)],
        [info("d", [], BOOL), info("w", body_dims)],
    )
    return node("Loop", ["two", "true", "x"], ["y"], body=body)


def _scan(body_dims: list[Any]) -> onnx.NodeProto:
    """Return a Scan that adds the rows of x to a state."""
    body = helper.make_graph(
        [node("Add", ["v", "row"], ["w"])], "body", [info("v", body_dims), info("row", [4])], [info("w", body_dims)]
    )
    return node("Scan", ["zero", "x"], ["y"], body=body, num_scan_inputs=1)


def _branch(name: str, operator: str, **attributes: Any) -> onnx.GraphProto:
    inputs = ["x", "x"] if operator == "Concat" else ["x"]
    return helper.make_graph([node(operator, inputs, [name], **attributes)], name, [], [info(name, ["n", 4])])


_BRANCHES = {"then_branch": _branch("t", "Concat", axis=0), "else_branch": _branch("e", "Relu")}
_SAME = {"then_branch": _branch("t", "Neg"), "else_branch": _branch("e", "Relu")}

FALSE: dict[str, Callable[[], onnx.ModelProto]] = {
    "twice": lambda: _model([BOTH], [info("y", ["n", 4])]),
    "twice, and read": lambda: _model([BOTH, node("Relu", ["y"], ["z"])], [info("y", ["n", 4]), info("z", ["n", 4])]),
    "one name of two outputs": lambda: _model(
        [BOTH, node("Relu", ["x"], ["z"])], [info("z", ["m", 4]), info("y", ["m", 4])]
    ),
    "two inputs in one": lambda: _model(
        [node("Concat", ["x", "b"], ["y"], axis=0)], [info("y", ["n", 4])], [X, info("b", ["k", 4])]
    ),
    "slice": lambda: _model(
        [node("Slice", ["x", "one", "far", "axis"], ["y"])], [info("y", ["n", 4])], one=[1], far=[9999], axis=[0]
    ),
    "reshape": lambda: _model([node("Reshape", ["x", "s"], ["y"])], [info("y", ["n", 2])], s=[-1, 2]),
    "flat": lambda: _model([node("Reshape", ["x", "s"], ["y"])], [info("y", ["n"])], s=[-1]),
    "sum": lambda: _model([node("ReduceSum", ["x", "s"], ["y"])], [info("y", ["n", 1])], s=[0, 1]),
    "pooled": lambda: _model(
        [node("AveragePool", ["x"], ["y"], kernel_shape=[2], strides=[2])],
        [info("y", ["b", 3, "w"])], [info("x", ["b", 3, "w"])],
    ),
    "branch": lambda: _model([node("If", ["c"], ["y"], **_BRANCHES)], [info("y", ["n", 4])], [X, CONDITION]),
    "loop": lambda: _model([_loop(["n", 4])], [info("y", ["n", 4])], two=2, true=True),
    "loop, by another name": lambda: _model([_loop(["k", 4])], [info("y", ["n", 4])], two=2, true=True),
}  # fmt: skip
TRUE: dict[str, Callable[[], onnx.ModelProto]] = {
    "relu": lambda: _model([node("Relu", ["x"], ["y"])], [info("y", ["n", 4])]),
    "a name of its own": lambda: _model([BOTH], [info("y", ["2n", 4])]),
    "the shape of another": lambda: _model(
        [node("Relu", ["x"], ["r"]), node("Shape", ["x"], ["s"]), node("Reshape", ["r", "s"], ["y"])],
        [info("y", ["n", 4])],
    ),
    "one name of two outputs": lambda: _model(
        [BOTH, node("Neg", ["y"], ["z"])], [info("y", ["m", 4]), info("z", ["m", 4])]
    ),
    "there and back": lambda: _model(
        [BOTH, node("Slice", ["y", "zero", "last", "axis", "step"], ["z"])],
        [info("z", ["n", 4])], zero=[0], last=[9999], axis=[0], step=[2],
    ),
    "branch": lambda: _model([node("If", ["c"], ["y"], **_SAME)], [info("y", ["n", 4])], [X, CONDITION]),
    "scan": lambda: _model([_scan([4])], [info("y", [4])], zero=np.zeros(4, np.float32)),
}  # fmt: skip


def _fed(model: onnx.ModelProto, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    feed = {}
    for value in model.graph.input:
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [sizes.get(d.dim_param, d.dim_value) for d in value.type.tensor_type.shape.dim]
        feed[value.name] = np.ones(shape, kind)
    return feed


def _runs(path: Path, model: ir.Model) -> list[str]:
    """Return the outputs whose names of dims are false, in two runs."""
    proto = onnx.load(path)
    feeds = [_fed(proto, sizes) for sizes in ({"n": 6, "k": 4, "b": 2, "w": 8}, {"n": 3, "k": 2, "b": 5, "w": 6})]
    names = [str(y.name) for y in model.graph.outputs]
    outputs = [dict(zip(names, run_ort(path, feed), strict=True)) for feed in feeds]
    return false_dim_names(model, [Feed("", feed) for feed in feeds], outputs)


@pytest.mark.parametrize("name", FALSE)
def test_false_names_are_dropped(name: str, tmp_path: Path) -> None:
    (path := tmp_path / "m.onnx").write_bytes(FALSE[name]().SerializeToString())
    report = Report("convert")
    model = read(path, report=report)
    assert "false-dim" in {as_note(note).code for note in report.notes}
    assert not _runs(path, model)


@pytest.mark.parametrize("name", TRUE)
def test_true_names_are_kept(name: str, tmp_path: Path) -> None:
    (path := tmp_path / "m.onnx").write_bytes((proto := TRUE[name]()).SerializeToString())
    report = Report("convert")
    model = read(path, report=report)
    assert "false-dim" not in {as_note(note).code for note in report.notes}
    assert not _runs(path, model)
    for value, own in zip(model.graph.outputs, proto.graph.output, strict=True):
        declared = [d.dim_param or d.dim_value for d in own.type.tensor_type.shape.dim]
        assert [d for d in dims(value) if isinstance(d, str)] == [d for d in declared if isinstance(d, str)]


def test_sizes_that_are_data_are_compared_in_the_runs(tmp_path: Path) -> None:
    proto = _model([node("NonZero", ["x"], ["y"])], [info("y", [2, "n"], INT64)])
    (path := tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    (told,) = _runs(path, read(path))
    assert "declares 'y' as [2, n], and gives [2, 12] where n is 3" in told
