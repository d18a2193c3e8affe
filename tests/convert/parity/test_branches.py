"""A branch that no input reaches proves nothing, unless no input could reach it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import convert
from convert.outcome.verdict import INCONCLUSIVE, PASS

F32 = TensorProto.FLOAT


def branching(path: Path, rows: int | str, condition: list[onnx.NodeProto]) -> Path:
    """Save a model of x float32[rows,4] that doubles x if `condition` computes c as true, and triples it otherwise."""

    def branch(name: str, factor: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info(name, F32, None)
        return helper.make_graph([helper.make_node("Mul", ["x", factor], [name])], name, [], [out])

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("a", "two"), else_branch=branch("b", "three"))
    x, y = (helper.make_tensor_value_info(n, F32, [rows, 4]) for n in "xy")
    numbers = {"two": np.float32(2), "three": np.float32(3), "negative": np.float32(-1), "zero": np.array(0),
               "many": np.array(5000), "one": np.array(1)}  # fmt: skip
    held = [numpy_helper.from_array(np.asarray(a), n) for n, a in numbers.items()]
    graph = helper.make_graph([*condition, node], "g", [x], [y], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def on_size(limit: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Greater", ["n", limit], ["c"]),
    ]


ON_NUMBERS = [
    helper.make_node("ReduceSumSquare", ["x"], ["power"], keepdims=0),
    helper.make_node("Less", ["power", "negative"], ["c"]),
]


@pytest.mark.parametrize(
    ("rows", "condition", "status"),
    [
        ("n", on_size("one"), PASS),
        ("n", on_size("many"), PASS),
        ("n", ON_NUMBERS, INCONCLUSIVE),
    ],
    ids=["both are reached", "a size that no caller has", "numbers that none of the inputs has"],
)
def test_branches_that_no_input_reaches(
    tmp_path: Path, rows: int | str, condition: list[onnx.NodeProto], status: str
) -> None:
    path = branching(tmp_path / "m.onnx", rows, condition)
    verdict = convert.verify(path, path).verdict
    assert verdict is not None
    assert verdict.status == status, verdict.reason
    if status == INCONCLUSIVE:
        assert verdict.reason.startswith("no input reached the then branch of If")
