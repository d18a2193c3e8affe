"""Functions of a model are inlined, unless they never end."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from convert.errors import BadInput
from convert.reference.executor import run
from tests.support.onnx_support import assert_same, info, model, read, run_ort

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


def test_functions_are_inlined() -> None:
    body = [helper.make_node("Add", ["a", "a"], ["t"]), helper.make_node("Relu", ["t"], ["b"])]
    double = helper.make_function("mine", "Double", ["a"], ["b"], body, [helper.make_opsetid("", 20)])
    nodes = [
        helper.make_node("Double", ["x"], ["h"], domain="mine"),
        helper.make_node("Double", ["h"], ["y"], domain="mine"),
    ]
    proto = model(nodes, [info("x", [2, 3, 4])], [info("y", [2, 3, 4])], domains=["mine"], functions=[double])
    shared = read(proto)
    assert not shared.functions
    assert [n.op_type for n in shared.graph] == ["Add", "Relu", "Add", "Relu"]
    assert_same(run(shared, {"x": X})["y"], run_ort(proto, {"x": X})[0])


def function(name: str, calls: list[str]) -> onnx.FunctionProto:
    names = ["a", *(f"t{i}" for i in range(len(calls) - 1)), "b"]
    nodes = [
        helper.make_node(c, [names[i]], [names[i + 1]], domain="" if c == "Relu" else "mine")
        for i, c in enumerate(calls)
    ]
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    return helper.make_function("mine", name, ["a"], ["b"], nodes, imports)


@pytest.mark.parametrize(
    ("functions", "text"),
    [
        (
            [function("F0", ["Relu"] * 10), *(function(f"F{i}", [f"F{i - 1}"] * 10) for i in range(1, 30))],
            "expand to 1000",
        ),
        ([function("F0", ["Relu"]), *(function(f"F{i}", [f"F{i - 1}"]) for i in range(1, 30000))], "nested"),
        ([function("F0", ["F29"]), function("F29", ["F0"])], "in a cycle"),
        ([function("F0", ["F0"]), function("F29", ["F0"])], "in a cycle"),
    ],
    ids=["bomb", "chain", "circle", "recursion"],
)
def test_functions_that_do_not_end(functions: list[onnx.FunctionProto], text: str) -> None:
    last = functions[-1].name
    proto = model(
        [helper.make_node(last, ["x"], ["y"], domain="mine")],
        [info("x", [2])],
        [info("y", [2])],
        domains=["mine"],
        functions=functions,
    )
    with pytest.raises(BadInput, match=text):
        read(proto)


def test_a_node_of_onnxruntime_without_inputs_that_it_needs_is_bad_input() -> None:
    """No checker knows the operators of other domains, so the rule is the first to miss an input."""
    node = helper.make_node("EmbedLayerNormalization", ["x"] * 4, ["y"], domain="com.microsoft")
    with pytest.raises(BadInput, match="it has no segment_table, no gamma, no beta"):
        read(model([node], [info("x", [2, 3])], [info("y", [2, 3, 3])], domains=["com.microsoft"]))
