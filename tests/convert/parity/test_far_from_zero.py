"""By default some inputs are far from zero: there a variance computed as E[x²] − E[x]² cancels, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import convert
from convert.outcome.verdict import FAIL, PASS
from tests.support.marks import slow

AXES = np.array([2, 3])
STABLE = [
    helper.make_node("ReduceMean", ["x", "axes"], ["mean"]),
    helper.make_node("Sub", ["x", "mean"], ["away"]),
    helper.make_node("Mul", ["away", "away"], ["square"]),
    helper.make_node("ReduceMean", ["square", "axes"], ["variance"]),
]
CANCELLING = [
    helper.make_node("ReduceMean", ["x", "axes"], ["mean"]),
    helper.make_node("Sub", ["x", "mean"], ["away"]),
    helper.make_node("Mul", ["x", "x"], ["square"]),
    helper.make_node("ReduceMean", ["square", "axes"], ["mean_square"]),
    helper.make_node("Mul", ["mean", "mean"], ["square_mean"]),
    helper.make_node("Sub", ["mean_square", "square_mean"], ["variance"]),
]
LAST = [
    helper.make_node("Add", ["variance", "epsilon"], ["padded"]),
    helper.make_node("Sqrt", ["padded"], ["deviation"]),
    helper.make_node("Div", ["away", "deviation"], ["y"]),
]


def saved(path: Path, nodes: list[onnx.NodeProto], weights: int = 0) -> Path:
    """Save an instance norm written out as `nodes`; a million `weights` make the model a large one."""
    held = [numpy_helper.from_array(AXES, "axes"), numpy_helper.from_array(np.float32(1e-5).reshape(()), "epsilon")]
    outputs, after = ["y"], []
    if weights:
        held.append(numpy_helper.from_array(np.ones(weights, np.float32), "w"))
        held.append(numpy_helper.from_array(np.array([0]), "none"))
        after = [helper.make_node("ReduceMean", ["w", "none"], ["one"]), helper.make_node("Mul", ["y", "one"], ["z"])]
        outputs = ["z"]
    described = [helper.make_tensor_value_info(n, 1, ["n", 3, "h", "w"]) for n in ("x", *outputs)]
    graph = helper.make_graph([*nodes, *LAST, *after], "g", described[:1], described[1:], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.mark.parametrize("weights", slow([0, 1_100_000], 1_100_000))
def test_a_variance_that_cancels_is_found(tmp_path: Path, weights: int) -> None:
    source = saved(tmp_path / "a.onnx", STABLE, weights)
    wrong = convert.verify(source, saved(tmp_path / "b.onnx", CANCELLING, weights)).verdict
    assert wrong is not None
    assert wrong.status == FAIL
    assert f"{16 if weights else 1000} added" in wrong.outputs[0].elements[0].feed
    right = convert.verify(source, saved(tmp_path / "c.onnx", STABLE, weights)).verdict
    assert right is not None
    assert right.status == PASS, right.reason
