"""Sequences of Transposes and Reshapes: what they become, written out, and what is no such sequence."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from convert.graph import Graph
from convert.graph.model_names import ModelNames
from convert.passes.layout.assign import assign_layout
from convert.passes.layout.cancel import cancel_transposes
from convert.passes.layout.compose_transposes import compose_transposes
from convert.passes.layout.move_through_reshape import dim_groups, join_transposes
from convert.passes.tidy.clean import clean
from tests.support.layout_support import check, conv, image, nodes, weights

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64


def steps(model: ir.Model) -> list[list[int]]:
    """Return the permutation or target shape of each node, in order."""
    found = []
    for node in model.graph:
        if node.op_type == "Transpose":
            found.append(list(node.attributes.get_ints("perm") or ()))
        elif node.op_type == "Reshape":
            assert node.inputs[1] is not None
            assert node.inputs[1].const_value is not None
            found.append(node.inputs[1].const_value.numpy().tolist())
        else:
            found.append([node.op_type])  # type: ignore[list-item]
    return found


def row(shape: list[int | str], moves: list[list[int]]) -> Graph:
    """Return a sequence of permutations (of 0, 1 …) and shapes."""
    g = Graph()
    x = g.input("x", F, shape)
    for move in moves:
        x = g.Transpose(x, perm=move) if sorted(move) == list(range(len(move))) else g.Reshape(x, move)
    g.output(x, "y")
    return g


def assert_same(g: Graph, model: ir.Model, before: object, sizes: list[int]) -> None:
    x = np.arange(math.prod(sizes), dtype=np.float32).reshape(sizes)
    (want,), (got,) = (ReferenceEvaluator(m).run(None, {"x": x}) for m in (before, ir.to_proto(model)))  # type: ignore
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("shape", "moves", "left"),
    [
        ([2, 3, 4], [[0, 2, 1], [2, 1, 0]], [[2, 12], [1, 0], [3, 4, 2]]),
        ([2, 3, 4], [[0, 2, 1], [0, 2, 1]], [["Identity"]]),
        (["n", 6, 4], [[0, 2, 1], [0, 4, 2, 3], [0, 2, 3, 1]], [[0, 2, 3, 4]]),
        (["n", 4, 6], [[0, 2, 1], [0, 2, 3, 4], [0, 3, 2, 1]], [[-1, 2, 3], [0, 2, 1], [-1, 4, 3, 2]]),
        ([2, 3, 4, 5], [[2, 3, 0, 1], [20, 6], [1, 0]], [[6, 20]]),
        ([2, 3, 4, 5], [[2, 3, 0, 1], [20, 2, 3], [0, 2, 1]], [[2, 3, 20], [2, 1, 0]]),
        ([300, 2, 2], [[0, 2, 1], [300, 4], [1, 0]], [[2, 1, 0], [4, 300]]),
        (["n", "m", 4], [[1, 0, 2], [0, 2, 1]], [[1, 2, 0]]),
        ([2, 1, 3], [[1, 2, 0], [3, 2], [1, 0]], [[2, 3]]),
    ],
)
def test_a_row_becomes_one_transpose(shape: list[int | str], moves: list[list[int]], left: list[list[int]]) -> None:
    g = row(shape, moves)
    model = g.model()
    before = ir.to_proto(model)
    assert compose_transposes(model) is True
    clean(model)
    assert steps(model) == left
    assert_same(g, model, before, [{"n": 5, "m": 3}.get(d, d) for d in shape])  # type: ignore[arg-type]


def test_one_transpose_is_no_row() -> None:
    model = row([2, 6, 4], [[0, 2, 1], [2, 2, 2, 6]]).model()
    before = ir.to_proto(model)
    assert compose_transposes(model) is False
    assert ir.to_proto(model) == before


def test_a_transpose_that_gives_the_shape_is_not_of_the_row() -> None:
    g = Graph()
    shape = g.Transpose(g.Transpose(g.input("s", I64, [2]), perm=[0]), perm=[0])
    y = g.Transpose(g.Reshape(g.input("x", F, [2, 6]), shape), perm=[1, 0])
    g.output(g.facts(y, F, [4, 3]), "y")
    model = g.model()
    compose_transposes(model)
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    (got,) = ReferenceEvaluator(ir.to_proto(model)).run(None, {"x": x, "s": np.array([3, 4])})
    np.testing.assert_array_equal(got, x.reshape(3, 4).T)


def test_other_domains_are_not_of_the_row() -> None:
    g = row([2, 3, 4], [[0, 2, 1], [0, 2, 1]])
    list(g.graph)[1].domain = "mine"
    model = g.model()
    assert compose_transposes(model) is False
    assert cancel_transposes(model.graph, ModelNames(model.graph)) is False
    assert [n.op_type for n in model.graph] == ["Transpose", "Transpose"]


def test_an_output_that_is_listed_twice_is_so_afterwards() -> None:
    g = row([2, 3, 4], [[0, 2, 1], [0, 2, 1]])
    first = next(iter(g.graph))
    first.replace_input_with(0, g.Neg(first.inputs[0]))
    g.graph.sort()
    model = g.model()
    model.graph.outputs.append(model.graph.outputs[0])
    name = model.graph.outputs[0].name
    assert cancel_transposes(model.graph, ModelNames(model.graph)) is True
    assert [n.op_type for n in model.graph] == ["Neg"]
    assert [v.name for v in model.graph.outputs] == [name, name]


def test_a_row_ends_where_a_branch_begins() -> None:
    g = Graph()
    x = g.Transpose(g.input("x", F, [2, 3, 4]), perm=[0, 2, 1])
    then, other = g.body("then"), g.body("other")
    then.output(then.Transpose(x, perm=[0, 2, 1]), "a")
    other.output(other.Identity(weights(2, 3, 4)), "b")
    g.output(g.facts(g.If(g.input("cond", ir.DataType.BOOL, []), then_branch=then, else_branch=other), F), "y")
    model = g.model()
    assert compose_transposes(model) is False


def test_a_chain_reads_as_far_up_as_nobody_else_does() -> None:
    """In the chain x, a, b, c, c undoes b and equals a; d equals a too."""
    g = Graph()
    x = g.input("x", F, [2, 3, 4, 5])
    a = g.Transpose(x, perm=[0, 2, 3, 1])
    b = g.Transpose(a, perm=[0, 2, 3, 1])
    c = g.Transpose(b, perm=[0, 3, 1, 2])
    d = g.Transpose(x, perm=[0, 2, 3, 1])
    for name, value in (("p", g.Relu(a)), ("q", g.Neg(c)), ("r", g.Exp(d))):
        g.output(value, name)
    model = g.model()
    assert cancel_transposes(model.graph, ModelNames(model.graph)) is True
    assert [n.attributes.get_ints("perm") for n in nodes(model, "Transpose")] == [(0, 2, 3, 1)]
    made = nodes(model, "Transpose")[0].outputs[0]
    assert {use.node.op_type for use in made.uses()} == {"Relu", "Neg", "Exp"}
    assert cancel_transposes(model.graph, ModelNames(model.graph)) is False


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_where_the_running_products_meet(seed: int) -> None:
    """For static dims above one, groups end exactly where the running products of both sides are equal."""
    draw = np.random.default_rng(seed)
    factors = [int(n) for n in draw.choice([2, 3, 5, 257], draw.integers(1, 7))]

    def regroup() -> list[int]:
        shape = [1]
        for factor in factors:
            if draw.random() < 0.5 and shape[-1] > 1:
                shape.append(factor)
            else:
                shape[-1] *= factor
        return shape

    before, after = regroup(), regroup()
    ends = [np.cumprod(side).tolist() for side in (before, after)]
    common = [0, *(n for n in ends[0] if n in ends[1])]
    expected = [
        tuple(tuple(i for i, n in enumerate(side) if low < n <= high) for side in ends)
        for low, high in pairwise(common)
    ]
    assert dim_groups(before, after) == expected
    named = dim_groups(["n", *before], ["n", *after])
    assert named == [((0,), (0,)), *(tuple(tuple(i + 1 for i in part) for part in g) for g in expected)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((4,), (4, 1)),
        ((4, 6), (4, 5)),
        ((4, 6), (24, 2)),
        (("n", 4), ("m", 5)),
        (("n", 4), ("m", 8)),
        (("n", 8), ("m", 4)),
        ((None,), (None, None)),
        ((0, 4), (2, 0)),
    ],
)
def test_groups_that_are_not_known(before: tuple, after: tuple) -> None:
    assert dim_groups(before, after) is None


def test_dims_of_one_element_go_with_their_neighbors() -> None:
    assert dim_groups((4,), (1, 4)) == [((0,), (0, 1))]
    assert dim_groups((3, 4), (3, 1, 4)) == [((0,), (0,)), ((1,), (1, 2))]
    assert dim_groups((1, 4), (4,)) == [((0, 1), (0,))]


def test_a_batch_of_another_name_is_the_same_where_all_else_is() -> None:
    assert dim_groups((None, 6), ("n", 2, 3)) == [((0,), (0,)), ((1,), (1, 2))]
    assert dim_groups(("n", 6), (None, 6)) == [((0,), (0,)), ((1,), (1,))]


@pytest.mark.parametrize("others", ["an output", "two readers", "no reader"])
def test_what_is_read_elsewhere_is_not_joined(others: str) -> None:
    g = Graph()
    a = g.Transpose(g.input("x", F, [2, 3, 4]), perm=[0, 2, 1])
    b = g.Reshape(a, [2, 2, 2, 3])
    if others != "no reader":
        g.output(g.Transpose(b, perm=[0, 3, 1, 2]), "y")
    g.output(g.Relu(a if others != "two readers" else b), "z")
    if others == "an output":
        g.output(b, "b")
    model = g.model()
    assert join_transposes(model) is False


def test_a_branch_may_give_what_is_moved_outside() -> None:
    g = Graph()
    y = g.Relu(conv(g, image(g, 2, 4, 6, 6), 4))
    then, other = g.body("then"), g.body("other")
    then.output(y, "a")
    other.output(other.Neg(y), "b")
    z = g.If(g.input("cond", ir.DataType.BOOL, []), then_branch=then, else_branch=other)
    g.output(g.facts(z, F, [2, 4, 6, 6]), "z")
    g.output(g.MaxPool(conv(g, y, 4), kernel_shape=[2, 2]), "y")
    model = g.model()
    assign_layout(model, sensitive="channels_last")
    given = next(n for n in model.graph if n.op_type == "If").attributes["then_branch"].as_graph().outputs[0]
    assert given.shape is not None
    assert list(given.shape) == [2, 4, 6, 6]


def test_a_product_of_lower_rank_is_no_convolution() -> None:
    """The matrix is on the right, and one operand has two ranks less: a broadcast operand is no image."""
    g = Graph()
    x = conv(g, image(g, 2, 6, 5, 5), 6)
    g.output(conv(g, g.Add(x, g.MatMul(g.input("t", F, [5, 6]), weights(6, 5))), 4), "y")
    check(g, {})
