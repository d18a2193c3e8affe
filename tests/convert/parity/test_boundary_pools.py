"""The pools from which boundary values are sampled, and the share of an array that they replace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.metadata import RANGE_KEY
from convert.parity.inputs.boundary_values import _KEYS, boundary_values, may_be_negative, mix_boundary_values

T = ir.DataType
Build = Callable[[Graph, ir.Value], ir.Value]


def value_of(build: Build, dtype: ir.DataType, shape: Any = ("n", 40)) -> ir.Value:
    g = Graph()
    g.output(build(g, g.input("x", dtype, shape)), "y")
    return g.model().graph.inputs[0]


def mixed(build: Build, dtype: ir.DataType, array: np.ndarray, seed: int = 1, end: int | None = None) -> np.ndarray:
    shape = [f"d{n}" for n in range(array.ndim)]
    return mix_boundary_values(value_of(build, dtype, shape), array, seed, end)


def above(number: float) -> Build:
    return lambda g, x: g.Greater(x, np.float32(number))


def test_a_condition_is_not_what_is_chosen() -> None:
    def chosen(g: Graph, x: ir.Value) -> ir.Value:
        picked = g.Where(x, np.float32(3), np.float32(4))
        return g.Greater(picked, np.float32(3.5))

    assert boundary_values(value_of(chosen, T.BOOL)) == []
    either = value_of(
        lambda g, x: g.Greater(g.Where(g.const(np.array(True)), x, np.float32(4)), np.float32(8)), T.FLOAT
    )
    assert boundary_values(either) == [4.0, 8.0, 12.0]
    other = value_of(lambda g, x: g.Greater(g.Where(g.const(np.array(True)), np.float32(4), x), np.float32(8)), T.FLOAT)
    assert boundary_values(other) == [4.0, 8.0, 12.0]


@pytest.mark.parametrize(("place", "found"), [(0, [4.0, 8.0, 12.0]), (1, [])])
def test_only_what_passes_through_reaches_a_comparison(place: int, found: list[float]) -> None:
    """The first input of a Gather passes its content on, the second holds indices."""

    def build(g: Graph, x: ir.Value) -> ir.Value:
        places = g.const(np.array([0], np.int64))
        taken = g.Gather(x, places) if place == 0 else g.Gather(g.const(np.ones(9, np.float32)), g.Cast(x, to=T.INT64))
        return g.Greater(taken, np.float32(8))

    assert [n for n in boundary_values(value_of(build, T.FLOAT)) if n > 2] == found


def test_numbers_beyond_a_million_are_limits_of_dtypes() -> None:
    assert boundary_values(value_of(above(1e6), T.FLOAT)) == [5e5, 1e6]
    assert boundary_values(value_of(above(-1e6), T.FLOAT)) == [-1e6, -5e5]
    assert boundary_values(value_of(above(1e6 + 0.5), T.FLOAT), beside=False) == []


def test_a_value_that_is_reached_twice_hides_none_behind() -> None:
    def build(g: Graph, x: ir.Value) -> ir.Value:
        flat = [g.Reshape(x, np.array([-1])) for _ in range(2)]
        first = g.Less(g.Concat(flat[0], flat[0], axis=0), np.float32(-8))
        return g.Concat(first, g.Greater(g.Concat(flat[1], flat[1], axis=0), np.float32(8)), axis=0)

    assert boundary_values(value_of(build, T.FLOAT), beside=False) == [-8.0, 8.0]


def test_domains_of_others_compare_with_their_threshold() -> None:
    binarized = value_of(lambda g, x: g.Binarizer(x, domain="ai.onnx.ml", threshold=8.0), T.FLOAT)
    assert boundary_values(binarized) == [4.0, 8.0, 12.0]
    assert boundary_values(value_of(lambda g, x: g.Scaler(x, domain="ai.onnx.ml"), T.FLOAT)) == []


@pytest.mark.parametrize(
    ("build", "found"),
    [
        (lambda g, x: g.NonZero(x), [-0.5, 0.0, 0.5]),
        (lambda g, x: g.Cast(x, to=T.BOOL), [-0.5, 0.0, 0.5]),
        (lambda g, x: g.Cast(x, to=T.INT64), []),
        (lambda g, x: g.Ceil(x), [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0]),
        (lambda g, x: g.Greater(x, np.float32(1e6)), [5e5, 1e6]),
        (lambda g, x: g.Greater(x, np.float32(1.1e6)), [5.5e5]),
        (lambda g, x: g.Greater(x, np.float32(np.inf)), []),
        (lambda g, x: g.Greater(x, np.float32(0.25)), [-0.25, 0.25, 0.75]),
        (lambda g, x: g.Add(x, np.float32(8)), []),
    ],
)
def test_numbers_and_those_beside(build: Build, found: list[float]) -> None:
    assert boundary_values(value_of(build, T.FLOAT)) == found
    alone = boundary_values(value_of(build, T.FLOAT), beside=False)
    assert set(alone) <= set(found)
    assert len(alone) == {8: 3, 2: 1, 1: 0, 3: 1, 0: 0}[len(found)]


@pytest.mark.parametrize("name", _KEYS)
def test_keys_of_every_kind(name: str) -> None:
    words = "string" in name or name == "stopwords"
    keys: Any = ["b", "a"] if words else [7, 9] if name != "keys_floats" else [7.0, 9.0]
    if name == "keys_tensor":
        keys = ir.tensor(np.array([7, 9], np.int64))
    build: Build = lambda g, x: g.LabelEncoder(x, domain="ai.onnx.ml", **{name: keys})  # noqa: E731
    found = boundary_values(value_of(build, T.STRING if words else T.INT64), beside=False)
    assert found == (["a", "b"] if words else [7, 9])


@pytest.mark.parametrize(("count", "kept"), [(1024, 1024), (2047, 2047), (2048, 1024), (5000, 1250)])
def test_of_long_tables_as_many_keys_spread_over_all(count: int, kept: int) -> None:
    keys = list(range(count))
    build: Build = lambda g, x: g.LabelEncoder(x, domain="ai.onnx.ml", keys_int64s=keys)  # noqa: E731
    found = boundary_values(value_of(build, T.INT64), beside=False)
    assert len(found) == kept
    assert found[-1] >= count - count // 1024


@pytest.mark.parametrize(
    ("build", "negative"),
    [
        (lambda g, x: g.Add(x, x), True),
        (lambda g, x: g.Gather(g.const(np.ones(9, np.float32)), g.Add(x, x)), False),
        (lambda g, x: g.Pow(g.const(np.float32(2)), x), False),
        (lambda g, x: g.ScatterElements(g.const(np.ones(9, np.float32)), x, g.const(np.ones(9, np.float32))), False),
        (lambda g, x: g.Gather(g.const(np.ones(9, np.float32)), g.Cast(g.Cast(x, to=T.FLOAT), to=T.INT64)), True),
    ],
)
def test_integers_that_may_be_negative(build: Build, negative: bool) -> None:
    assert may_be_negative(value_of(build, T.INT64)) == negative
    assert not may_be_negative(value_of(lambda g, x: g.Add(x, x), T.FLOAT))
    assert not may_be_negative(value_of(lambda g, x: g.Add(x, x), T.UINT8))
    noted = value_of(lambda g, x: g.Add(x, x), T.INT64)
    noted.metadata_props[RANGE_KEY] = "[0, 9]"
    assert not may_be_negative(noted)


def test_the_first_set_has_words_alone() -> None:
    numbers = np.full(400, 2.0, np.float32)
    assert mixed(above(8), T.FLOAT, numbers, 0) is numbers
    words = np.full(400, "none", object)
    found = mixed(lambda g, x: g.LabelEncoder(x, domain="ai.onnx.ml", keys_strings=["a", "b"]), T.STRING, words, 0)
    assert 0.4 < np.isin(found, ["a", "b"]).mean() < 0.6
    assert (words == "none").all(), "what is given stays"
    empty = np.zeros((0, 3), np.float32)
    assert mixed(above(8), T.FLOAT, empty, 1) is empty


def test_a_fifth_of_the_numbers_and_each_of_the_pool() -> None:
    found = mixed(above(8), T.FLOAT, np.full((40, 50), 2.0, np.float32))
    assert 0.17 < (found != 2).mean() < 0.23
    assert set(found.ravel().tolist()) == {2.0, 4.0, 8.0, 12.0}
    assert found.dtype == np.float32


@pytest.mark.parametrize(("seed", "held"), [(1, False), (2, True), (3, False), (4, False), (5, True)])
def test_large_numbers_every_third_time(seed: int, held: bool) -> None:
    for limit, usual in ((16, False), (10, True)):
        found = mixed(above(limit), T.FLOAT, np.full(400, 2.0, np.float32), seed)
        assert bool((found == limit * 1.5).any()) == (held or usual)
        assert (found == limit).any()


@pytest.mark.parametrize(
    ("dtype", "end", "pool"),
    [
        (np.int8, None, {6, 7, 8, 126, 127}),
        (np.int64, None, {6, 7, 8, 126, 127, 128}),
        (np.int64, 9, {0, 6, 7, 8}),
        (np.int64, 8, {0, 6, 7}),
        (np.int64, 128, {0, 6, 7, 8, 126, 127}),
    ],
)
def test_integers_stay_in_what_their_dtype_and_their_table_take(dtype: Any, end: int | None, pool: set[int]) -> None:
    def build(g: Graph, x: ir.Value) -> ir.Value:
        wide = g.Cast(x, to=T.INT64)
        return g.And(g.Equal(wide, np.int64(7)), g.Equal(wide, np.int64(127)))

    found = mixed(build, T.INT8 if dtype is np.int8 else T.INT64, np.full(900, 3, dtype), 1, end)
    assert set(found.tolist()) == {3, *pool}


def test_sizes_stay_small() -> None:
    def build(g: Graph, x: ir.Value) -> ir.Value:
        seen = g.Or(g.Equal(x, np.int64(16)), g.Equal(x, np.int64(1)))
        return g.Where(seen, g.Expand(np.float32(1), x), np.float32(0))

    found = mixed(build, T.INT64, np.full(400, 3))
    assert set(found.tolist()) == {3, 1, 2, 15, 16}


@pytest.mark.parametrize(("end", "whole"), [(2, True), (3, False)])
def test_indices_of_a_table_of_two_are_a_mask(end: int, whole: bool) -> None:
    build: Build = lambda g, x: g.Identity(x)  # noqa: E731
    array = np.tile(np.array([0, 1]), (100, 10))
    found = mixed(build, T.INT64, array, 1, end)
    assert ((found == 1).all(1).any() and (found == 0).all(1).any()) == whole
    mask = mixed(build, T.BOOL, array.astype(bool), 1)
    assert (mask.all(1).sum(), (~mask).all(1).sum()) == (10, 10)


def test_what_is_made_unique_is_a_fifth_of_it_again() -> None:
    array = np.arange(1000, dtype=np.float32)
    found = mixed(lambda g, x: g.Unique(x, outputs=4)[0], T.FLOAT, array)
    assert set(found.tolist()) <= set(array.tolist())
    assert 0.16 < (found != array).mean() < 0.24
    assert (mixed(lambda g, x: g.Neg(x), T.FLOAT, array) == array).all()
    whole = array.astype(np.int64)  # random ones hold many elements twice
    assert (mixed(lambda g, x: g.Unique(x, outputs=4)[0], T.INT64, whole) == whole).all()


def trees(modes: Any, kind: str = "TreeEnsembleRegressor", features: Any = (1, 0, 1), **rest: Any) -> Build:
    attributes = {"nodes_featureids": list(features), "nodes_modes": modes, **rest}
    return lambda g, x: getattr(g, kind)(x, domain="ai.onnx.ml", **attributes)


@pytest.mark.parametrize(
    "build",
    [
        trees(["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[1000.0, 0.0, 5000.0]),
        trees(["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values_as_tensor=ir.tensor(np.array([1000.0, 0, 5000]))),
        trees(ir.tensor(np.zeros(1, np.uint8)), "TreeEnsemble", [1], nodes_splits=ir.tensor(np.array([1000.0]))),
    ],
)
def test_half_of_a_feature_lies_around_its_thresholds(build: Build) -> None:
    array = np.full((4000, 3), 2.0, np.float32)
    found = mixed(build, T.FLOAT, array)
    mine, others = found[:, 1], found[:, [0, 2]]
    assert (others == 2).all(), "no threshold is of them"
    assert 0.45 < (mine == 2).mean() < 0.55
    assert 0.22 < (mine == 1000).mean() < 0.28, "on the threshold itself"
    near = mine[(mine != 2) & (mine != 1000)]
    assert 118 < near.std() < 133, "an eighth of the largest"
    assert 900 < near.mean() < 1100
    assert (array == 2).all()


def test_thresholds_spread_by_their_own_deviation_or_a_little() -> None:
    def spread(*thresholds: float) -> np.ndarray:
        build = trees(["BRANCH_LEQ"] * 3, nodes_values=[thresholds[0], 0.0, thresholds[1]])
        column = mixed(build, T.FLOAT, np.full((4000, 2), 2.0, np.float32))[:, 1]
        return column[(column != 2) & ~np.isin(column, np.array(thresholds, np.float32))]

    assert 2.0**-10 * 0.9 < spread(0.0, 0.0).std() < 2.0**-10 * 1.1
    wide = spread(-100.0, 100.0)
    assert 130 < wide.std() < 155, "around each by 100"
    assert spread(-1.0, -1.0).std() < 0.15


def test_other_operators_and_inputs_have_no_thresholds() -> None:
    array = np.full((100, 3), 2.0, np.float32)
    assert (mixed(trees(["LEAF"] * 3, nodes_values=[9.0] * 3), T.FLOAT, array) == 2).all(), "leaves"
    other = trees(["BRANCH_LEQ"] * 3, nodes_values=[9.0] * 3, kind="TreeEnsembleOther")
    assert (mixed(other, T.FLOAT, array) == 2).all()
    single = np.array(2.0, np.float32)
    assert mixed(lambda g, x: g.Neg(x), T.FLOAT, single) == 2
