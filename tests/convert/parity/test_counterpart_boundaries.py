"""Inputs lie around the constants of both graphs, so that a clamp that only the target has is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import convert
from convert.outcome.verdict import FAIL, PASS
from tests.support.marks import slow


def saved(path: Path, operator: str, dtype: int, number: float) -> Path:
    """Save y = operator(x, number), or y = x."""
    inputs = ["x"] if operator == "Identity" else ["x", "number"]
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, ["y"])],
        "g",
        [helper.make_tensor_value_info("x", dtype, ["n", 4])],
        [helper.make_tensor_value_info("y", dtype, ["n", 4])],
        [numpy_helper.from_array(np.array(number, helper.tensor_dtype_to_np_dtype(dtype)), "number")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.mark.parametrize("dtype", slow([onnx.TensorProto.INT64, onnx.TensorProto.INT32], onnx.TensorProto.INT32))
@pytest.mark.parametrize(
    ("operator", "number"), [("Min", 37), ("Min", 5000), pytest.param("Max", -3, marks=pytest.mark.slow)]
)
def test_a_clamp_of_the_target(tmp_path: Path, operator: str, number: float, dtype: int) -> None:
    source, target = (
        saved(tmp_path / "a.onnx", "Identity", dtype, 0),
        saved(tmp_path / "b.onnx", operator, dtype, number),
    )
    verdict = convert.verify(source, target).verdict
    assert verdict is not None
    assert verdict.status == FAIL
    assert "special values" not in verdict.reason, "an ordinary number shows it"
    right = convert.verify(source, source).verdict
    assert right is not None
    assert right.status == PASS
