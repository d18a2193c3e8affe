"""The text that says what a verdict is based on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

import convert
from convert.graph import Graph
from convert.outcome.verdict import INCONCLUSIVE
from convert.parity.inputs.coverage import describe_coverage
from convert.parity.inputs.feeds import Feed


def test_sets_sizes_and_values() -> None:
    g = Graph()
    x, ids = g.input("x", ir.DataType.FLOAT, ["n", 3]), g.input("ids", ir.DataType.INT64, ["n", None])
    g.output(g.Identity(x), "y")
    g.output(g.Identity(ids), "z")
    feeds = [
        Feed("a", {"x": np.array([[-1.5, 0, np.nan]], np.float32), "ids": np.array([[7, 2]])}),
        Feed("b", {"x": np.full((4, 3), 1e3, np.float32), "ids": np.zeros((4, 5), np.int64)}),
    ]
    text = "2 input sets; n 1–4, ids.1 2–5; x from -1.5 to 1e+03, ids from 0 to 7"
    assert describe_coverage(g.model(), feeds) == text
    assert describe_coverage(g.model(), feeds[:1]) == "1 input set; n 1, ids.1 2; x from -1.5 to 0, ids from 2 to 7"


def test_an_output_that_never_has_an_element_is_inconclusive(tmp_path: Path) -> None:
    """Other outputs pass, but nothing of this output was compared."""
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["y"]),
            helper.make_node("Greater", ["x", "far"], ["found"]),
            helper.make_node("NonZero", ["found"], ["places"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 4])],
        [helper.make_tensor_value_info("y", 1, ["n", 4]), helper.make_tensor_value_info("places", 7, [2, None])],
        [numpy_helper.from_array(np.float32(1e30).reshape(()), "far")],
    )
    for name in "ab":
        path = tmp_path / f"{name}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    verdict = convert.verify(tmp_path / "a.onnx", tmp_path / "b.onnx").verdict
    assert verdict is not None
    assert verdict.status == INCONCLUSIVE
    assert verdict.reason.startswith("places: the output is empty")
    assert verdict.covered.startswith("6 input sets; n 1–")
