"""Attributes on which ONNX's own inference crashes the process, or hangs, are refused before it sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

import convert
from convert.errors import BadInput

CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "a letter of no alphabet of ours": ("Einsum", {"equation": "é"}, 1),
    "a number for a letter": ("Einsum", {"equation": "i,²->"}, 1),
    "a minus": ("Einsum", {"equation": "i-j"}, 1),
    "four points": ("Einsum", {"equation": "...."}, 1),
    "two ellipses": ("Einsum", {"equation": "...i..."}, 1),
    "dims of a batch below zero": ("GatherND", {"batch_dims": -5}, 1),
    "an axis of 2^31": ("LayerNormalization", {"axis": 1 << 31}, 1),
    "an axis of 2^63 - 1": ("LayerNormalization", {"axis": (1 << 63) - 1}, 1),
    "one part for two outputs": ("Split", {"num_outputs": 1}, 2),
    "2^31 parts": ("Split", {"num_outputs": 1 << 31}, 2),
}


def _model(kind: str, told: dict[str, Any], outputs: int, *, in_function: bool = False) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    ends = [f"y{i}" for i in range(outputs)]
    data = ["x"] if kind in ("Split", "Einsum") else ["x", "i" if kind == "GatherND" else "x"]
    node = helper.make_node(kind, data, ends, **({} if in_function else told))
    functions = []
    if in_function:
        for name, value in told.items():
            kind_of = onnx.AttributeProto.STRING if isinstance(value, str) else onnx.AttributeProto.INT
            node.attribute.append(onnx.AttributeProto(name=name, type=kind_of, ref_attr_name=name))
        functions = [helper.make_function("mine", "F", ["x", "i"], ends, [node], imports, attributes=list(told))]
        node = helper.make_node("F", ["x", "i"], ends, domain="mine", **told)
    inputs = [helper.make_tensor_value_info("x", 1, [2, 3]), helper.make_tensor_value_info("i", 7, [2, 1])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info(y, 1, None) for y in ends])
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions)


@pytest.mark.parametrize("in_function", [False, True], ids=["plain", "by a function's call"])
@pytest.mark.parametrize("case", CASES)
def test_they_are_refused(case: str, in_function: bool) -> None:
    with pytest.raises(BadInput, match=CASES[case][0]):
        convert.inspect(_model(*CASES[case], in_function=in_function))


@pytest.mark.not_core
def test_a_graph_of_tensorflow_is_held_to_the_same(tmp_path: Path) -> None:
    from tensorflow.core.framework import graph_pb2

    graph = graph_pb2.GraphDef()
    x = graph.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = 1
    x.attr["shape"].shape.SetInParent()
    node = graph.node.add(name="y", op="Einsum", input=["x"])
    node.attr["T"].type, node.attr["N"].i, node.attr["equation"].s = 1, 1, "é".encode()
    (tmp_path / "m.pb").write_bytes(graph.SerializeToString())
    with pytest.raises(convert.ConvertError, match="no equation"):
        convert.inspect(tmp_path / "m.pb")
