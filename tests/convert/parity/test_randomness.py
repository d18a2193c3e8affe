"""Outputs that depend on random numbers never pass because of their own noise, and the others are judged as usual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import convert
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS
from convert.parity.compare.randomness import describe_repeats, random_outputs
from convert.request.source import Source

FLOAT = TensorProto.FLOAT
node, value = helper.make_node, helper.make_tensor_value_info
# h is x times a weight; the later nodes compute the outputs from it, and the test is about "y".
HEAD = [node("MatMul", ["x", "w"], ["h"])]


def network(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str] = ("y",), weight: float = 1.0, functions: Any = ()
) -> onnx.ModelProto:
    """Return the nodes after h = x · w, with w off by a factor."""
    array = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4) * np.float32(weight)
    weights = [numpy_helper.from_array(array, "w"), numpy_helper.from_array(np.float32(0), "zero")]
    scalars = {"half": np.float32(0.5), "yes": True, "no": False, "three": np.int64(3)}
    weights += [numpy_helper.from_array(np.array(n), k) for k, n in scalars.items()]
    ends = [value("x", FLOAT, ["batch", 4])], [value(n, FLOAT, None) for n in outputs]
    graph = helper.make_graph([*HEAD, *nodes], "net", *ends, weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)


def branch(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], inputs: Sequence[str] = ()) -> onnx.GraphProto:
    kinds = {"i": (TensorProto.INT64, []), "c": (TensorProto.BOOL, []), "c2": (TensorProto.BOOL, [])}
    given = [value(n, *kinds.get(n, (FLOAT, None))) for n in inputs]
    return helper.make_graph(nodes, "body", given, [value(n, *kinds.get(n, (FLOAT, None))) for n in outputs])


NOISE = node("RandomNormalLike", ["h"], ["n"])
SUM = node("Add", ["h", "n"], ["y"])
CLEAN = branch([node("Neg", ["h"], ["t"])], ["t"])
OTHER = branch([node("Abs", ["h"], ["u"])], ["u"])
NOISY = branch([node("RandomNormalLike", ["h"], ["r"]), node("Add", ["h", "r"], ["e"])], ["e"])
LOOP = branch(
    [node("Identity", ["c"], ["c2"]), node("RandomUniformLike", ["b"], ["r"]), node("Identity", ["b"], ["a2"]),
     node("Add", ["b", "r"], ["b2"]), node("Neg", ["d"], ["d2"])],
    ["c2", "a2", "b2", "d2"], ["i", "c", "a", "b", "d"],
)  # fmt: skip
BODY = helper.make_function(
    "own", "Noise", ["h"], ["y"], [node("RandomNormalLike", ["h"], ["n"]), node("Add", ["h", "n"], ["y"])],
    [helper.make_opsetid("", 17)],
)  # fmt: skip
SCAN = branch([node("RandomNormalLike", ["v"], ["r"]), node("Add", ["v", "r"], ["o"]), node("Neg", ["s"], ["s2"])],
              ["s2", "o"], ["s", "v"])  # fmt: skip
MEAN = node("ReduceMean", ["h"], ["s0"], axes=[0], keepdims=0)

# Nodes, outputs, and which of these depend on random numbers.
TABLE = {
    "normal": ([NOISE, SUM], ["y"], ["y"]),
    "normal of a fixed shape": ([node("RandomNormal", [], ["n"], shape=[1, 4]), SUM], ["y"], ["y"]),
    "uniform": ([node("RandomUniform", [], ["n"], shape=[1, 4]), SUM], ["y"], ["y"]),
    "uniform like": ([node("RandomUniformLike", ["h"], ["n"]), SUM], ["y"], ["y"]),
    "with a seed": ([node("RandomNormalLike", ["h"], ["n"], seed=1.0), SUM], ["y"], ["y"]),
    "bernoulli": ([node("Sigmoid", ["h"], ["p"]), node("Bernoulli", ["p"], ["n"]), SUM], ["y"], ["y"]),
    "multinomial": ([node("Multinomial", ["h"], ["m"]), node("Cast", ["m"], ["n"], to=1), SUM], ["y"], ["y"]),
    "dropout in training": ([node("Dropout", ["h", "half", "yes"], ["y"])], ["y"], ["y"]),
    "dropout in inference": ([node("Dropout", ["h", "half", "no"], ["y"])], ["y"], []),
    "dropout of nothing": ([node("Dropout", ["h", "zero", "yes"], ["y"])], ["y"], []),
    "an output beside it": ([NOISE, SUM, node("Neg", ["h"], ["z"])], ["y", "z"], ["y"]),
    "noise that cancels": ([NOISE, node("Sub", ["n", "n"], ["o"]), node("Add", ["h", "o"], ["y"])], ["y"], ["y"]),
    "its shape only": (
        [NOISE, node("Shape", ["n"], ["s"]), node("ConstantOfShape", ["s"], ["o"]), node("Add", ["h", "o"], ["y"])],
        ["y"], [],
    ),
    "one branch": (
        [node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Greater", ["sum", "zero"], ["g"]),
         node("If", ["g"], ["y"], then_branch=CLEAN, else_branch=NOISY)],
        ["y"], ["y"],
    ),
    "branches without": (
        [node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Greater", ["sum", "zero"], ["g"]),
         node("If", ["g"], ["y"], then_branch=CLEAN, else_branch=OTHER)],
        ["y"], [],
    ),
    "a branch by a coin": (
        [node("RandomUniform", [], ["r"], shape=[1]), node("Greater", ["r", "half"], ["g"]),
         node("If", ["g"], ["y"], then_branch=CLEAN, else_branch=OTHER)],
        ["y"], ["y"],
    ),
    # y takes its value from b one iteration later; z from d, which nothing random reaches.
    "rounds of a loop": ([node("Loop", ["three", "", "h", "h", "h"], ["y", "b", "z"], body=LOOP)], ["y", "z"], ["y"]),
    "rows of a scan": (
        [MEAN, node("Scan", ["s0", "h"], ["z", "y"], body=SCAN, num_scan_inputs=1)], ["y", "z"], ["y"]),
    "a function": ([node("Noise", ["h"], ["y"], domain="own")], ["y"], ["y"]),
}  # fmt: skip


NOT_REDRAWN = ("noise that cancels", "one branch")
"""Rows whose runs give the same numbers on these inputs, so that there are no samples to compare."""


@pytest.mark.parametrize("name", TABLE)
def test_an_error_is_not_hidden_by_noise(name: str) -> None:
    """With the right weight, and with one that is 5 % off: noisy outputs never pass, and others are judged by their
    numbers.
    """
    nodes, outputs, random = TABLE[name]
    functions = [BODY] if name == "a function" else []
    right, wrong = (network(nodes, outputs, w, functions) for w in (1.0, 1.05))
    report = convert.verify(right, right)
    assert report.verdict is not None
    assert {r.name: r.status for r in report.verdict.outputs} == {
        n: INCONCLUSIVE if n in random else PASS for n in outputs
    }
    assert report.verdict.status == (INCONCLUSIVE if random else PASS)
    for found in random:
        assert any(f"output {found!r} depends on random numbers" in note for note in report.notes)
    told = convert.verify(right, wrong).verdict
    assert told is not None
    # Samples are compared if no other output fails.
    drawn = INCONCLUSIVE if name in NOT_REDRAWN or set(outputs) - set(random) else FAIL
    assert {r.name: r.status for r in told.outputs} == {n: drawn if n in random else FAIL for n in outputs}
    assert told.status == (INCONCLUSIVE if name in NOT_REDRAWN else FAIL)


def test_noise_that_is_always_the_same_number_is_no_constant_output() -> None:
    """Next to a varying output, a constant one is a property of the model; a random one may differ the next time."""
    rare = [node("RandomUniformLike", ["h"], ["r"]), node("Greater", ["r", "one"], ["g"]),
            node("Cast", ["g"], ["y"], to=FLOAT), node("Neg", ["h"], ["z"])]  # fmt: skip
    model = network(rare, ["y", "z"])
    model.graph.initializer.append(numpy_helper.from_array(np.float32(2), "one"))
    verdict = convert.verify(model, model).verdict
    assert verdict is not None
    assert [r.status for r in verdict.outputs] == [INCONCLUSIVE, PASS]
    assert verdict.status == INCONCLUSIVE


def test_another_shape_of_a_random_output_is_a_failure() -> None:
    right = network([NOISE, SUM])
    wide = network([NOISE, node("Concat", ["h", "n"], ["y"], axis=1)])
    verdict = convert.verify(right, wide).verdict
    assert verdict is not None
    assert verdict.status == FAIL
    assert "8] where the source has [" in verdict.reason


def test_the_place_of_a_defect_is_not_the_noise() -> None:
    nodes = [NOISE, node("Add", ["h", "n"], ["y"], name="noise"), node("Softplus", ["h"], ["z"], name="culprit")]
    wrong = [*nodes[:2], node("Sigmoid", ["h"], ["z"])]
    verdict = convert.verify(network(nodes, ["y", "z"]), network(wrong, ["y", "z"])).verdict
    assert verdict is not None
    assert verdict.status == FAIL
    assert getattr(verdict.divergence, "node", verdict.divergence) == "culprit"


def test_noise_that_the_graph_does_not_show_is_told() -> None:
    """In this pair the target samples random numbers and its source does not."""
    verdict = convert.verify(network([node("Neg", ["h"], ["y"])]), network([NOISE, SUM])).verdict
    assert verdict is not None
    assert verdict.status == FAIL
    assert verdict.notes == ["the target gives other numbers for 'y' each time that it is run on the same inputs: "
                             "it draws some"]  # fmt: skip
    same = {"y": np.ones(3, np.float32), "i": np.arange(3)}
    assert describe_repeats(same, {n: a * (1 + 2**-20) for n, a in same.items() if n == "y"} | {"i": same["i"]}) == []


def test_seeds_are_said_to_be_of_one_generator() -> None:
    report = Report("verify")
    model = network([node("RandomNormalLike", ["h"], ["n"], seed=1.0), SUM])
    convert.verify(Source("onnx-object", model=model), model, report=report)
    assert "a seed in the source is one of its own generator" in report.notes[0]


def test_outputs_are_found_in_the_shared_graph() -> None:
    import onnx_ir as ir

    model = ir.serde.deserialize_model(network([NOISE, SUM], ["y"]))
    assert random_outputs(model) == {"y": "RandomNormalLike"}
