"""Rows of special inputs: the rows that a difference applies to, and elements that are equal or nearly equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.parity.compare import special_verdict
from convert.parity.compare.special_verdict import _Excuse, _excused_rows, _has_equal, _nonfinite_rows, _rows_with_equal
from convert.parity.inputs.special import TINY

F = ir.DataType.FLOAT
NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("array", "rows"),
    [
        ([[1.0, 2.0], [NAN, 1.0], [3.0, INF], [-INF, 0.0]], frozenset({1, 2, 3})),
        ([1.0, NAN, 2.0], frozenset({1})),
        ([[1.0], [2.0]], frozenset()),
        (1.0, frozenset()),
        (NAN, None),
        (np.zeros((0, 3)), frozenset()),
        (np.zeros((3, 0)), frozenset()),
    ],
)
def test_rows_that_are_not_finite(array: Any, rows: frozenset[int] | None) -> None:
    assert _nonfinite_rows(np.asarray(array, np.float32)) == rows


def test_words_and_integers_are_finite() -> None:
    assert _nonfinite_rows(np.array(["a", "b"], object)) == frozenset()
    assert _nonfinite_rows(np.array(7)) == frozenset()


@pytest.mark.parametrize(
    ("array", "axis", "rows"),
    [
        ([[1.0, 2.0, 1.0], [1.0, 2.0, 3.0]], 1, frozenset({0})),
        ([[1.0, 2.0, 1.0], [1.0, 2.0, 3.0]], -1, frozenset({0})),
        ([[1.0, 2.0, 1.0], [1.0, 5.0, 3.0]], 0, None),
        ([[1.0, 2.0, 1.0], [1.0, 5.0, 3.0]], -2, None),
        ([[1.0, 2.0], [3.0, 4.0]], 1, frozenset()),
        ([1.0, 1.0], 0, None),
        ([1.0, 2.0], 0, frozenset()),
    ],
)
def test_rows_with_equal_elements(array: Any, axis: int, rows: frozenset[int] | None) -> None:
    assert _rows_with_equal(np.array(array), axis) == rows


@pytest.mark.parametrize(
    ("array", "equal"),
    [
        ([1.0, 3.0, 1.0], True),
        ([1.0, 1.0 + 0.9e-5], True),
        ([1.0, 1.0 + 1.1e-5], False),
        ([-1.0, -1.0 - 0.9e-5], True),
        ([-1.0, -1.0 - 1.1e-5], False),
        ([1.0, 1.1, 1.2], False),
        ([0.0, TINY], True),
        ([0.0, 2 * TINY], False),
        ([-TINY / 2, TINY / 2], True),
        ([INF, INF], True),
        ([INF, -INF], False),
        ([NAN, NAN], True),
        ([NAN, 1.0], False),
        ([INF, 1.0, NAN], False),
        ([5], False),
        ([5, 5], True),
        ([5, 6], False),
        (3.0, False),
    ],
)
def test_what_is_equal_or_may_become_so(array: Any, equal: bool) -> None:
    assert _has_equal(np.asarray(array), -1) == equal


def test_words_may_always_be_equal() -> None:
    assert _has_equal(np.array(["a"], object), -1)
    assert _has_equal(np.array([1j, 2j]), -1)


def excused(build: Any, *rows: frozenset[int] | None, arrays: Any = None) -> frozenset[int] | None:
    """Return the rows of the output of a graph of x (and of b, a second input) that excuses for some rows affect."""
    g = Graph()
    x, b = g.input("x", F, ["n", 3]), g.input("b", F, ["m", 3])
    g.output(build(g, x, b), "y")
    given = {"x": np.arange(12, dtype=np.float32).reshape(4, 3), "b": np.ones((4, 3), np.float32)}
    node = g.model().graph.node(0)
    excuses = [_Excuse(node, each) for each in rows]
    return _excused_rows(g.model(), "y", excuses, given if arrays is None else given | arrays)


def own_rows(g: Graph, x: ir.Value, b: ir.Value) -> ir.Value:
    return g.Add(g.Sqrt(x), b)


ONE, TWO = frozenset({1}), frozenset({2, 3})


def test_rows_that_go_their_own_ways() -> None:
    assert excused(own_rows, ONE) == ONE
    assert excused(own_rows, ONE, TWO) == ONE | TWO
    assert excused(own_rows, ONE, None) is None
    assert excused(own_rows, frozenset({0, 1, 2, 3})) is None, "none is kept"
    assert excused(own_rows, frozenset({0, 1, 2})) == {0, 1, 2}
    assert excused(own_rows, frozenset({1, 4})) is None, "there is no such row"
    assert excused(own_rows, frozenset({3})) == {3}


def test_nan_that_stays_is_the_same() -> None:
    negative = np.full((4, 3), -1, np.float32)
    assert excused(own_rows, ONE, arrays={"x": negative}) == ONE


def test_inputs_of_several_lengths_have_no_rows() -> None:
    assert excused(lambda g, x, b: g.Identity(x), ONE, arrays={"b": np.ones((5, 3), np.float32)}) is None
    assert _excused_rows(Graph().model(), "y", [_Excuse(ir.node("Add", []), ONE)], None) is None


@pytest.mark.parametrize(
    "build",
    [
        lambda g, x, b: g.Add(x, g.ReduceSum(g.Mul(b, x), np.array([0]), keepdims=1)),
        lambda g, x, b: g.Sub(x, g.ReduceMax(x, np.array([0]), keepdims=1)),
        lambda g, x, b: g.ReduceSum(x, np.array([0, 1]), keepdims=0),
        lambda g, x, b: g.Concat(x, x, axis=0),
        lambda g, x, b: g.Transpose(x, perm=[1, 0]),
    ],
)
def test_rows_that_others_are_computed_from(build: Any) -> None:
    assert excused(build, TWO) is None


def test_an_output_whose_length_depends_on_the_rows_has_none() -> None:
    def positive(g: Graph, x: ir.Value, b: ir.Value) -> ir.Value:
        return g.Compress(x, g.Greater(g.ReduceSum(b, np.array([1]), keepdims=0), np.float32(0)), axis=0)

    half = np.ones((4, 3), np.float32)
    half[2:] = -1
    assert excused(positive, frozenset({1})) == {1}
    assert excused(positive, TWO, arrays={"b": half}) is None
    assert excused(positive, frozenset({0}), arrays={"b": half}) is None


def test_a_graph_that_does_not_run_has_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any, **options: Any) -> Any:
        raise ValueError("no")

    monkeypatch.setattr("convert.reference.executor.run", fails)
    assert excused(own_rows, ONE) is None
    assert ValueError in special_verdict._NOT_RUN
