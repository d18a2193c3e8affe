"""What the matcher takes for the same value, the same number and the same axes."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.written_numbers import record_written_numbers
from convert.patterns.expressions import Tensor, op
from convert.patterns.layers import find_layers
from convert.patterns.matcher import match
from tests.support.onnx_support import run_ort

FLOAT = ir.DataType.FLOAT


def operators(g: Graph, y: ir.Value) -> list[str]:
    """Return the operators of a graph with the output `y` once its layers are found."""
    g.output(y, "y")
    model = g.model()
    record_written_numbers(model.graph.initializers.values())
    find_layers(model)
    return [node.op_type for node in model.graph]


def gelu(g: Graph, x: ir.Value, z: ir.Value) -> ir.Value:
    """Return Gelu by erf if `x` and `z` are one."""
    return g.Mul(g.Mul(0.5, x), g.Add(1.0, g.Erf(g.Mul(z, math.sqrt(0.5)))))


def test_a_value_that_is_computed_twice_is_one() -> None:
    g = Graph()
    x = g.input("x", FLOAT, (3,))
    assert operators(g, gelu(g, g.Neg(x), g.Neg(x))) == ["Neg", "Gelu"]


def test_two_samples_are_not_one() -> None:
    g = Graph()
    samples = [g.RandomNormal(shape=[3]) for _ in range(2)]
    assert "Gelu" not in operators(g, gelu(g, *samples))


def test_a_mean_that_is_broadcast_along_other_axes_is_no_layer_norm() -> None:
    g = Graph()
    x = g.input("x", FLOAT, (4, 4))
    centered = g.Sub(x, g.ReduceMean(x, [-1], keepdims=0))
    variance = g.ReduceMean(g.Mul(centered, centered), [-1], keepdims=0)
    assert "LayerNormalization" not in operators(g, g.Div(centered, g.Sqrt(g.Add(variance, 1e-5))))


@pytest.mark.parametrize("between", ["Unsqueeze", "keepdims"])
def test_axes_may_be_inserted_later(between: str) -> None:
    g = Graph()
    x = g.input("x", FLOAT, ("batch", 4))
    kept = int(between == "keepdims")

    def mean(value: ir.Value) -> ir.Value:
        return g.ReduceMean(value, [-1], keepdims=kept)

    def again(value: ir.Value) -> ir.Value:
        return value if kept else g.Unsqueeze(value, [1])

    centered = g.Sub(x, again(mean(x)))
    deviation = again(g.Sqrt(g.Add(mean(g.Mul(centered, centered)), 1e-5)))
    assert operators(g, g.Div(centered, deviation)) == ["LayerNormalization"]


def test_parts_that_something_else_reads_stay() -> None:
    g = Graph()
    x = g.input("x", FLOAT, (3,))
    curve = g.Erf(g.Mul(x, math.sqrt(0.5)))
    g.output(curve, "curve")
    y = g.Mul(g.Mul(0.5, x), g.Add(1.0, curve))
    assert operators(g, y) == ["Mul", "Erf", "Gelu"]


def test_every_grouping_of_a_product_is_read() -> None:
    a, b, c = (Tensor(name) for name in "abc")
    expression = 6 * a * op("Exp", b) / op("Sqrt", c)
    for build in (
        lambda g, x, e, s: g.Div(g.Mul(g.Mul(2.0, x), g.Mul(e, 3.0)), s),
        lambda g, x, e, s: g.Mul(g.Div(e, s), g.Mul(x, 6.0)),
        lambda g, x, e, s: g.Neg(g.Mul(g.Reciprocal(s), g.Mul(g.Mul(e, x), -6.0))),
    ):
        g = Graph()
        x, y, z = (g.input(name, FLOAT, (3,)) for name in "xyz")
        (found,) = match(expression, build(g, x, g.Exp(y), g.Sqrt(z)), {"dtype": FLOAT})
        assert (found["a"], found["b"], found["c"]) == (x, y, z)


def test_time_is_linear_in_nodes() -> None:
    """A chain in which every node could end a layer: the number of nodes that are looked at grows as the chain."""

    def looked_at(length: int) -> int:
        g = Graph()
        x = g.input("x", FLOAT, (3,))
        y = g.Add(g.Erf(x), g.Exp(g.Sqrt(g.ReduceMean(x, [0]))))
        for _ in range(length):
            y = g.Add(g.Mul(y, x), np.float32(0.5))
        count = 0
        producer = ir.Value.producer

        def counted(value: ir.Value) -> ir.Node | None:
            nonlocal count
            count += 1
            return producer(value)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ir.Value, "producer", counted)
            operators(g, y)
        return count

    short, middle, long = (looked_at(n) for n in (50, 100, 200))
    assert long - middle <= 2.1 * (middle - short)


NUMBERS = (
    0.0,
    0.5,
    1.0,
    -1.0,
    2.0,
    3.0,
    6.0,
    0.044715,
    math.sqrt(0.5),
    math.sqrt(2 / math.pi),
    1e-5,
    math.inf,
    math.nan,
)


def random_graph(seed: int) -> Graph:
    """Return a graph of operators that occur in layers, over values that are used again and odd constants."""
    rng, g = np.random.default_rng(seed), Graph()
    values = [g.input("x", FLOAT, (2, 3, 4))]
    for _ in range(rng.integers(4, 14)):
        x = values[rng.integers(max(len(values) - 3, 0), len(values))]
        y = values[rng.integers(len(values))] if rng.random() < 0.5 else np.float32(rng.choice(NUMBERS))
        two = rng.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"])
        one = rng.choice(["Sqrt", "Exp", "Erf", "Tanh", "Neg", "Reciprocal", "Relu", "Sigmoid", "Log"])
        made = [
            lambda x=x, y=y, two=two: g.node(two, [x, y], {}),
            lambda x=x, y=y, two=two: g.node(two, [y, x], {}),
            lambda x=x, one=one: g.node(one, [x], {}),
            lambda x=x: g.ReduceMean(x, [int(rng.choice([-1, 0, 1]))], keepdims=1),
            lambda x=x: g.ReduceSum(x, [-1], keepdims=1),
            lambda x=x: g.Sub(x, g.ReduceMax(x, [-1], keepdims=1)),
            lambda x=x, y=y: g.Where(g.Greater(x, np.float32(0)), x, y),
        ]
        values.append(made[rng.choice(len(made), p=[0.3, 0.15, 0.25, 0.1, 0.05, 0.05, 0.1])]())
    g.output(values[-1], "y")
    return g


@pytest.mark.parametrize("seed", range(60))
def test_a_graph_of_any_operators_computes_the_same_afterwards(seed: int) -> None:
    x = np.random.default_rng(seed).uniform(0.1, 2, (2, 3, 4)).astype(np.float32)
    model = random_graph(seed).model()
    (before,) = run_ort(ir.to_proto(model), {"x": x})
    record_written_numbers(model.graph.initializers.values())
    find_layers(model)
    (after,) = run_ort(ir.to_proto(model), {"x": x})
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-4 * np.abs(before[np.isfinite(before)]).max(initial=0))
