"""Inputs of the smallest sizes that a graph allows, and inputs with special numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.metadata import RANGE_KEY
from convert.parity.inputs.feeds import (
    smallest_feed,
    special_feed,
)
from convert.parity.inputs.special import reaches_shapes, special_array, special_rows
from tests.convert.parity.input_models import sized

T = ir.DataType


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (sized(["n", 4]), None),
        (sized(["n", "h"]), {"n": 1, "h": 1}),
        (sized(["n", "h"], {"h": [6, None]}), None),
        (sized(["n", "h"], {"h": [None, 64]}), {"n": 1, "h": 1}),
        (sized(["n", "h"], {"n": [0, None]}), {"n": 0, "h": 1}),
        (sized(["n", "h"], guards=["h % 8 == 0"]), {"n": 1, "h": 8}),
        (sized(["n", "h"], {"h": [1, 3]}, guards=["h % 8 == 0"]), None),
        (sized(["n", "2*n", "h"]), {"n": 1, "h": 1, "2*n": 2}),
        (sized([3, 4]), None),
    ],
)
def test_the_smallest_sizes_are_what_the_graph_allows(model: ir.Model, sizes: dict[str, int] | None) -> None:
    feed = smallest_feed(model, 3)
    assert (feed is None) == (sizes is None)
    if feed is not None and sizes is not None:
        assert (feed.edge, feed.special) == (True, False)
        assert feed.label == "seed 3, uniform, " + ", ".join(f"{k}={v}" for k, v in sizes.items())


def test_special_values_need_rows_where_there_may_be_some() -> None:
    feed = special_feed(sized(["n", 4], {"n": [1, 2]}), 0)
    assert feed is not None
    assert feed.arrays["x"].shape == (2, 4)
    assert feed.label.startswith("special values (")
    assert feed.label.endswith("), n=2")
    feed = special_feed(sized(["n", "h"], guards=["n % 2 == 0", "h % 5 == 0"]), 0)
    assert feed is not None
    assert feed.arrays["x"].shape == (4, 15)
    feed = special_feed(sized(["n", 4], guards=["n == 1 + n"]), 0)
    assert feed is not None
    assert feed.arrays["x"].shape == (2, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_rows_of_nan_infinities_zeros_and_denormals(dtype: type) -> None:
    value = ir.Value(name="x", type=ir.TensorType(ir.DataType.from_numpy(np.dtype(dtype))))
    found = special_array(value, np.ones((5, 2, 3), dtype), limited=False).reshape(5, 6)
    nan, inf = np.nan, np.inf
    small = float(np.finfo(dtype).tiny) / 4
    expected = [[1, 1, 1, nan, 1, 1], [inf, 1, 1, -inf, 1, 1], [0] * 6, *[[small, -small] * 3] * 2]
    np.testing.assert_array_equal(found, np.array(expected, dtype))
    np.testing.assert_array_equal(special_array(value, np.ones(5, dtype), False), np.array([1, 1, nan, 1, 1], dtype))
    np.testing.assert_array_equal(special_array(value, np.ones((1, 2), dtype), False), np.array([[1, nan]], dtype))
    assert np.isnan(special_array(value, np.array(1, dtype), False))
    assert special_array(value, np.zeros((0, 3), dtype), False).shape == (0, 3)


def test_large_models_have_two_rows_of_special_values() -> None:
    feed = special_feed(sized(["n", 6]), 0, large=True)
    assert feed is not None
    assert feed.label == "special values (NaN, infinities, zeros, limits of integers), n=2"
    first, zeros = feed.arrays["x"]
    assert (first[0], first[3]) == (np.inf, -np.inf)
    np.testing.assert_array_equal(np.isnan(first), [False] * 4 + [True, False])
    np.testing.assert_array_equal(zeros, [0] * 6)
    fixed = special_feed(sized([5, 6]), 0, large=True)
    assert fixed is not None
    assert np.isfinite(fixed.arrays["x"]).all(1).tolist() == [False, True, True, True, True]
    assert np.isnan(special_array(ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT)), np.ones(1, np.float32),
                                  False, special_rows(denormals=False, large=True)))  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.int8, [127, -1, -128, 0, -127, 127, -1]),
        (np.uint8, [255, 0, 0, 255, 0, 0, 255]),
        (np.int16, [32767, -1, -32768, 261, 0, -32767, 32767]),
        (np.uint16, [65535, 0, 261, 0, 65535, 0, 261]),
    ],
)
def test_integers_have_their_limits_in_turn(dtype: type, expected: list[int]) -> None:
    value = ir.Value(name="x", type=ir.TensorType(ir.DataType.from_numpy(np.dtype(dtype))))
    ones = np.ones(7, dtype)
    assert special_array(value, ones, limited=False).tolist() == expected
    assert special_array(value, ones, limited=True).tolist() == [1] * 7
    assert special_array(value, np.array(1, dtype), limited=False).tolist() == 1
    value.metadata_props[RANGE_KEY] = "[1, 2]"
    assert special_array(value, ones, limited=False).tolist() == [1] * 7


@pytest.mark.parametrize(
    ("build", "reaches"),
    [
        (lambda g, x: g.Neg(x), False),
        (lambda g, x: g.Reshape(np.zeros(6, np.float32), x), True),
        (lambda g, x: g.Reshape(x, np.array([-1])), False),
        (lambda g, x: g.Expand(np.float32(1), g.Abs(g.Neg(x))), True),
        (lambda g, x: g.ConstantOfShape(x), True),
        (lambda g, x: g.Expand(np.float32(1), g.Shape(x)), False),
        (lambda g, x: g.Tile(g.Neg(x), np.array([2])), False),
        (lambda g, x: g.Slice(np.zeros(9), x, np.array([3, 3]), np.array([0, 0])), True),
        (lambda g, x: g.Slice(g.Neg(x), np.array([0]), np.array([1])), False),
        (lambda g, x: g.Pad(np.zeros((2,)), x), True),
        (lambda g, x: g.Concat(*[np.zeros(2, np.int64)] * 120, x, axis=0), False),
    ],
)
def test_what_sizes_depend_on(build: Callable[[Graph, ir.Value], ir.Value], reaches: bool) -> None:
    g = Graph()
    x = g.input("x", T.INT64, [2])
    g.output(build(g, x), "y")
    assert reaches_shapes(x) == reaches
