"""The dims that a Reshape is known to keep, and its target shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.model_names import ModelNames
from convert.passes.layout import compose_transposes
from convert.passes.layout.compose_transposes import Factors
from convert.passes.layout.model import Move, Side, channels_first, channels_last
from convert.passes.layout.move_through_reshape import _retarget, dim_groups
from convert.passes.layout.reshape_rules import (
    _copies_dim,
    _keeps_batch,
    _keeps_channels,
    _names_no_dim,
    _reshape_target,
)
from convert.passes.layout.rules import elementwise

Dims = Sequence[int | str | None]


def node(wanted: Sequence[int] | None, allowzero: int = 0) -> ir.Node:
    """Return a Reshape to these numbers; None: to unknown numbers."""
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, None)
    shape = g.input("s", ir.DataType.INT64, [3]) if wanted is None else np.array(wanted, np.int64)
    made = g.Reshape(x, shape).producer()
    assert made is not None
    made.attributes["allowzero"] = ir.AttrInt64("allowzero", allowzero)
    return made


@pytest.mark.parametrize(
    ("source", "target", "wanted", "allowzero", "keeps"),
    [
        ((2, 6, 4), (2, 24), [2, 24], 0, True),
        ((2, 6, 4), (6, 8), [6, 8], 0, False),
        ((2, 6, 4), (3, 16), [3, 16], 0, False),
        ((2, 24), ("m", 6, 4), [-1, 6, 4], 0, True),
        ((24, 2), ("m", 6, 4), [-1, 6, 4], 0, False),
        ((6, 2, 4), (2, 24), [2, 24], 0, False),
        (("n", 6, 4), ("n", 24), [-1, 24], 0, True),
        (("n", 6, 4), ("m", 24), [-1, 24], 0, True),
        (("n", 6, 4), ("m", 12), [-1, 12], 0, False),
        (("n", 6, 4), ("m", 48), [-1, 48], 0, False),
        ((None, 6, 4), (None, 24), [-1, 24], 0, True),
        ((None, 6, "h"), (None, 24), [-1, 24], 0, False),
        ((None, 6, 4), (None, None), [-1, 24], 0, False),
        ((None, 6, "h"), (None, None), [0, -1], 0, True),
        ((None, 6, "h"), (None, None), [0, -1], 1, False),
        ((None, 6, "h"), (None, None), None, 0, False),
        ((), (1,), [1], 0, False),
        ((1,), (), [], 0, False),
    ],
)
def test_a_batch_is_kept(source: Dims, target: Dims, wanted: list[int] | None, allowzero: int, keeps: bool) -> None:
    assert _keeps_batch(node(wanted, allowzero), source, target) == keeps


@pytest.mark.parametrize(
    ("source", "target", "wanted", "move", "keeps"),
    [
        ((2, 6, 4, 5), (2, 6, 20), [2, 6, 20], channels_last, True),
        ((2, 6, 4, 5), (2, 20, 6), [2, 20, 6], channels_last, False),
        ((2, 4, 5, 6), (2, 20, 6), [2, 20, 6], channels_first, True),
        ((2, 4, 5, 6), (2, 6, 20), [2, 6, 20], channels_first, False),
        ((2, "c", 4, 5), (2, "c", 20), [2, -1, 20], channels_last, True),
        ((2, None, 4, 5), (2, None, 20), [2, -1, 20], channels_last, False),
        ((2, None, 4, 5), (2, None, 20), [0, 0, -1], channels_last, True),
        ((2, 4, 5, None), (2, 4, 5, None), [2, 4, 5, 0], channels_first, True),
        # Zero copies the dim at the same position, which is a different dim here.
        ((2, 4, 5, None), (2, 20, None), [2, 20, 0], channels_first, False),
    ],
)
def test_channels_are_kept(source: Dims, target: Dims, wanted: list[int], move: Move, keeps: bool) -> None:
    assert _keeps_channels(node(wanted), source, target, move) == keeps


def test_zeros_copy_unless_they_are_allowed() -> None:
    assert [_copies_dim(node([0, 5, -1]), axis) for axis in range(3)] == [True, False, False]
    assert not _copies_dim(node([0, 5, -1], allowzero=1), 0)
    assert not _copies_dim(node(None), 0)
    assert [_names_no_dim(node(w)) for w in ([0, 5], [5, 0], [5, -1], None)] == [True, False, True, False]


@pytest.mark.parametrize(
    ("shape", "keeps_batch", "told"),
    [
        ((2, 3), False, [2, 3]),
        (("n", 3), True, [-1, 3]),
        (("n", 3), False, [-1, 3]),
        (("n", "m"), True, [0, -1]),
        (("n", "m"), False, None),
        ((2, "m"), True, [2, -1]),
        ((None, None), True, [0, -1]),
        ((3, None, "m"), True, None),
        (("n", None, "m"), True, None),
        ((), True, []),
    ],
)
def test_what_a_reshape_is_told(shape: Dims, keeps_batch: bool, told: list[int] | None) -> None:
    found = _reshape_target(shape, keeps_batch)
    assert (None if found is None else found.tolist()) == told


@pytest.mark.parametrize(
    ("before", "after", "groups"),
    [
        ((2, 3, 4), (6, 4), [((0, 1), (0,)), ((2,), (1,))]),
        ((6, 4), (2, 3, 4), [((0,), (0, 1)), ((1,), (2,))]),
        ((4, 6), (6, 4), [((0, 1), (0, 1))]),
        (("n", 6), ("n", 2, 3), [((0,), (0,)), ((1,), (1, 2))]),
        (("n", 6), ("m", 2, 3), [((0,), (0,)), ((1,), (1, 2))]),
        ((6, "n"), (6, "n"), [((0,), (0,)), ((1,), (1,))]),
        ((6, "n"), (2, 3, "n"), [((0,), (0, 1)), ((1,), (2,))]),
        ((6, "n"), (2, "n", 3), None),
        (("n", "m"), ("m", "n"), None),
        ((2, 3), (2, 3, 2), None),
        ((), (), []),
        ((0, 4), (0, 4), [((0,), (0,)), ((1,), (1,))]),
        (("n", 6), (2, 6), None),
        ((2, 6), ("n", 6), None),
        (("n", 6), (), None),
        ((), ("n",), None),
        ((2, 3, 5), (6, 5), [((0, 1), (0,)), ((2,), (1,))]),
        ((2, 5, 1), (2, 5), None),
        ((2, 5), (2, 5, 1), None),
        ((2, 1, 5), (2, 5), [((0,), (0,)), ((1, 2), (1,))]),
    ],
)
def test_dims_that_hold_the_same_elements(before: Dims, after: Dims, groups: object) -> None:
    assert dim_groups(before, after) == groups


@pytest.mark.parametrize(
    ("source", "target", "parts"),
    [
        ((4, 6), (4, 6), [(4,), (6,)]),
        ((4, 6), (24,), [(4, 6)]),
        ((4, 6), (2, 2, 6), [(2,), (2,), (6,)]),
        ((4, 6), (4, 3, 2), [(4,), (3,), (2,)]),
        ((4, 6), (8, 3), [(4, 2), (3,)]),
        ((4, 6), (1, 4, 1, 6, 1), [(), (4,), (), (6,), ()]),
        ((4, 1, 6), (24,), [(4, 6)]),
        ((4, 6), (3, 8), None),
        ((4, 6), (4,), None),
        ((4, 6), (4, 6, 2), None),
        ((4, 6), (0, 6), None),
        (("n", 6), ("n", 6), [("n",), (6,)]),
        (("n", 6), (None, 6), [("n",), (6,)]),
        (("n", 6), ("m", 2, 3), [("n",), (2,), (3,)]),
        ((6, "n"), (2, None), [(2,), (3, "n")]),
        ((6, "n"), (2, 3, None), [(2,), (3,), ("n",)]),
        (("n", 6, "m"), ("n", 6, "m"), [("n",), (6,), ("m",)]),
        (("n", 6, "m"), ("n", 3, 2, "m"), [("n",), (3,), (2,), ("m",)]),
        (("n", 6, "m"), ("n", None), [("n",), (6, "m")]),
        (("n", 6, "m"), (None, None), None),
        (("n", 6, "n"), ("n", 6, "n"), None),
        (("n", 6, 4), (None, 3, 4), [("n", 2), (3,), (4,)]),
        (("n", 6, 4), (None, 8, 3), None),
    ],
)
def test_factors_go_where_a_reshape_puts_them(source: Dims, target: Dims, parts: list[tuple] | None) -> None:
    factors = Factors(source)
    assert factors.reshape(target) == (parts is not None)
    if parts is not None:
        assert [tuple(factors.sizes[a] for a in part) for part in factors.now] == parts


def test_factors_follow_a_transpose_and_keep_their_order_before() -> None:
    factors = Factors((4, "n", 6))
    factors.transpose((2, 0, 1))
    assert factors.reshape((2, 12, "n"))
    assert [tuple(factors.sizes[a] for a in part) for part in factors.now] == [(2,), (3, 4), ("n",)]
    assert [tuple(factors.sizes[a] for a in part) for part in factors.first] == [(4,), ("n",), (2, 3)]
    assert [factors.size(part) for part in factors.now] == [2, 12, "n"]
    assert factors.size([factors.now[0][0], factors.now[2][0]]) is None
    assert factors.size([]) == 1


def test_a_mask_beside_an_elementwise_output_moves_with_it() -> None:
    g = Graph()
    y, mask = g.Dropout(g.input("x", ir.DataType.FLOAT, [2, 3, 4, 5]), outputs=2)
    made = y.producer()
    assert elementwise(made, channels_last).outputs == (Side.FREE, Side.ANY)
    g.output(mask, "m")
    assert elementwise(made, channels_last).outputs == (Side.FREE, Side.FREE)


@pytest.mark.parametrize(
    ("source", "shape", "told"),
    [
        (("n", 8), ("n", 2, 4), [-1, 2, 4]),
        (("n", 8, "h"), ("n", 2, 4, "h"), [0, 2, 4, -1]),
        (("n", 8, "h"), ("m", 2, 4, "h"), None),
        ((None, 8, "h"), (None, 2, 4, "h"), None),
        ((8, "n"), (2, 4, "n"), [2, 4, -1]),
        (("n", 8, "h", "w"), ("n", 2, 4, "h", "w"), None),
        ((0, 8), (0, 2, 4), None),
    ],
)
def test_a_reshape_gets_another_target(source: Dims, shape: Dims, told: list[int] | None) -> None:
    made = node([1, 1, 1], allowzero=1)
    graph = ir.Graph([], [], nodes=[])
    assert _retarget(made, source, shape, ModelNames(graph)) == (told is not None)
    if told is not None:
        assert made.inputs[1].const_value.numpy().tolist() == told  # type: ignore[union-attr]
        assert made.outputs[0].shape == ir.Shape(shape)
        assert "allowzero" not in made.attributes


def test_dims_are_compared_by_what_they_are() -> None:
    """Equal names and numbers that are different Python objects are the same dim."""
    name, number = "".join(["ba", "tch"]), int("1000")
    assert dim_groups(("batch", 1000, "w"), (name, number, "w")) == [((i,), (i,)) for i in range(3)]


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ([[0], [1], [2]], [0, 6, 0]),
        ([[0], [1, 2]], [0, -1]),
        ([[1], [0, 2]], [6, -1]),
        ([[0], [1]], [0, 6]),
        ([[], [0], [1]], [1, -1, 6]),
        ([[0, 1], [2]], None),
        ([[], [0], [1], [2]], None),
        ([], []),
    ],
)
def test_what_the_reshape_after_a_composed_transpose_is_told(target: list[list[int]], told: list[int] | None) -> None:
    """The dims are n, 6, m: dims that keep their position are copied (0), and one other may be inferred (-1)."""
    assert compose_transposes._reshape_target(Factors(("n", 6, "m")), [[0], [1], [2]], target) == told
