"""Values that depend on random numbers through branches, loops, scans and functions, and their comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.outcome.verdict import FAIL, INCONCLUSIVE
from convert.parity.compare.randomness import describe_randomness, describe_repeats, judge_random, random_outputs

F = ir.DataType.FLOAT


def node(operator: str, *inputs: ir.Value | None, outputs: int = 1, **attributes: Any) -> ir.Node:
    made = [a if isinstance(a, ir.Attr) else ir.convenience.convert_attribute(n, a) for n, a in attributes.items()]
    return ir.Node("", operator, list(inputs), made, num_outputs=outputs)


def noise(*inputs: ir.Value) -> ir.Node:
    return node("RandomNormalLike", *inputs)


def body(inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], *nodes: ir.Node) -> ir.Graph:
    return ir.Graph(list(inputs), list(outputs), nodes=list(nodes))


def found(nodes: Sequence[ir.Node], outputs: Sequence[ir.Value], **functions: ir.Function) -> list[bool]:
    """Return whether each output depends on random numbers."""
    for i, value in enumerate(outputs):
        value.name = f"o{i}"
    graph = ir.Graph([], list(outputs), nodes=list(nodes), opset_imports={"": 23})
    model = ir.Model(graph, ir_version=10, functions=list(functions.values()))
    told = random_outputs(model)
    assert {text.partition(",")[0] for text in told.values()} <= {"RandomNormalLike", "Bernoulli"}
    return [v.name in told for v in outputs]


X = ir.Value(name="x", type=ir.TensorType(F), shape=ir.Shape(["n", 4]))
CONDITION = ir.Value(name="c")


def test_what_is_computed_from_noise_is_noise_and_its_shape_is_not() -> None:
    n = noise(X)
    made = [node("Add", X, n.outputs[0]), node("Shape", n.outputs[0]), node("Size", n.outputs[0]), node("Neg", X)]
    assert found([n, *made], [m.outputs[0] for m in made]) == [True, False, False, False]
    n = noise(X)
    both = node("Split", n.outputs[0], outputs=2)
    assert found([n, both], both.outputs) == [True, True]


def test_of_an_if_each_output_is_its_own_in_either_branch() -> None:
    one, two, three = noise(X), node("Neg", X), node("Abs", X)
    left = body([], [one.outputs[0], two.outputs[0], three.outputs[0]], one, two, three)
    four, five, six = node("Exp", X), noise(X), node("Tanh", X)
    right = body([], [four.outputs[0], five.outputs[0], six.outputs[0]], four, five, six)
    made = node("If", CONDITION, outputs=3, then_branch=ir.AttrGraph("then_branch", left),
                else_branch=ir.AttrGraph("else_branch", right))  # fmt: skip
    assert found([made], made.outputs) == [True, True, False]


def test_a_random_condition_makes_all_of_an_if_random() -> None:
    draw = node("Bernoulli", X)
    one, two = node("Neg", X), node("Abs", X)
    made = node("If", draw.outputs[0], then_branch=ir.AttrGraph("then_branch", body([], one.outputs, one)),
                else_branch=ir.AttrGraph("else_branch", body([], two.outputs, two)))  # fmt: skip
    assert found([draw, made], made.outputs) == [True]


def loop(carried: int, inner: Any, initial: Sequence[ir.Value], *, count: ir.Value | None = None) -> ir.Node:
    """Return a loop whose body `inner` computes the condition, the next carried values, and what is collected."""
    inputs = [ir.Value(name=f"i{n}") for n in range(2 + carried)]
    nodes, outputs = inner(*inputs)
    return node("Loop", count, None, *initial, outputs=len(outputs) - 1,
                body=ir.AttrGraph("body", body(inputs, outputs, *nodes)))  # fmt: skip


def test_noise_goes_round_a_loop_until_nothing_is_added() -> None:
    """a takes b's value of the previous iteration, b takes c's, and c is noise; d is independent of them."""

    def inner(i: ir.Value, c: ir.Value, a: ir.Value, b: ir.Value, last: ir.Value, d: ir.Value) -> Any:
        nodes = [node("Identity", v) for v in (c, b, last, d, a)]
        n = noise(last)
        going, a_next, b_next, d_next, a_told = (m.outputs[0] for m in nodes)
        return [*nodes, n], [going, a_next, b_next, n.outputs[0], d_next, a_told, nodes[3].outputs[0]]

    made = loop(4, inner, [X, X, X, X])
    assert found([made], made.outputs) == [True, True, True, False, True, False]


def test_what_a_loop_starts_with_counts_and_how_often_it_runs() -> None:
    def inner(i: ir.Value, c: ir.Value, a: ir.Value, b: ir.Value) -> Any:
        nodes = [node("Identity", c), node("Neg", X), node("Abs", X), node("Sin", a), node("Cos", b)]
        return nodes, [m.outputs[0] for m in nodes]

    n = noise(X)
    made = loop(2, inner, [n.outputs[0], X])
    assert found([n, made], made.outputs) == [True, False, True, False]  # without an iteration this is the noise
    n = noise(X)
    made = loop(2, inner, [X, X], count=n.outputs[0])
    assert found([n, made], made.outputs) == [True] * 4

    def until(i: ir.Value, c: ir.Value, a: ir.Value) -> Any:
        drawn, kept = noise(X), node("Neg", X)
        return [drawn, kept], [drawn.outputs[0], kept.outputs[0]]

    made = loop(1, until, [X])
    assert found([made], made.outputs) == [True]


@pytest.mark.parametrize(
    ("place", "random"), [(0, [True, True, False]), (1, [False, True, False]), (None, [False] * 3)]
)
def test_of_a_scan_states_and_elements_are_told_apart(place: int | None, random: list[bool]) -> None:
    """The state is passed on and added to the collected value; so is one element that is read, and the other is not."""
    state, one, two = (ir.Value(name=n) for n in ("state", "one", "two"))
    kept, both, other = node("Neg", state), node("Add", state, one), node("Abs", two)
    inner = body([state, one, two], [m.outputs[0] for m in (kept, both, other)], kept, both, other)
    n = noise(X)
    given = [n.outputs[0] if place == i else X for i in range(3)]
    made = node("Scan", *given, outputs=3, body=ir.AttrGraph("body", inner), num_scan_inputs=2)
    assert found([n, made], made.outputs) == random


def test_functions_that_draw_do_so_wherever_they_are_called() -> None:
    def function(name: str, inner: ir.Node) -> ir.Function:
        a = inner.inputs[0]
        assert a is not None
        graph = ir.Graph([a], inner.outputs, nodes=[inner], opset_imports={"": 23})
        return ir.Function("mine", name, graph=graph, attributes=[])

    functions = {"NoisyRuns": function("NoisyRuns", noise(ir.Value(name="a"))),
                 "Keeps": function("Keeps", node("Neg", ir.Value(name="b")))}  # fmt: skip
    calls = [ir.Node("mine", "NoisyRuns", [X]), ir.Node("mine", "Keeps", [X])]
    assert found(calls, [c.outputs[0] for c in calls], **functions) == [True, False]


def test_a_value_of_the_outside_in_a_body_of_an_unheard_operator_counts() -> None:
    n = noise(X)
    inner = node("Neg", n.outputs[0])
    made = node("SequenceMap", X, body=ir.AttrGraph("body", body([], inner.outputs, inner)))
    assert found([n, made], made.outputs) == [True]


def random_graph() -> ir.Model:
    g = Graph()
    x = g.input("x", F, ["n", 4])
    n = g.RandomNormalLike(x)
    g.output(g.facts(g.Add(x, n), F, ["n", "m", 4]), "y")
    g.output(g.Neg(x), "z")
    return g.model()


@pytest.mark.parametrize(
    ("shape", "dtype", "reason"),
    [
        ((2, 3, 4), np.float32, ""),
        ((2, 5, 4), np.float32, ""),  # m is computed, and may depend on random numbers
        ((3, 3, 4), np.float32, "shape [3, 3, 4] where the source has [2, 3, 4]"),
        ((2, 3, 5), np.float32, "shape [2, 3, 5] where"),
        ((2, 3), np.float32, "shape [2, 3] where"),
        ((2, 3, 4, 1), np.float32, "shape [2, 3, 4, 1] where"),
        ((2, 3, 4), np.float64, "dtype float64 where the source has float32"),
    ],
)
def test_of_a_random_output_what_is_fixed_counts(shape: tuple[int, ...], dtype: type, reason: str) -> None:
    sources = [np.zeros((2, 3, 4), np.float32)] * 2
    row = judge_random(random_graph(), "y", "Random", sources, [sources[0], np.ones(shape, dtype)])
    assert row.status == (FAIL if reason else INCONCLUSIVE)
    why = "it depends on random numbers (Random), which source and target draw each for itself"
    assert row.reason.startswith(reason or why)


def test_random_outputs_are_named_in_a_sentence() -> None:
    (told,) = describe_randomness(random_graph())
    assert told.startswith("output 'y' depends on random numbers (RandomNormalLike)")
    assert told.endswith("which every runtime draws for itself: it is not compared")
    model = random_graph()
    model.graph.node(0).attributes["seed"] = ir.AttrFloat32("seed", 1.0)
    assert "a seed in the source is one of its own generator" in describe_randomness(model)[0]


@pytest.mark.parametrize(
    ("second", "moves"),
    [
        ([1.0, 2.0], False),
        ([1.0001, 2.0], False),
        ([1.001, 2.0], True),
        ([np.nan, 2.0], False),
        ([np.inf, 2.1], True),
        ([1.0], True),
    ],
)
def test_two_runs_on_the_same_inputs(second: list[float], moves: bool) -> None:
    first = {"a": np.array([1.0, 2.0], np.float32), "b": np.arange(3)}
    other = {"a": np.array(second, np.float32), "b": np.arange(3)}
    assert len(describe_repeats(first, other)) == moves
    assert describe_repeats(first, other, known=[0]) == []
    (told,) = describe_repeats(first, {"a": first["a"], "b": np.arange(1, 4)}, known=[0])
    assert told.startswith("other numbers for 'b'")


def test_nothing_hides_what_comes_after_it() -> None:
    """After a random operator, a function that samples, a shape and an If, each further random operator is found."""
    drawing = noise(x := ir.Value(name="i"))
    function = ir.Function("", "Drawing", graph=body([x], drawing.outputs, drawing), attributes=[])
    one, two = node("Neg", X), node("Abs", X)
    chosen = node("If", CONDITION, then_branch=ir.AttrGraph("then_branch", body([], one.outputs, one)),
                  else_branch=ir.AttrGraph("else_branch", body([], two.outputs, two)))  # fmt: skip
    before = [noise(X), node("Drawing", X), node("Shape", X), chosen, node("Tanh", X)]
    nodes = [n for each in before for n in (each, noise(X))]
    wanted = [n.op_type in ("RandomNormalLike", "Drawing") for n in nodes]
    assert found(nodes, [n.outputs[0] for n in nodes], Drawing=function) == wanted
