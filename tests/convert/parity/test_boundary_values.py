"""Test the boundary values of inputs, which sampled inputs must contain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.metadata import RANGE_KEY
from convert.parity.inputs.boundary_values import boundary_values, may_be_negative, mix_boundary_values
from convert.parity.inputs.feeds import Spans, generate_feeds, sized_feed
from convert.parity.inputs.uneven import with_unusual_rows

T = ir.DataType
Build = Callable[[Graph, ir.Value], ir.Value]


def model(build: Build, dtype: ir.DataType = T.INT64, shape: Any = ("n", 40)) -> ir.Model:
    g = Graph()
    g.output(build(g, g.input("x", dtype, shape)), "y")
    return g.model()


def table(g: Graph, v: ir.Value) -> ir.Value:
    return g.Gather(g.const(np.zeros((5000, 2), np.float32)), v)


def coded(keys: Any) -> Build:
    name = "keys_strings" if isinstance(keys[0], str) else "keys_int64s"
    return lambda g, v: g.LabelEncoder(v, domain="ai.onnx.ml", **{name: keys, "values_int64s": [0] * len(keys)})


def same(v: Any) -> Build:
    return lambda g, x: g.Equal(x, v)


@pytest.mark.parametrize(
    ("build", "dtype", "found"),
    [
        (same(np.int64(7)), T.INT64, [6, 7, 8]),
        (lambda g, v: g.Less(g.Reshape(g.Cast(v, to=T.FLOAT), [-1]), np.float32(7)), T.INT64, [6, 7, 8]),
        (lambda g, v: g.Less(g.Cast(v, to=T.FLOAT), np.float32(7.5)), T.INT64, []),
        (lambda g, v: g.Cast(v, to=T.BOOL), T.UINT8, [-1, 0, 1]),
        (lambda g, v: g.Equal(g.Add(v, np.int64(1)), np.int64(7)), T.INT64, []),
        (lambda g, v: g.Greater(np.array([7, 9]), g.Squeeze(v)), T.INT64, [6, 7, 8, 9, 10]),
        (same(np.float32(-1)), T.FLOAT, [-1.5, -1.0, -0.5]),
        (lambda g, v: g.Greater(v, np.float32(1000)), T.FLOAT, [500.0, 1000.0, 1500.0]),
        (lambda g, v: g.Max(v, np.finfo(np.float32).min), T.FLOAT, []),
        (lambda g, v: g.Clip(v, np.float32(0), np.float32(6)), T.FLOAT, [-0.5, 0.0, 0.5, 3.0, 6.0, 9.0]),
        (lambda g, v: g.Round(v), T.FLOAT,
         [-2.25, -1.5, -1.0, -0.75, -0.5, 0.0, 0.5, 0.75, 1.0, 1.25, 1.5, 2.25, 2.5, 3.75]),
        (lambda g, v: g.Floor(v), T.FLOAT, [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0]),
        (coded(["b", "a"]), T.STRING, ["a", "b"]),
        (coded([4, 9]), T.INT64, [3, 4, 5, 8, 9, 10]),
        (coded([1 << 60]), T.INT64, [(1 << 60) - 1, 1 << 60, (1 << 60) + 1]),
    ],
)  # fmt: skip
def test_numbers_and_words_that_a_graph_compares_with(build: Build, dtype: ir.DataType, found: list[Any]) -> None:
    assert boundary_values(model(build, dtype).graph.inputs[0]) == found


def test_drawn_tokens_hold_the_one_that_pads_and_both_ends_of_the_table() -> None:
    made = model(lambda g, v: g.Add(table(g, v), g.Unsqueeze(g.Cast(g.Equal(v, np.int64(77)), to=T.FLOAT), [2])))
    first, *others = (feed.arrays["x"] for feed in generate_feeds(made))
    assert all({0, 76, 77, 78, 4999} <= set(x.ravel().tolist()) for x in others)
    assert all(x.min() >= 0 and x.max() < 5000 for x in (first, *others))
    assert np.mean(np.isin(others[1], [0, 76, 77, 78, 4999])) < 0.4, "the others are as they were drawn"
    # Noted ranges are respected, and so are the ranges that the source was found to accept.
    made.graph.inputs[0].metadata_props[RANGE_KEY] = "[100, 200]"
    assert all(feed.arrays["x"].min() >= 100 for feed in generate_feeds(made))
    spans: Spans = {"x": (1, 9)}
    found = sized_feed(model(same(np.int64(77))), 1, {"n": 3}, spans).arrays["x"]
    assert set(found.ravel().tolist()) <= set(range(1, 10))


def test_half_of_the_words_are_those_of_the_table() -> None:
    for feed in generate_feeds(model(coded(["red", "green"]), T.STRING)):
        assert {"red", "green", "Hello"} <= set(feed.arrays["x"].ravel().tolist())


@pytest.mark.parametrize(
    ("build", "dtype", "found"),
    [
        (lambda g, v: g.And(g.Equal(v, np.int64(30)), g.Equal(v, np.int64(20))), T.INT64, [20, 30]),
        (coded(["red", "green"]), T.STRING, ["green", "red"]),
        (
            lambda g, v: g.Expand(np.float32(1), g.Reshape(g.Where(g.Equal(v, np.int64(3)), v, np.int64(1)), [-1])),
            T.INT64,
            [3, 2],
        ),
    ],
)
def test_a_single_mode_is_each_of_them_in_turn(build: Build, dtype: ir.DataType, found: list[Any]) -> None:
    feeds = generate_feeds(model(build, dtype, ()))
    assert [feed.arrays["x"].item() for feed in feeds[1:]] == found


def test_whole_steps_hold_the_number_that_masks() -> None:
    feeds = generate_feeds(model(same(np.float32(-1)), T.FLOAT, ("n", 40, 3)))
    found = [(feed.arrays["x"] == -1).all(axis=-1).any() for feed in feeds]
    assert found == [False, True, True]


def test_what_is_made_unique_is_there_more_than_once() -> None:
    feeds = generate_feeds(model(lambda g, v: g.Unique(v, outputs=4)[0], T.FLOAT, (40,)))
    counts = [len(np.unique(feed.arrays["x"])) for feed in feeds]
    assert counts[0] == 40
    assert max(counts[1:]) < 40


def test_large_numbers_come_every_third_time_only() -> None:
    feeds = generate_feeds(model(lambda g, v: g.Greater(v, np.float32(1000)), T.FLOAT))
    assert [np.abs(feed.arrays["x"]).max() >= 1000 for feed in feeds] == [False, False, True]


def test_features_of_trees_lie_around_their_thresholds() -> None:
    def tree(g: Graph, v: ir.Value) -> ir.Value:
        return g.TreeEnsembleRegressor(v, domain="ai.onnx.ml", nodes_featureids=[1, 0, 0],
                      nodes_values=[5e4, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"])  # fmt: skip

    x = generate_feeds(model(tree, T.FLOAT, (30, 2)))[1].arrays["x"]
    assert np.abs(x[:, 0]).max() < 10, "of leaves there are no thresholds"
    assert [np.any(x[:, 1] == 5e4), np.any(x[:, 1] > 5e4), np.any((x[:, 1] > 2e4) & (x[:, 1] < 5e4))] == [True] * 3


def test_single_conditions_are_both_in_turn() -> None:
    g = Graph()
    g.output(g.And(*(g.input(n, T.BOOL, []) for n in "ab")), "y")
    feeds = generate_feeds(g.model())
    assert [[bool(a) for a in feed.arrays.values()] for feed in feeds] == [[True, False], [False, True], [True, False]]


@pytest.mark.parametrize("dtype", [T.UINT8, T.INT8, T.UINT16, T.INT16])
def test_pictures_and_sounds_hold_every_number(dtype: ir.DataType) -> None:
    ends = np.iinfo(dtype.numpy())
    (first, *_) = generate_feeds(model(lambda g, v: g.Cast(v, to=T.FLOAT), dtype, (2000,)))
    span = float(first.arrays["x"].max()) - float(first.arrays["x"].min())
    assert span > 0.9 * (float(ends.max) - float(ends.min))
    (sizes, *_) = generate_feeds(model(lambda g, v: g.Expand(np.float32(1), g.Cast(v, to=T.INT64)), dtype, (1,)))
    assert sizes.arrays["x"].max() < 10


def test_masks_are_zeros_and_ones() -> None:
    made = model(lambda g, v: g.Mul(g.Sub(np.float32(1), g.Cast(v, to=T.FLOAT)), np.float32(-1e9)))
    assert all(set(feed.arrays["x"].ravel().tolist()) == {0, 1} for feed in generate_feeds(made))


@pytest.mark.parametrize(
    ("build", "dtype"),
    [
        (lambda g, v: g.Where(v, np.float32(1), np.float32(2)), T.BOOL),
        (lambda g, v: g.Sub(np.float32(1), g.Cast(v, to=T.FLOAT)), T.INT64),
    ],
)
def test_some_rows_of_masks_are_alike(build: Build, dtype: ir.DataType) -> None:
    """A random mask row of 40 is never constant, and the result of a softmax over a fully masked row would not be
    tested.
    """
    first, *others = generate_feeds(model(build, dtype, (3, 40)))
    assert not any(len(set(row.tolist())) == 1 for row in first.arrays["x"])
    for feed in others:
        kinds = sorted(tuple(sorted({int(n) for n in row})) for row in feed.arrays["x"])
        assert kinds == [(0,), (0, 1), (1,)]


@pytest.mark.parametrize(
    ("build", "dtype", "negative"),
    [
        (lambda g, v: g.Div(v, np.int64(3)), T.INT64, True),
        (lambda g, v: g.Cast(v, to=T.FLOAT), T.INT32, True),
        (lambda g, v: g.Cast(v, to=T.FLOAT), T.UINT8, False),
        (lambda g, v: g.Cast(v, to=T.INT64), T.FLOAT, False),
        (lambda g, v: table(g, g.Add(v, np.int64(1))), T.INT64, False),
        (lambda g, v: g.Expand(np.float32(1), g.Reshape(g.Add(v, np.int64(1)), [-1])), T.INT64, False),
        (lambda g, v: g.Pow(np.float32(2), v), T.INT64, False),
        (lambda g, v: table(g, g.Cast(g.Cast(v, to=T.BOOL), to=T.INT64)), T.INT64, True),
    ],
)
def test_the_last_row_of_integers_that_are_only_computed_with_is_negative(
    build: Build, dtype: ir.DataType, negative: bool
) -> None:
    made = model(build, dtype)
    assert may_be_negative(made.graph.inputs[0]) == negative
    x = with_unusual_rows(made, generate_feeds(made))[2].arrays["x"]
    if dtype != T.FLOAT:
        assert (bool((x[-1] <= 0).all()) and bool((x[-1] < 0).any())) == negative
        assert bool((with_unusual_rows(made, generate_feeds(made), negative=False)[2].arrays["x"] >= -1).all())


def test_signs_of_two_integers_differ() -> None:
    g = Graph()
    g.output(g.Div(*(g.input(n, T.INT64, ["n", 9]) for n in "ab")), "y")
    arrays = with_unusual_rows(g.model(), generate_feeds(g.model()))[2].arrays
    assert [[bool((row < 0).any()) for row in arrays[n]] for n in "ab"] == [[False, False, True], [False, True, False]]


def test_without_boundary_values_nothing_changes() -> None:
    made, array = model(lambda g, v: g.Neg(v)), np.arange(40)
    assert mix_boundary_values(made.graph.inputs[0], array, 1) is not None
    np.testing.assert_array_equal(mix_boundary_values(made.graph.inputs[0], array, 1), array)
