"""Limits of the layout pass's rules: dense layers, unknown dims, values that bypass a transpose."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.passes.layout.assign import assign_layout
from convert.passes.layout.dense import DENSE, _bias_add, dense, layer_norm
from convert.passes.layout.min_cut import AS_IS, MOVED, Term, labeling_cost, minimum_cut
from convert.passes.layout.model import Side, channels_first, channels_last
from convert.passes.layout.rules import form_of
from convert.passes.layout.table import AGNOSTIC
from tests.support.layout_support import check, conv, image, nodes, weights

F = ir.DataType.FLOAT


def node_of(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None
    return node


@pytest.mark.parametrize(
    ("shape", "matrix", "dtype", "moves"),
    [
        ([2, 4, 5, 6], weights(6, 3), F, True),
        ([2, 5, 6], weights(6, 3), F, True),
        ([2, 4, 5, 6], weights(6, 3), ir.DataType.FLOAT16, True),
        ([2, 4, 5, 6], weights(6, 3), ir.DataType.DOUBLE, False),
        ([2, 4, 5, 6], weights(6), F, False),
        ([2, 4, 5, 6], weights(4, 6, 3), F, False),
        ([5, 6], weights(2, 4, 6, 3), F, False),
        ([2, 4, 5, 6], None, F, False),
    ],
)
def test_a_product_with_a_constant_matrix_is_a_convolution(
    shape: list[int], matrix: np.ndarray | None, dtype: ir.DataType, moves: bool
) -> None:
    g = Graph()
    x = g.input("x", dtype, shape)
    kind = {ir.DataType.FLOAT16: np.float16, ir.DataType.DOUBLE: np.float64}.get(dtype, np.float32)
    right = g.input("w", dtype, [6, 3]) if matrix is None else matrix.astype(kind)
    form = dense(node_of(g.MatMul(x, right)), channels_first)
    assert (form is not None) == moves
    if form is not None:
        assert form.inputs == (Side.FREE, Side.AS_IS)
        assert form.outputs == (Side.FREE,)
        assert 0 < form.moved_price < 1, "it tips ties, and costs less than a transpose"


@pytest.mark.parametrize(
    ("axis", "scale", "moves"),
    [
        (-1, weights(6), True),
        (3, weights(6), True),
        (-1, weights(1), True),
        (1, weights(4, 5, 6), True),
        (2, weights(5, 6), False),
        (-2, weights(6), False),
        (-1, weights(5, 6), False),
        (-1, np.float32(2), False),
        (-1, None, False),
    ],
)
def test_a_norm_over_the_channels_is_written_out(axis: int, scale: np.ndarray | None, moves: bool) -> None:
    g = Graph()
    given = g.input("s", F, [6]) if scale is None else scale
    node = node_of(g.LayerNormalization(g.input("x", F, [2, 4, 5, 6]), given, axis=axis))
    form = layer_norm(node, channels_first)
    assert (form is not None) == moves
    if form is not None:
        assert (form.moved_price > 1) == (axis != 1), "in pieces it costs a transpose; over all dims it is as it was"
    assert form_of(node, channels_first, DENSE).outputs[0] is (Side.FREE if moves else Side.AS_IS)


@pytest.mark.parametrize("axis", [1, -1])
def test_a_norm_whose_other_outputs_nobody_reads_has_a_side_for_each(axis: int) -> None:
    g = Graph()
    scale = weights(4, 5, 6) if axis == 1 else weights(6)
    y, *others = g.LayerNormalization(g.input("x", F, [2, 4, 5, 6]), scale, axis=axis, outputs=3)
    form = form_of(node_of(y), channels_first, DENSE)
    assert form.outputs == (Side.FREE, Side.AS_IS, Side.AS_IS)
    g.output(g.Neg(others[0]), "y")
    assert form_of(node_of(y), channels_first, DENSE).outputs == (Side.AS_IS,) * 3


@pytest.mark.parametrize("dtype", [F, ir.DataType.FLOAT16])
def test_a_norm_in_pieces_keeps_its_dtype(dtype: ir.DataType) -> None:
    g = Graph()
    kind = np.float16 if dtype == ir.DataType.FLOAT16 else np.float32
    x = g.input("x", dtype, [2, 6, 5, 5])
    w = weights(6, 6, 1, 1).astype(kind)
    y = g.Transpose(g.Conv(x, w), perm=[0, 2, 3, 1])
    y = g.LayerNormalization(y, (1 + weights(6)).astype(kind), weights(6).astype(kind))
    y = g.MatMul(g.Relu(g.MatMul(y, weights(6, 8).astype(kind))), weights(8, 6).astype(kind))
    g.output(g.Conv(g.Transpose(y, perm=[0, 3, 1, 2]), w), "y")
    model = g.model()
    assign_layout(model, sensitive="as is")
    casts = [n for n in nodes(model, "Cast") if n.attributes.get_int("to") == dtype]
    assert len(casts) == (0 if dtype == F else 1)
    assert {v.dtype for n in nodes(model, "Conv") for v in n.outputs} == {dtype}


@pytest.mark.parametrize(
    ("shape", "target", "batch", "moves"),
    [
        (["n", 6, 4, 5], [-1, 6, 20], "n", True),
        (["n", 6, 4, 5], [0, 6, -1], "n", True),
        (["n", 6, "h", 5], [0, 6, -1], "n", True),
        (["n", 6, "h", 5], [0, 0, -1], "n", True),
        ([None, 6, 4, 5], [-1, 6, 20], None, True),
        ([None, 6, 4, 5], [-1, 6, 10], None, False),
        ([None, 6, 4, 5], [-1, 6, 40], None, False),
        (["n", 6, 4, 5], [-1, 3, 40], "n", False),
        ([2, 6, 4, 5], [4, 6, 10], 4, False),
    ],
)
def test_a_reshape_of_the_plane_keeps_batch_and_channels(
    shape: list[int | str | None], target: list[int], batch: int | str | None, moves: bool
) -> None:
    g = Graph()
    size = 20 if all(isinstance(d, int) for d in shape[2:]) else None
    last = target[2] if target[2] > 0 else size
    y = g.Reshape(g.input("x", F, shape), target)
    channels = target[1] or 6
    g.facts(y, F, [batch, channels, last])
    form = form_of(node_of(y), channels_last, AGNOSTIC)
    assert (form.inputs[0] is Side.FREE and form.outputs[0] is Side.FREE) == moves


@pytest.mark.parametrize(("axis", "moves"), [(0, False), (1, True), (-3, True), (2, False), (-1, True), (-2, True)])
def test_a_flatten_after_pooling_of_one_row(axis: int, moves: bool) -> None:
    g = Graph()
    y = g.Flatten(g.input("x", F, [1, 6, 1, 1]), axis=axis)
    form = form_of(node_of(y), channels_last, AGNOSTIC)
    x = np.arange(6).reshape(1, 6, 1, 1)
    cut = axis % 4
    same = np.array_equal(
        x.reshape(int(np.prod(x.shape[:cut])), -1),
        x.transpose(0, 2, 3, 1).reshape(int(np.prod(x.transpose(0, 2, 3, 1).shape[:cut])), -1),
    )
    if form.inputs[0] is Side.FREE:
        assert same
    assert form.outputs == (Side.AS_IS,)
    assert moves or form.inputs[0] is Side.AS_IS or same


def test_a_transpose_whose_output_rank_is_not_known_or_wrong_stays() -> None:
    g = Graph()
    y = g.Transpose(g.Relu(conv(g, image(g, 1, 3, 4, 4), 3)), perm=[0, 2, 3, 1])
    g.output(y, "y")
    y.shape = None
    model = g.model()
    assign_layout(model, sensitive="channels_last")
    assert nodes(model, "Transpose")[-1].attributes.get_ints("perm") == (0, 2, 3, 1)


def test_an_input_that_a_node_lacks_is_put_in_where_it_belongs() -> None:
    """Axes of a Slice and of a Pad are inputs 3, after inputs that may be absent."""
    g = Graph()
    x = conv(g, image(g, 2, 3, 6, 6), 4)
    y = g.Slice(x, [0, 1, 1], [2, 4, 5])
    y = g.Pad(y, g.input("pads", ir.DataType.INT64, [8]))
    g.facts(y, F, [2, 3, 4, 6])
    g.output(conv(g, y, 4), "y")
    model = g.model()
    assign_layout(model, sensitive="channels_last")
    (sliced,), (padded,) = nodes(model, "Slice"), nodes(model, "Pad")
    assert len(sliced.inputs) == len(padded.inputs) == 4
    assert padded.inputs[2] is None
    assert [n.inputs[3].const_value.numpy().tolist() for n in (sliced, padded)] == [[0, 3, 1], [0, 3, 1, 2]]


@pytest.mark.parametrize("seed", range(30))
def test_cuts_of_dear_and_cheap_terms(seed: int) -> None:
    """Prices up to 2**40 with a common divisor: the cut costs as much as the best of all labelings."""
    draw = np.random.default_rng(seed)
    count, unit = 6, int(2 ** draw.integers(0, 37))
    terms = []
    for _ in range(8):
        ends = [int(n) for n in draw.choice(count, draw.integers(2, 4), replace=False)]
        if all(e <= MOVED for e in ends):
            continue
        terms.append(Term(ends[0], tuple(ends[1:]), unit * int(draw.integers(1, 8))))
    found = minimum_cut(count, terms)
    assert found[:2] == [False, True]
    every = ([False, True, *(bool(n >> i & 1) for i in range(count - 2))] for n in range(2 ** (count - 2)))
    assert labeling_cost(found, terms) == min(labeling_cost(labels, terms) for labels in every)


def test_among_equal_prices_fewer_transposes_win() -> None:
    """One transpose of 4 bytes is better than two of 2, for any position of the variable; an existing one does not
    count.
    """
    one = [Term(AS_IS, (2,), 4), Term(2, (3,), 2), Term(3, (MOVED,), 4), Term(2, (MOVED,), 2)]
    assert labeling_cost(minimum_cut(4, one), one) == 4
    assert minimum_cut(4, one) == [False, True, True, True], "one term of 4, not two of 2"
    free = [Term(AS_IS, (2,), 4), Term(2, (MOVED,), 4, existing=True)]
    assert minimum_cut(3, free) == [False, True, False]
    other = [Term(AS_IS, (2,), 4, existing=True), Term(2, (MOVED,), 4)]
    assert minimum_cut(3, other) == [False, True, True]


def test_a_value_that_a_branch_captures_is_fetched_as_is() -> None:
    g = Graph()
    y = g.Relu(conv(g, image(g, 2, 4, 6, 6), 4))
    then, other = g.body("then"), g.body("other")
    then.output(then.Softmax(y, axis=1), "a")
    other.output(other.Neg(y), "b")
    z = g.If(g.input("cond", ir.DataType.BOOL, []), then_branch=then, else_branch=other)
    g.output(g.facts(z, F, [2, 4, 6, 6]), "z")
    g.output(conv(g, y, 4), "y")
    check(g, {}, {})


@pytest.mark.parametrize(
    ("kind", "shape", "found"),
    [
        ("", (4, 1, 1), True),
        ("", (1, 4, 1, 1), True),
        ("first", (4, 1, 1), True),
        ("", (6,), False),
        ("", (1, 1, 1), False),
        ("", (2, 4, 1, 1), False),
        ("computed", (4, 1, 1), False),
        ("subtracted", (4, 1, 1), False),
        ("an output", (4, 1, 1), False),
        ("read twice", (4, 1, 1), False),
        ("in a branch", (4, 1, 1), False),
        ("not read", (4, 1, 1), False),
    ],
)
def test_only_a_constant_for_each_channel_is_a_bias(kind: str, shape: tuple[int, ...], found: bool) -> None:
    g = Graph()
    y = g.Relu(g.input("x", F, [2, 4, 5, 6]))
    bias = g.input("b", F, shape) if kind == "computed" else weights(*shape)
    place = g.body("then") if kind == "in a branch" else g
    if kind == "subtracted":
        place.Sub(y, bias)
    elif kind != "not read":
        place.Add(*((bias, y) if kind == "first" else (y, bias)))
    if kind == "read twice":
        g.Neg(y)
    if kind == "an output":
        g.graph.outputs.append(y)
    add, content = _bias_add(node_of(y), 4)
    assert (add is not None) == (content is not None) == found
    if add is not None and content is not None:
        assert add.op_type == "Add"
        np.testing.assert_array_equal(content, weights(*shape).ravel())


ALONG_AXIS = ("ArgMax", "ArgMin", "DequantizeLinear", "Gather", "GatherElements", "Hardmax", "LogSoftmax",
              "LpNormalization", "QuantizeLinear", "ScatterElements", "Softmax", "Split", "TopK")  # fmt: skip


@pytest.mark.parametrize("name", ALONG_AXIS)
def test_an_axis_that_is_not_given_is_that_of_the_schema(name: str) -> None:
    schema = onnx.defs.get_schema(name, 23)
    inputs = [ir.Value(name=str(i), shape=ir.Shape([2, 6, 4, 5])) for i in range(schema.min_input)]
    if name in ("Gather", "QuantizeLinear", "DequantizeLinear"):
        inputs[1].shape = ir.Shape([6])
    node = ir.Node("", name, inputs)
    node.outputs[0].shape = ir.Shape([2, 6, 4, 5])
    form = AGNOSTIC[name](node, channels_last)
    assert form is not None
    (changed,) = form.attributes
    axis = schema.attributes["axis"].default_value.i % 4
    assert (changed.name, changed.as_int()) == ("axis", (0, 3, 1, 2)[axis]), "channels_last puts dims 2 and 3 first"
