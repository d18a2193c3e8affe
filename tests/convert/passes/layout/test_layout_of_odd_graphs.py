"""The layout pass on graphs that the builder does not produce: unknown shapes, missing inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.model_names import ModelNames
from convert.passes.layout.assign import assign_layout, build_problem
from convert.passes.layout.boundary import permute_boundary
from convert.passes.layout.cancel import cancel_transposes
from convert.passes.layout.compose_transposes import compose_transposes
from convert.passes.layout.dense import CHANNELS_FIRST, DENSE, lower_channels_first
from convert.passes.layout.min_cut import AS_IS, Term
from convert.passes.layout.model import Side, channels_first, channels_last
from convert.passes.layout.move_through_reshape import join_transposes
from convert.passes.layout.reshape_rules import flatten, reshape, shape
from convert.passes.layout.rules import elementwise
from convert.passes.layout.table import AGNOSTIC
from tests.support.layout_support import check, conv, image, nodes, run, weights

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64
Dims = Sequence[int | str | None]


def maker(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None
    return node


def test_a_transpose_of_a_constant_has_no_price() -> None:
    g = Graph()
    turned = g.Transpose(g.initializer("w", ir.Tensor(weights(2, 3, 4, 5))), perm=[0, 2, 3, 1])
    turned.const_value = None
    g.output(g.Relu(turned), "y")
    assert build_problem(g.model().graph, channels_last, AGNOSTIC, False).terms == [
        Term(3, (4,), 480),
        Term(4, (AS_IS,), 480),
    ]


def test_what_is_known_of_a_moved_value_moves_with_it() -> None:
    """A convolution of a constant with known content."""
    g = Graph()
    y = conv(g, g.initializer("w", ir.Tensor(weights(2, 3, 4, 5))), 6)
    content = np.arange(240, dtype=np.float32).reshape(2, 6, 4, 5)
    y.const_value = ir.Tensor(content)
    g.output(g.Relu(y), "y")
    model = g.model()
    assert assign_layout(model, sensitive="channels_last")
    assert y.shape == ir.Shape([2, 4, 5, 6])
    assert y.const_value is not None
    np.testing.assert_array_equal(y.const_value.numpy(), content.transpose(0, 2, 3, 1))


def test_a_branch_that_gives_a_value_of_the_graph_around_gives_it_as_is() -> None:
    g = Graph()
    y = conv(g, image(g, 2, 4, 6, 6), 4)
    then, other = g.body("then"), g.body("other")
    then.graph.outputs.append(y)
    other.output(other.Neg(y), "b")
    z = g.facts(g.If(g.input("cond", ir.DataType.BOOL, []), then_branch=then, else_branch=other), F, [2, 4, 6, 6])
    g.output(z, "z")
    g.output(conv(g, y, 4), "y")
    assign_layout(g.model(), sensitive="channels_last")
    (given,) = then.graph.outputs
    assert given is not y
    assert (list(y.shape or ()), list(given.shape or ())) == ([2, 6, 6, 4], [2, 4, 6, 6])
    assert maker(given).attributes.get_ints("perm") == (0, 3, 1, 2)


@pytest.mark.parametrize("plane", [(4,), (4, 5), (4, 5, 3)])
def test_a_norm_with_outputs_that_nobody_reads_gives_its_first(plane: tuple[int, ...]) -> None:
    g = Graph()
    x = g.input("x", F, [2, 6, *plane])
    y, *_ = g.LayerNormalization(x, 1 + weights(6), weights(6), axis=-1, outputs=3)
    g.facts(y, F, [2, 6, *plane])
    g.output(g.Relu(y), "z")
    model = g.model()
    maker(y).domain = CHANNELS_FIRST
    lower_channels_first(model, ModelNames(model.graph))
    assert not any(n.domain for n in model.graph)
    assert not nodes(model, "LayerNormalization")
    a = np.random.default_rng(0).standard_normal((2, 6, *plane)).astype(np.float32)
    (got,) = run(ir.to_proto(model), {"x": a}).values()
    normal = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)
    scale, bias = (w.reshape(6, *[1] * len(plane)) for w in (1 + weights(6), weights(6)))
    np.testing.assert_allclose(got, np.maximum(normal * scale + bias, 0), atol=1e-5)


@pytest.mark.parametrize("plane", [(4,), (4, 5), (4, 5, 3)])
@pytest.mark.parametrize("bias", [False, True])
def test_a_product_over_the_channels_is_a_convolution(plane: tuple[int, ...], bias: bool) -> None:
    g = Graph()
    x = g.input("x", F, [2, *plane, 6])
    y = g.facts(g.MatMul(x, weights(6, 3)), F, [2, 3, *plane])
    x.shape = ir.Shape([2, 6, *plane])
    maker(y).domain = CHANNELS_FIRST
    added = weights(3).reshape(3, *[1] * len(plane))
    g.output(g.Relu(g.Add(y, added)) if bias else g.Relu(y), "z")
    model = g.model()
    lower_channels_first(model, ModelNames(model.graph))
    assert [n.op_type for n in model.graph] == ["Conv", "Relu"]
    a = np.random.default_rng(0).standard_normal((2, 6, *plane)).astype(np.float32)
    (got,) = run(ir.to_proto(model), {"x": a}).values()
    want = np.einsum("nc...,cd->nd...", a, weights(6, 3)) + (added if bias else 0)
    np.testing.assert_allclose(got, np.maximum(want, 0), atol=1e-5)


def test_an_input_that_is_lacking_has_no_say() -> None:
    g = Graph()
    node = maker(g.Clip(image(g, 2, 6, 4, 5), None, np.float32(1)))
    assert elementwise(node, channels_last).inputs == (Side.FREE, Side.ANY, Side.ANY)  # type: ignore[union-attr]


def test_an_input_of_one_element_has_no_say_with_any_rank() -> None:
    g = Graph()
    for ones in ([], [1], [1, 1, 1, 1]):
        node = maker(g.Mul(image(g, 2, 6, 4, 5), g.input(f"one{len(ones)}", F, ones)))
        assert elementwise(node, channels_last).inputs == (Side.FREE, Side.ANY)  # type: ignore[union-attr]


def test_what_has_no_known_rank_has_no_form() -> None:
    g = Graph()
    x = g.input("x", F, None)
    assert flatten(maker(g.Flatten(x)), channels_last) is None
    assert flatten(maker(g.Flatten(g.input("m", F, [1, 6]))), channels_last) is None
    assert shape(maker(g.Shape(x)), channels_last) is None


@pytest.mark.parametrize(
    ("source", "target", "has_form"),
    [
        ([2, 6, 4, 5], [2, 6, 20], True),
        ([0, 6, 4, 5], ["n", 6, 20], False),
        ([0, 6, 4, 5], [0, 6, 20], False),
        (["n", 6, 4, 5], [0, 6, 20], False),
        (None, [2, 6, 20], False),
        ([2, 6, 4, 5], None, False),
        ([120], [2, 60], False),
    ],
)
def test_a_reshape_of_nothing_or_of_unknown_rank_stays(
    source: Dims | None, target: Dims | None, has_form: bool
) -> None:
    g = Graph()
    y = g.Reshape(g.input("x", F, source), np.array([-1, 6, 20]))
    y.shape = None if target is None else ir.Shape(list(target))
    assert (reshape(maker(y), channels_last) is not None) == has_form


def moved(shapes: Sequence[Dims | None], perms: Sequence[Sequence[int] | None]) -> ir.Model:
    """Return an input, then a Transpose for each permutation and a Reshape for each None, with these shapes in
    order.
    """
    g = Graph()
    x = g.input("x", F, shapes[0])
    for perm, dims in zip(perms, shapes[1:], strict=True):
        x = g.Reshape(x, g.input(g.unique("s"), I64, [None])) if perm is None else g.Transpose(x, perm=perm)
        x.shape = None if dims is None else ir.Shape(list(dims))
    g.output(x, "y")
    return g.model()


@pytest.mark.parametrize(
    ("shapes", "perms"),
    [
        # With two unknown dims, neither is copied from the position that it has after the single transpose.
        ([("n", "m", "k", "l"), ("m", "n", "k", "l"), (None, "k", "l"), ("k", None, "l")],
         [(1, 0, 2, 3), None, (1, 0, 2)]),
        ([None, ("m", "n"), ("n", "m")], [(1, 0), (1, 0)]),
        ([(2, 3), None, (2, 3)], [(1, 0), (1, 0)]),
        ([(2, 3), (3, 2), None], [(1, 0), (1, 0)]),
    ],
)  # fmt: skip
def test_a_row_of_unknown_dims_stays(shapes: Sequence[Dims | None], perms: Sequence[Sequence[int] | None]) -> None:
    model = moved(shapes, perms)
    before = list(model.graph)
    assert compose_transposes(model) is False
    assert list(model.graph) == before


@pytest.mark.parametrize(
    ("shapes", "perms"),
    [
        # Split: the channels become two dims; a Reshape before the transpose could not express two of three names.
        ([("n", 6, "h", "w"), ("n", "h", "w", 6), ("n", "h", "w", 2, 3), ("n", 2, "h", "w", 3)],
         [(0, 2, 3, 1), None, (0, 3, 1, 2, 4)]),
        # Merged dims: the same test in the opposite direction.
        ([("n", 2, "h", "w", 3), ("n", "h", "w", 2, 3), ("n", "h", "w", 6), ("n", 6, "h", "w")],
         [(0, 2, 3, 1, 4), None, (0, 3, 1, 2)]),
        # Split on one side, merged on the other.
        ([(6, 4, 3), (4, 6, 3), (4, 2, 9), (4, 9, 2)], [(1, 0, 2), None, (0, 2, 1)]),
        ([(2, 6), (6, 2), (3, 2, 2), (2, 3, 2)], [(1, 0), (0, 1), None]),
        ([(6, 2), (3, 2, 2), (2, 3, 2), (2, 2, 3)], [None, (1, 0, 2), (0, 2, 1)]),
    ],
)  # fmt: skip
def test_a_reshape_between_transposes_stays_where_it_cannot_be_told(
    shapes: Sequence[Dims | None], perms: Sequence[Sequence[int] | None]
) -> None:
    model = moved(shapes, perms)
    before = [(n, n.attributes.get_ints("perm"), list(n.inputs)) for n in model.graph]
    assert join_transposes(model) is False
    assert [(n, n.attributes.get_ints("perm"), list(n.inputs)) for n in model.graph] == before


@pytest.mark.parametrize("lacking", range(4))
def test_a_reshape_between_transposes_stays_where_a_rank_is_not_known(lacking: int) -> None:
    shapes: list[Dims | None] = [("n", 6, 4), ("n", 4, 6), ("n", 4, 2, 3), ("n", 2, 4, 3)]
    model = moved(shapes, [(0, 2, 1), None, (0, 2, 1, 3)])
    assert join_transposes(model) is True
    shapes[lacking] = None
    model = moved(shapes, [(0, 2, 1), None, (0, 2, 1, 3)])
    assert join_transposes(model) is (lacking == 3), "what the last one gives is not asked"


def test_only_the_neighbors_of_a_reshape_are_joined() -> None:
    """Other operators before and after it, none at all, and readers of the values in between."""

    def built(first: str, last: str, more: str) -> ir.Model:
        g = Graph()
        x = g.input("x", F, ["n", 6, 4])
        a = g.Transpose(x, perm=[0, 2, 1]) if first == "Transpose" else getattr(g, first)(x) if first else x
        b = g.facts(g.Reshape(a, [-1, *([4, 2, 3] if first == "Transpose" else [6, 2, 2])]), F,
                    ["n", *([4, 2, 3] if first == "Transpose" else [6, 2, 2])])  # fmt: skip
        c = g.Transpose(b, perm=[0, 2, 1, 3]) if last == "Transpose" else getattr(g, last)(b) if last else b
        g.output(c, "y")
        if more:
            g.output(g.Neg({"before": a, "after": b}[more[:-1]]) if more[-1] == "!" else {"a": a, "b": b}[more], "z")
        return g.model()

    plain = ("Transpose", "Transpose", "")
    assert join_transposes(built(*plain))
    for first, last, more in [("Relu", "Transpose", ""), ("Transpose", "Relu", ""), ("", "Transpose", ""),
                              ("Transpose", "", ""), *(("Transpose", "Transpose", m) for m in
                              ("a", "b", "before!", "after!"))]:  # fmt: skip
        assert not join_transposes(built(first, last, more)), (first, last, more)


def test_the_boundary_of_a_graph_whose_input_nobody_reads() -> None:
    g = Graph()
    x = g.input("x", F, ["n", 3, 4, 5])
    g.output(g.Relu(g.input("z", F, [2, 3])), "y")
    model = g.model()
    assert permute_boundary(model, "nhwc") == {"x": (0, 2, 3, 1)}
    assert [str(d) for d in x.shape or ()] == ["n", "4", "5", "3"]
    assert [n.op_type for n in model.graph] == ["Relu"]


def test_a_norm_over_the_channels_costs_a_transpose_and_a_little() -> None:
    """The written-out form costs a small share of a transpose, which only decides ties."""
    g = Graph()
    x = g.input("x", F, [2, 4, 5, 6])
    norm, product = g.LayerNormalization(x, weights(6)), g.MatMul(x, weights(6, 3))
    g.output(norm, "a")
    g.output(product, "b")
    terms = build_problem(g.model().graph, channels_first, {**AGNOSTIC, **DENSE}, False).terms
    assert terms[:2] == [Term(AS_IS, (2,), 960 + 15), Term(AS_IS, (3,), 480 // 64)]


LAST, FIRST, SWAP = (0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2)


def cancelled(chain: Sequence[tuple[str, str, tuple[int, ...]]], outputs: Sequence[str]) -> dict[str, tuple]:
    """Return what each output becomes after Transposes `made from perm`, in order, are cancelled: its input, and what
    is left.
    """
    g = Graph()
    values = {"x": g.input("x", F, [2, 3, 4, 5])}
    for made, source, perm in chain:
        values[made] = g.Transpose(values[source], perm=perm) if perm else g.Relu(values[source])
    for name in outputs:
        g.output(g.Neg(values[name]), f"out_{name}")
    model = g.model()
    cancel_transposes(model.graph, ModelNames(model.graph))
    names = {v: n for n, v in values.items()}
    found: dict[str, tuple] = {}
    for name, value in zip(outputs, model.graph.outputs, strict=True):
        read = maker(value).inputs[0]
        assert read is not None
        node = read.producer()
        found[name] = (names[read],) if node is None or node.op_type != "Transpose" else (
            names[node.inputs[0]], *(node.attributes.get_ints("perm") or ())  # type: ignore[index]
        )  # fmt: skip
    return found | {"left": (len(nodes(model, "Transpose")),)}


def test_chains_of_transposes() -> None:
    """Each is moved up as far as the ones in between vanish, or to where it does nothing or repeats another."""
    there, back = ("a", "x", LAST), ("b", "a", FIRST)
    assert cancelled([there, back], ["b"]) == {"b": ("x",), "left": (0,)}
    assert cancelled([there, back], ["a", "b"]) == {"a": ("x", *LAST), "b": ("x",), "left": (1,)}
    assert cancelled([there, ("b", "a", SWAP)], ["b"]) == {"b": ("x", 0, 2, 1, 3), "left": (1,)}
    # The first transpose has another reader and stays, so merging it into the second saves nothing.
    assert cancelled([there, ("b", "a", SWAP)], ["a", "b"]) == {"a": ("x", *LAST), "b": ("a", *SWAP), "left": (2,)}
    # The exception is a transpose that exists already.
    same = [("c", "x", (0, 2, 1, 3)), there, ("b", "a", SWAP)]
    assert cancelled(same, ["a", "b", "c"]) == {
        "a": ("x", *LAST), "b": ("x", 0, 2, 1, 3), "c": ("x", 0, 2, 1, 3), "left": (2,)
    }  # fmt: skip
    # Three transposes are composed into one; if the first has other readers, only the last two are.
    three = [there, ("b", "a", SWAP), ("c", "b", (0, 3, 2, 1))]
    assert cancelled(three, ["a", "c"]) == {"a": ("x", *LAST), "c": ("a", 0, 2, 3, 1), "left": (2,)}
    assert cancelled(three, ["c"]) == {"c": ("x", 0, 3, 1, 2), "left": (1,)}
    assert cancelled([there, ("r", "a", ()), ("b", "r", FIRST)], ["b"]) == {"b": ("r", *FIRST), "left": (2,)}
    assert cancelled([there, ("b", "x", LAST)], ["a", "b"]) == {"a": ("x", *LAST), "b": ("x", *LAST), "left": (1,)}
    assert cancelled([("a", "x", (0, 1, 2, 3))], ["a"]) == {"a": ("x",), "left": (0,)}


@pytest.mark.parametrize("domain", ["", "mine"])
def test_only_reshapes_of_onnx_are_passed_by(domain: str) -> None:
    g = Graph()
    x = g.input("x", F, [2, 3, 4])
    y = g.Neg(g.Transpose(x, perm=[0, 2, 1])) if not domain else g.Reshape(g.Transpose(x, perm=[0, 2, 1]), [2, 4, 3])
    maker(y).domain = domain
    g.output(g.Transpose(y, perm=[0, 2, 1]), "y")
    model = g.model()
    before = [(n.op_type, list(n.inputs)) for n in model.graph]
    assert join_transposes(model) is False
    assert compose_transposes(model) is False
    assert [(n.op_type, list(n.inputs)) for n in model.graph] == before


@pytest.mark.parametrize("dims", [[], [1], [6, 1], [4, 1, 6]])
def test_what_is_expanded_beside_a_convolution(dims: list[int]) -> None:
    """A number known only at run time has no dims to reorder."""
    g = Graph()
    expanded = g.Expand(g.input("s", F, dims), [2, 4, 6, 6])
    g.output(conv(g, g.Add(conv(g, image(g, 2, 4, 6, 6), 4), expanded), 4), "y")
    check(g, {}, {})
