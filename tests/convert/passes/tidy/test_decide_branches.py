"""Branches with constant conditions: an If that exporters write on a size or a fixed input becomes the taken branch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from convert.graph.shape_inference import infer_facts
from convert.passes.tidy.decide_branches import decide_branches
from tests.support.onnx_support import array, model, run_ort

INT, FLOAT, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL


def branch(name: str, *nodes: onnx.NodeProto, outputs: tuple[str, ...], weights: tuple[Any, ...] = ()) -> Any:
    """A subgraph without inputs."""
    results = [helper.make_tensor_value_info(n, FLOAT, None) for n in outputs]
    return helper.make_graph(list(nodes), name, [], results, list(weights))


def squeeze_of_one(x: str, y: str, axis: str) -> list[onnx.NodeProto]:
    """Return `x.squeeze(2)` as PyTorch's exporter writes it: Squeeze if the dim is 1, else the tensor unchanged."""
    taken = branch("t", helper.make_node("Squeeze", [x, axis], ["r"]), outputs=("r",))
    other = branch("e", helper.make_node("Identity", [x], ["r"]), outputs=("r",))
    return [
        helper.make_node("Shape", [x], [f"{x}_shape"]),
        helper.make_node("Gather", [f"{x}_shape", axis], [f"{x}_size"], axis=0),
        helper.make_node("Equal", [f"{x}_size", "one"], [f"{x}_is_one"]),
        helper.make_node("If", [f"{x}_is_one"], [y], then_branch=taken, else_branch=other),
    ]


