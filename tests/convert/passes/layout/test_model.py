"""The types of the layout pass against numpy: permutations, axes, prices, moved constants."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.model_names import ModelNames
from convert.passes.layout.cancel import permutation
from convert.passes.layout.model import (
    Move,
    Side,
    channels_first,
    channels_last,
    free_sides,
    moved_axes,
    same_order,
    side_without_axes,
)
from convert.passes.layout.rewrite import (
    LayoutWriter,
    moved_tensor,
    transpose_price,
)
from convert.passes.layout.sensitive import is_sensitive, max_pool, resize

F = ir.DataType.FLOAT
SIZES = (2, 3, 5, 7, 11)
MOVES = pytest.mark.parametrize("move", [channels_last, channels_first])


@pytest.mark.parametrize("rank", range(6))
def test_channels_go_last_and_come_back(rank: int) -> None:
    x = np.zeros(SIZES[:rank])
    last = x.transpose(channels_last(rank))
    assert last.shape == ((x.shape[0], *x.shape[2:], x.shape[1]) if rank > 2 else x.shape)
    assert last.transpose(channels_first(rank)).shape == x.shape


@MOVES
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_axes_follow_the_tensor(rank: int, move: Move) -> None:
    moved = np.zeros(SIZES[:rank]).transpose(move(rank))
    for axis in range(-rank, rank):
        (found,) = moved_axes([axis], move(rank))
        assert moved.shape[found] == SIZES[:rank][axis]
        assert 0 <= found < rank


@MOVES
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_what_is_left_of_a_moved_tensor_without_some_axes(rank: int, move: Move) -> None:
    x = np.zeros(SIZES[:rank])
    for count in range(1, rank + 1):
        for axes in combinations(range(rank), count):
            kept = x.sum(axes)
            left = x.transpose(move(rank)).sum(tuple(moved_axes(axes, move(rank)))).shape
            side = side_without_axes(rank, axes, move)
            if left == kept.shape:
                assert side is Side.AS_IS
            elif left == kept.transpose(move(kept.ndim)).shape:
                assert side is Side.FREE
            else:
                assert side is None


@MOVES
@pytest.mark.parametrize("shape", [(2, 1, 4, 5), (2, 3, 1, 1), (2, 3, 1, 5), (1, 3, 4, 1), (1, 1, 1), (2, 3, 4)])
def test_dims_of_one_element_may_change_places(shape: tuple[int, ...], move: Move) -> None:
    x = np.arange(np.prod(shape)).reshape(shape)
    perm = move(len(shape))
    assert same_order(shape, perm) == np.array_equal(x.transpose(perm).ravel(), x.ravel())


def test_a_dim_that_is_not_known_may_be_longer_than_one() -> None:
    assert not same_order(("n", 3, None, 1), channels_last(4))
    assert same_order(("n", 1, None, None), channels_last(4))


def test_free_sides_by_position() -> None:
    g = Graph()
    node = g.Concat(*(g.input(n, F, [2, 3, 4]) for n in "abc"), axis=1).producer()
    assert node is not None
    assert free_sides(node, 0, 2) == (Side.FREE, Side.AS_IS, Side.FREE)


@pytest.mark.parametrize(
    ("shape", "full", "dtype", "price"),
    [
        ((2, 3, 4, 5), 4, F, 480),
        ((2, 3, 4, 5), 4, ir.DataType.FLOAT16, 240),
        ((2, 3, 4, 5), 4, ir.DataType.DOUBLE, 960),
        ((2, 3, 4, 5), 4, None, 480),
        (("n", 3, None, 5), 4, F, 4 * 7 * 3 * 7 * 5),
        ((2, 1, 4, 5), 4, F, 1),  # no transpose is needed
        ((4, 5), 4, F, 1),  # its dims stay the second and third from the end
        ((3, 4, 5), 4, F, 240),
        ((2, 3, 0, 5), 4, F, 1),  # there is nothing to move
    ],
)
def test_a_transpose_costs_the_bytes_that_it_moves(
    shape: tuple[int | str | None, ...], full: int, dtype: ir.DataType | None, price: int
) -> None:
    value = ir.Value(name="x", shape=ir.Shape(shape), type=None if dtype is None else ir.TensorType(dtype))
    assert transpose_price(value, full, channels_last, 7) == price


@MOVES
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (3, 4, 5), (4, 5), (5,), (), (3, 1, 1), (1, 1, 5), (1, 3, 1, 1)])
def test_a_moved_constant_broadcasts_as_the_constant_did(shape: tuple[int, ...], move: Move) -> None:
    content = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    moved = moved_tensor(ir.Tensor(content, name="w"), 4, move)
    whole = np.broadcast_to(content, (2, 3, 4, 5)).transpose(move(4))
    found = moved.numpy()
    assert found.shape == tuple(moved.shape.numpy())
    assert moved.dtype == F
    np.testing.assert_array_equal(np.broadcast_to(found, whole.shape), whole)
    assert found.ndim == 4 or len(shape) < 4, "one of the full rank keeps it, whatever it is read by"
    if len(shape) < 4:
        assert found.ndim <= 1 or found.shape[0] != 1


def test_a_constant_without_elements_keeps_its_dims() -> None:
    moved = moved_tensor(ir.Tensor(np.zeros((0, 5), np.float32), name="w"), 4, channels_last)
    assert moved.numpy().shape == tuple(moved.shape.numpy()) == (0, 5, 1)


@pytest.mark.parametrize("stored", [False, True])
@MOVES
def test_a_copy_is_called_after_its_layout(move: Move, stored: bool) -> None:
    g = Graph()
    x = g.input("x", F, [2, 3, 4, 5])
    writer = LayoutWriter(g.graph, move, ModelNames(g.graph), {x: stored}, None)
    assert writer.fetch(x, stored) is x
    copy = writer.fetch(x, not stored)
    assert writer.fetch(x, not stored) is copy
    last = (move is channels_last) != stored
    assert copy.name == ("x_channels_last" if last else "x_channels_first")
    perm = copy.producer().attributes.get_ints("perm")
    assert tuple(perm) == ((0, 2, 3, 1) if last else (0, 3, 1, 2))


def test_names_are_new_and_small_constants_shared() -> None:
    g = Graph()
    g.output(g.Relu(g.input("x", F, [2, 3])), "y")
    names = ModelNames(g.model().graph)
    assert [names.unique(n) for n in ("x", "x", "y", "z", "z")] == ["x_1", "x_2", "y_1", "z", "z_1"]
    axes = names.array("axes", np.array([1, 2]))
    assert names.array("other", np.array([1, 2])) is axes
    assert names.array("axes", np.array([[1, 2]])) is not axes
    assert names.array("axes", np.array([1, 2], np.int32)) is not axes
    assert sorted(names.root.initializers) == ["axes", "axes_1", "axes_2"]


def test_the_permutation_of_a_node() -> None:
    x = ir.Value(name="x", shape=ir.Shape([2, 3, 4]))
    perm = [ir.AttrInt64s("perm", [0, 2, 1])]
    assert permutation(ir.Node("", "Transpose", [x], perm)) == (0, 2, 1)
    assert permutation(ir.Node("", "Transpose", [x])) == (2, 1, 0)
    assert permutation(ir.Node("", "Transpose", [ir.Value(name="u")])) is None
    assert permutation(ir.Node("mine", "Transpose", [x], perm)) is None
    assert permutation(ir.Node("", "Transpose", [None], perm)) is None
    assert permutation(ir.Node("", "Relu", [x], perm)) is None


RESIZES = {
    "axes of the plane": (True, [2, 6, 4, 5], {"scales": [2.0, 3.0], "axes": [2, 3]}),
    "the last axis": (True, [2, 6, 4, 5], {"scales": [2.0], "axes": [-1]}),
    "axes with the batch": (False, [2, 6, 4, 5], {"scales": [2.0, 1.0], "axes": [0, 2]}),
    "the batch, counted back": (False, [2, 6, 4, 5], {"scales": [2.0], "axes": [-4]}),
    "axes with channels": (False, [2, 6, 4, 5], {"scales": [2.0, 1.0], "axes": [1, 2]}),
    "channels, counted back": (False, [2, 6, 4, 5], {"scales": [2.0], "axes": [-3]}),
    "scales of the plane": (True, [None, None, 4, 5], {"scales": [1.0, 1.0, 2.0, 3.0]}),
    "no scales, but sizes": (True, [2, 6, 4, 5], {"scales": [], "sizes": [2, 6, 8, 9]}),
    "no scales, but sizes of channels": (False, [2, 6, 4, 5], {"scales": [], "sizes": [2, 7, 8, 9]}),
    "scales of channels": (False, [2, 6, 4, 5], {"scales": [1.0, 2.0, 1.0, 1.0]}),
    "scales of the batch": (False, [2, 6, 4, 5], {"scales": [2.0, 1.0, 1.0, 1.0]}),
    "sizes": (True, [2, 6, 4, 5], {"sizes": [2, 6, 8, 9]}),
    "sizes of channels": (False, [2, 6, 4, 5], {"sizes": [2, 7, 8, 9]}),
    "sizes of the batch": (False, [2, 6, 4, 5], {"sizes": [3, 6, 8, 9]}),
    "sizes where channels are not known": (False, [2, None, 4, 5], {"sizes": [2, 6, 8, 9]}),
    "crops": (False, [2, 6, 4, 5], {"sizes": [2, 6, 8, 9], "coordinate_transformation_mode": "tf_crop_and_resize",
                                    "roi": [0.0, 0, 0, 0, 1, 1, 1, 1]}),
}  # fmt: skip


@pytest.mark.parametrize("name", RESIZES)
def test_resize_moves_where_only_the_plane_is_resized(name: str) -> None:
    moves, shape, given = RESIZES[name]
    given = dict(given)
    g = Graph()
    roi, scales, sizes = (given.pop(k, None) for k in ("roi", "scales", "sizes"))
    node = g.Resize(
        g.input("x", F, shape),  # type: ignore[arg-type]
        None if roi is None else np.array(roi, np.float32),
        None if scales is None else np.array(scales, np.float32),
        None if sizes is None else np.array(sizes),
        **given,
    ).producer()
    assert node is not None
    if sizes is not None:
        node.outputs[0].shape = ir.Shape(sizes)
    form = resize(node, channels_last)
    assert (form is not None) == moves
    if form is not None:
        assert form.inputs[0] is Side.MOVED
        assert form.outputs == (Side.MOVED,)
        assert all(side is (Side.ANY if x is None else Side.AS_IS)
                   for x, side in zip(node.inputs[1:], form.inputs[1:], strict=True))  # fmt: skip
    known, node.outputs[0].shape = node.outputs[0].shape, None
    assert resize(node, channels_last) is None
    node.outputs[0].shape = known
    assert node.inputs[0] is not None
    node.inputs[0].shape = None
    assert resize(node, channels_last) is None


def test_a_pool_moves_unless_its_indices_are_used() -> None:
    for used in (False, True):
        g = Graph()
        y, where = g.MaxPool(g.input("x", F, [1, 2, 4, 4]), kernel_shape=[2, 2], outputs=2)
        g.output(y, "y")
        if used:
            g.output(where, "where")
        node = y.producer()
        assert node is not None
        assert is_sensitive(node)
        form = max_pool(node, channels_last)
        assert (form is None) == used
        if form is not None:
            assert form.outputs == (Side.MOVED, Side.AS_IS)


def test_what_is_sensitive() -> None:
    x = ir.Value(name="x")
    assert is_sensitive(ir.Node("", "Conv", [x, x]))
    assert not is_sensitive(ir.Node("mine", "Conv", [x, x]))
    assert not is_sensitive(ir.Node("", "Relu", [x]))
    assert not is_sensitive(None)


def writer_of(g: Graph, move: Move, stored: dict[ir.Value, bool]) -> LayoutWriter:
    return LayoutWriter(g.graph, move, ModelNames(g.graph), stored, next(iter(g.graph), None))


@pytest.mark.parametrize(
    ("move", "shape", "steps"),
    [
        (channels_last, (3, 4, 5), [("Transpose", [1, 2, 0], [4, 5, 3])]),
        (channels_last, (4, 5), [("Unsqueeze", [2], [4, 5, 1])]),
        (channels_last, (5,), [("Unsqueeze", [1], [5, 1])]),
        (channels_last, (), []),
        (channels_first, (3, 4, 5), [("Transpose", [2, 0, 1], [5, 3, 4])]),
        (channels_first, (4, 5), [("Transpose", [1, 0], [5, 4]), ("Unsqueeze", [1], [5, 1, 4])]),
        (channels_first, (5,), [("Unsqueeze", [1, 2], [5, 1, 1])]),
    ],
)
def test_an_operand_of_lower_rank_is_aligned_to_four_dims(move: Move, shape: tuple[int, ...], steps: list) -> None:
    """Each step has the permutation or axes of a node, and the shape of its output as in numpy."""
    g = Graph()
    x = g.input("b", F, shape)
    writer, found = writer_of(g, move, {}), []
    copy = writer.fetch(x, True, 4)
    assert writer.fetch(x, True, 4) is copy
    assert writer.fetch(x, False, 4) is x
    for node in g.graph:
        told = node.attributes.get_ints("perm") or node.inputs[1].const_value.numpy()  # type: ignore[union-attr]
        found.append((node.op_type, [int(n) for n in told], list(node.outputs[0].shape or ())))
    assert found == steps
    content = np.arange(int(np.prod(shape))).reshape(shape)
    aligned = content.reshape([1] * (4 - len(shape)) + list(shape)).transpose(move(4))
    assert list(copy.shape or ()) == list(aligned.shape[4 - len(copy.shape or ()) :])


def test_an_operand_that_is_stored_moved_is_put_in_order_first() -> None:
    g = Graph()
    x = g.input("b", F, [3, 4, 5])
    copy = writer_of(g, channels_last, {x: True}).fetch(x, True, 4)
    first, second = g.graph
    assert [n.attributes.get_ints("perm") for n in (first, second)] == [(0, 2, 1), (1, 2, 0)]
    assert (first.inputs[0], second.inputs[0], second.outputs[0]) == (x, first.outputs[0], copy)


def test_a_copy_stands_right_after_what_it_copies() -> None:
    g = Graph()
    x = g.input("x", F, [2, 3, 4, 5])
    y = g.Relu(x)
    g.output(g.Neg(y), "z")
    writer = writer_of(g, channels_last, {})
    of_input, of_node = writer.fetch(x, True), writer.fetch(y, True)
    made = [of_input.producer(), y.producer(), of_node.producer()]
    assert list(g.graph)[:3] == made
    inner = g.body("inner")
    assert list(writer_of(inner, channels_last, {}).fetch(y, True).producer().graph) == list(inner.graph)  # type: ignore
    assert len(list(inner.graph)) == 1, "what a subgraph reads from around it is copied in there"


def test_what_has_no_layout_is_fetched_as_it_is() -> None:
    """Values of less than three dims, unless they broadcast, and values of unknown rank."""
    g = Graph()
    small, unknown = g.input("s", F, [2, 3]), g.input("u", F, None)
    writer = writer_of(g, channels_last, {})
    for value in (small, unknown):
        assert writer.fetch(value, True) is writer.fetch(value, False) is value
    assert writer.fetch(unknown, True, 4) is unknown
    assert not list(g.graph)
