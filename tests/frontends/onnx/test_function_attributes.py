"""Attributes of model-local functions (defaults and references of every type), against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from convert.outcome.report import Report
from convert.reference.executor import run
from tests.support.onnx_support import array, assert_same, info, model, read, run_ort

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
Node, Function, Model = onnx.NodeProto, onnx.FunctionProto, onnx.ModelProto


def refer(node: Node, name: str, outer: str, kind: int = onnx.AttributeProto.FLOAT) -> Node:
    """Return `node` with its attribute `name` taken from the attribute `outer` of the enclosing function."""
    node.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=outer, type=kind))
    return node


def function(
    name: str, nodes: Sequence[Node], declared: Sequence[str] = (), overload: str = "", **values: Any
) -> Function:
    """Return a function from a to b; `declared` attributes have no default, `values` are the defaults of the others."""
    made = [helper.make_attribute(n, v) for n, v in values.items()]
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    found = helper.make_function("mine", name, ["a"], ["b"], list(nodes), imports, list(declared), made)
    found.overload = overload
    return found


def call(name: str, x: str = "x", y: str = "y", **attributes: Any) -> Node:
    return helper.make_node(name, [x], [y], domain="mine", **attributes)


def program(nodes: Sequence[Node], *functions: Function, outputs: Sequence[str] = ("y",)) -> Model:
    return model(nodes, [info("x", X.shape)], [info(n, None) for n in outputs],
                 domains=["mine"], functions=functions, ir_version=10)  # fmt: skip


def leaky(x: str = "a", y: str = "b") -> Node:
    return refer(helper.make_node("LeakyRelu", [x], [y]), "alpha", "alpha")


def branch(name: str, node: Node) -> onnx.GraphProto:
    return helper.make_graph([node], name, [], [info(node.output[0], None)])


def conditional(then: Node, other: Node) -> list[Node]:
    """Return whether the sum is above zero."""
    return [
        helper.make_node("ReduceSum", ["a"], ["sum"], keepdims=0),
        helper.make_node("Constant", [], ["zero"], value_float=0.0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["b"], then_branch=branch("t", then), else_branch=branch("e", other)),
    ]


def loop() -> list[Node]:
    body = helper.make_graph(
        [helper.make_node("Identity", ["more"], ["still"]), leaky("v", "w")],
        "body",
        [info("i", [], TensorProto.INT64), info("more", [], TensorProto.BOOL), info("v", None)],
        [info("still", [], TensorProto.BOOL), info("w", None)],
    )
    return [
        helper.make_node("Constant", [], ["n"], value_int=3),
        helper.make_node("Constant", [], ["yes"], value=array("yes", True, np.bool_)),
        helper.make_node("Loop", ["n", "yes", "a"], ["b"], body=body),
    ]


def constant(attribute: str, kind: int) -> list[Node]:
    node = refer(helper.make_node("Constant", [], ["c"]), attribute, "content", kind)
    return [node, helper.make_node("Add", ["a", "c"], ["b"])]


A = onnx.AttributeProto
LEAKY = function("Leaky", [leaky()], alpha=0.3)
OUTER = [refer(call("Leaky", "a", "b"), "alpha", "slope")]
MIXED = [call("Leaky", "a", "h"), refer(call("Leaky", "h", "b"), "alpha", "slope")]

CASES = {
    "left out": program([call("Leaky")], LEAKY),
    "given": program([call("Leaky", alpha=0.7)], LEAKY),
    "given once": program([call("Leaky", "x", "h", alpha=0.9), call("Leaky", "h")], LEAKY),
    "neither given nor known": program([call("Leaky")], function("Leaky", [leaky()], ["alpha"])),
    "handed on": program([call("Outer")], function("Outer", OUTER, slope=0.45), LEAKY),
    "handed on as given": program([call("Outer", slope=0.9)], function("Outer", OUTER, slope=0.45), LEAKY),
    "handed on as nothing": program([call("Outer")], function("Outer", OUTER, ["slope"]), LEAKY),
    "handed on as both": program(
        [call("Outer", "x", "h"), call("Outer", "h", slope=0.9)], function("Outer", OUTER, ["slope"]), LEAKY
    ),
    "handed on through three": program(
        [call("Top", slope=0.2), call("Top", "y", "z")],
        function("Top", [refer(call("Outer", "a", "b"), "slope", "slope")], ["slope"]),
        function("Outer", MIXED, ["slope"]), LEAKY, outputs=("y", "z"),
    ),
    "callee first": program([call("Outer")], LEAKY, function("Outer", MIXED, slope=0.45)),
    "integers": program(
        [call("F")],
        function("F", [refer(helper.make_node("Transpose", ["a"], ["b"]), "perm", "p", A.INTS)], p=[1, 0, 2]),
    ),
    "integer": program(
        [call("F")], function("F", [refer(helper.make_node("Softmax", ["a"], ["b"]), "axis", "k", A.INT)], k=1)
    ),
    "text": program(
        [call("F")],
        function("F", [refer(helper.make_node("Gelu", ["a"], ["b"]), "approximate", "how", A.STRING)], how="tanh"),
    ),
    "tensor": program([call("F")], function("F", constant("value", A.TENSOR), content=array("c", 2.5))),
    "floats": program([call("F")], function("F", constant("value_floats", A.FLOATS), content=[1.0, 2.0, 3.0, 4.0])),
    "float": program([call("F")], function("F", constant("value_float", A.FLOAT), content=1.5)),
    "in a branch": program(
        [call("F")],
        function("F", conditional(leaky("a", "t"), refer(helper.make_node("Elu", ["a"], ["e"]), "alpha", "alpha")),
                 alpha=0.3),
    ),
    "call in a branch of a function": program(
        [call("F")], function("F", conditional(call("Leaky", "a", "t"), call("Leaky", "a", "e"))), LEAKY
    ),
    "call in a branch of the graph": program(
        [helper.make_node("Neg", ["x"], ["a"]), *conditional(call("Leaky", "a", "t"), call("Leaky", "a", "e")),
         helper.make_node("Neg", ["b"], ["y"])], LEAKY,
    ),
    "in a loop": program([call("F")], function("F", loop(), alpha=0.5)),
    "overloads": program(
        [call("F", "x", "h", overload="one"), call("F", "h", overload="two")],
        function("F", [leaky()], overload="one", alpha=0.3), function("F", [leaky()], overload="two", alpha=0.6),
    ),
    "named as an operator, in a domain of its own": program([call("Relu")], function("Relu", [leaky()], alpha=0.3)),
}  # fmt: skip


@pytest.mark.parametrize("sign", [1, -1], ids=["x", "-x"])
@pytest.mark.parametrize("name", CASES)
def test_attributes_of_functions_have_the_values_that_onnxruntime_gives_them(name: str, sign: int) -> None:
    feeds = {"x": (X * sign).astype(np.float32)}
    wanted = run_ort(CASES[name], feeds)
    assert_same(list(run(read(CASES[name]), feeds).values()), wanted)


def test_reading_leaves_the_model_as_it_was() -> None:
    before = CASES["handed on as both"].SerializeToString()
    read(CASES["handed on as both"])
    assert CASES["handed on as both"].SerializeToString() == before


def test_an_operator_overrules_a_function_of_its_name() -> None:
    """onnx.proto leaves this to the runtime, and onnxruntime uses the operator."""
    body = helper.make_function("", "Gelu", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])],
                                [helper.make_opsetid("", 20)])  # fmt: skip
    report = Report("test")
    proto = program([helper.make_node("Gelu", ["x"], ["y"])], body)
    assert_same(run(read(proto, report=report), {"x": X})["y"], run_ort(proto, {"x": X})[0])
    assert any("Gelu" in note for note in report.notes)


def test_a_function_may_hand_an_input_through() -> None:
    """ONNX's inliner loses such an output; onnxruntime refuses the file."""
    through = helper.make_function("mine", "F", ["a"], ["b", "a"], [helper.make_node("Relu", ["a"], ["b"])],
                                   [helper.make_opsetid("", 20)])  # fmt: skip
    nodes = [helper.make_node("F", ["x"], ["h", "k"], domain="mine"), helper.make_node("Add", ["h", "k"], ["y"])]
    assert_same(run(read(program(nodes, through)), {"x": X})["y"], np.maximum(X, 0) + X)