def of_sizes(length: int) -> onnx.ModelProto:
    """Return two such squeezes, after a Pad with computed pads, whose length inference does not find."""
    nodes = [
        helper.make_node("Concat", ["zeros", "pads"], ["all_pads"], axis=0),
        helper.make_node("Mul", ["all_pads", "two"], ["computed"]),
        helper.make_node("Pad", ["x", "computed"], ["p"]),
        *squeeze_of_one("p", "a", "axis"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Unsqueeze", ["b", "axis"], ["c"]),
        *squeeze_of_one("c", "d", "axis"),
        helper.make_node("Mul", ["d", "d"], ["y"]),
    ]
    numbers = {"zeros": [0, 0, 0, 0, 0], "pads": [1], "two": [2], "axis": [2], "one": [1]}
    return model(
        nodes,
        [helper.make_tensor_value_info("x", FLOAT, ["batch", 3, length])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [array(name, content, np.int64) for name, content in numbers.items()],
    )


def with_facts(proto: onnx.ModelProto) -> ir.Model:
    """Return the graph as a reader leaves it before the pass."""
    graph = ir.serde.deserialize_model(onnx.load_from_string(proto.SerializeToString()))  # tensors are shared
    infer_facts(graph)
    return graph


def decided(proto: onnx.ModelProto) -> ir.Model:
    """Return the graph after the pass, which finds nothing more the second time."""
    graph = with_facts(proto)
    assert decide_branches(graph)
    assert not decide_branches(graph)
    return graph


def assert_same(proto: onnx.ModelProto, graph: ir.Model, **feeds: Any) -> None:
    """Assert that onnxruntime runs the remaining graph with the same results; it would refuse an impossible branch."""
    made = ir.to_proto(graph)
    onnx.checker.check_model(made)
    for a, b in zip(ReferenceEvaluator(proto).run(None, feeds), run_ort(made, feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def operators(graph: ir.Model) -> Counter[str]:
    return Counter(node.op_type for node in graph.graph.all_nodes())


@pytest.mark.parametrize("length", [2, 3])
def test_sizes_behind_computed_pads_decide(length: int) -> None:
    """The batch stays dynamic; the dims of 4 and 5 are not squeezed, and the dim of 1 after the last is."""
    proto = of_sizes(length)
    graph = decided(proto)
    assert operators(graph)["If"] == operators(graph)["Shape"] == 0
    assert [v.shape for v in graph.graph.outputs] == [ir.Shape(["batch", 3, length + 2])]
    for batch in (1, 2):
        assert_same(proto, graph, x=np.random.default_rng(batch).standard_normal((batch, 3, length), np.float32))


@pytest.mark.parametrize("choice", [True, False])
def test_a_branch_that_a_constant_names(choice: bool) -> None:
    """Equal names in both branches, weights of a branch, Ifs in branches, and results that are outputs."""
    node = helper.make_node
    taken = branch(
        "t", node("Add", ["x", "w"], ["r"]), node("Neg", ["r"], ["s"]), outputs=("s", "r"), weights=(array("w", [2.0]),)
    )
    other = branch("e", node("Exp", ["x"], ["r"]), node("Identity", ["x"], ["s"]), outputs=("r", "s"))
    inner = node("If", ["yes"], ["q", "p"], then_branch=taken, else_branch=other)
    nested = branch("n", inner, node("Mul", ["q", "p"], ["r"]), outputs=("r",))
    never = branch("f", node("Abs", ["x"], ["r"]), outputs=("r",))
    nodes = [
        node("If", ["yes"], ["y", "z"], then_branch=taken, else_branch=other),
        node("If", ["no"], ["k"], then_branch=never, else_branch=nested),
        node("Sub", ["k", "x"], ["l"]),
    ]
    proto = model(
        nodes,
        [helper.make_tensor_value_info("x", FLOAT, ["n", 3])],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in ("y", "z", "l")],
        [array("yes", choice, np.bool_), array("no", False, np.bool_)],
    )
    graph = decided(proto)
    assert operators(graph)["If"] == 0
    assert [v.name for v in graph.graph.outputs] == ["y", "z", "l"]
    assert_same(proto, graph, x=np.arange(6, dtype=np.float32).reshape(2, 3))


def test_what_the_run_decides_stays() -> None:
    """An If on an input, and a graph without branches or unknown dims, stay unchanged."""
    sides = [branch(n, helper.make_node(n, ["x"], ["r"]), outputs=("r",)) for n in ("Exp", "Neg")]
    proto = model(
        [helper.make_node("If", ["c"], ["y"], then_branch=sides[0], else_branch=sides[1])],
        [helper.make_tensor_value_info("x", FLOAT, ["n", 3]), helper.make_tensor_value_info("c", BOOL, [])],
        [helper.make_tensor_value_info("y", FLOAT, ["n", 3])],
    )
    graph = with_facts(proto)
    assert not decide_branches(graph)
    assert operators(graph)["If"] == 1


def test_floats_are_left_to_whoever_runs_the_model() -> None:
    """The divisor of a weight is not a size, and the quotient in float32 would differ from the source's in float64."""
    nodes = [
        helper.make_node("Div", ["weight", "by"], ["scaled"]),
        helper.make_node("NonZero", ["x"], ["places"]),  # its length is unknown
        helper.make_node("Cast", ["places"], ["numbers"], to=FLOAT),
        helper.make_node("MatMul", ["x", "scaled"], ["y"]),
        helper.make_node("Mul", ["two", "half"], ["one"]),
        helper.make_node("Cast", ["one"], ["length"], to=INT),
        helper.make_node("Expand", ["numbers", "length"], ["z"]),
    ]
    weights = {
        "weight": np.ones((3, 4), "f"),
        "by": np.full((3, 1), 3, "f"),
        "two": np.float32(2),
        "half": np.array([0.5], "f"),
    }
    proto = helper.make_model(
        helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info("x", FLOAT, ["n", 3])],
            [helper.make_tensor_value_info(n, FLOAT, None) for n in "yz"],
            [onnx.numpy_helper.from_array(v, n) for n, v in weights.items()],
        ),
        opset_imports=[helper.make_opsetid("", 20)],
    )  # fmt: skip
    model = ir.serde.deserialize_model(proto)
    infer_facts(model)
    decide_branches(model)
    kinds = Counter(node.op_type for node in model.graph)
    assert kinds["Div"] == 1
    assert kinds["Mul"] == 0


def test_floats_that_many_ways_lead_to_are_looked_at_once() -> None:
    """Each of nine numbers is the maximum of the one before, a thousand times: 10²⁷ paths lead from the first to y."""
    nodes = [helper.make_node("Sqrt", ["two"], ["v0"])]
    nodes += [helper.make_node("Max", [f"v{i}"] * 1000, [f"v{i + 1}"]) for i in range(9)]
    nodes += [helper.make_node("NonZero", ["x"], ["places"]), helper.make_node("Add", ["x", "v9"], ["y"])]
    ends = [helper.make_tensor_value_info(n, FLOAT, ["n", 3]) for n in "xy"]
    graph = helper.make_graph(
        nodes, "g", ends[:1], [ends[1], helper.make_tensor_value_info("places", INT, None)],
        [onnx.numpy_helper.from_array(np.float32(2), "two")],
    )  # fmt: skip
    read = ir.serde.deserialize_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    infer_facts(read)
    decide_branches(read)
    assert Counter(node.op_type for node in read.graph)["Max"] == 9
