"""The rows that a declared difference may apply to: those with equal elements, or with NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.parity.compare.special_verdict import (
    _Excuse,
    _excused_rows,
    _has_equal,
    _nonfinite_rows,
    _rows_with_equal,
    _with_rows,
)
from convert.parity.inputs.special import TINY

NAN, INF = np.nan, np.inf
NONE: frozenset[int] = frozenset()


@pytest.mark.parametrize(
    ("array", "axis", "rows"),
    [
        ([1.0, 2.0, 1.0], 0, None),
        ([1.0, 2.0, 1.0], -1, None),
        ([1.0, 2.0, 3.0], 0, NONE),
        ([[1.0, 2.0], [3.0, 3.0]], 1, {1}),
        ([[1.0, 2.0], [3.0, 3.0]], -1, {1}),
        ([[1.0, 2.0], [3.0, 3.0]], 0, NONE),
        ([[1.0, 2.0], [1.0, 3.0]], 0, None),
        ([[1.0, 2.0], [1.0, 3.0]], -2, None),
        ([[4.0, 4.0], [1.0, 3.0], [5.0, 5.0]], 1, {0, 2}),
        ([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [5.0, 7.0]]], 1, {1}),
        ([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [5.0, 7.0]]], -2, {1}),
        ([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [5.0, 7.0]]], 2, NONE),
        ([[[1.0, 1.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]], 2, {0}),
        ([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 6.0], [7.0, 8.0]]], 0, None),
        (7.0, -1, NONE),
    ],
)
def test_rows_with_equal_elements_along_an_axis(array: Any, axis: int, rows: Any) -> None:
    """Along the rows themselves, all rows are affected."""
    assert _rows_with_equal(np.array(array), axis) == rows


@pytest.mark.parametrize(
    ("array", "equal"),
    [
        ([1.0, 1 + 0.9e-5], True),
        ([1.0, 1 + 1.1e-5], False),
        ([-1.0, -1 - 0.9e-5], True),
        ([-1.0, -1 - 1.1e-5], False),
        ([0.0, TINY], True),
        ([0.0, 1.1 * TINY], False),
        ([3.0, 1.0, 2.0, 3.0], True),
        ([INF, INF], True),
        ([INF, -INF], False),
        ([INF, 1.0], False),
        ([NAN, NAN], True),
        ([NAN, 1.0], False),
        ([5.0], False),
        ([1, 2], False),
        ([2, 2], True),
        (["a", "b"], True),
        ([1j, 2j], True),
    ],
)
def test_elements_are_equal_as_far_as_rounding_tells(array: Any, equal: bool) -> None:
    assert _has_equal(np.array(array), 0) == equal
    assert _has_equal(np.array([array, array]), 1) == equal


@pytest.mark.parametrize(
    ("array", "rows"),
    [
        ([[1.0, NAN], [1.0, 2.0], [-INF, 2.0]], {0, 2}),
        ([1.0, INF, 2.0], {1}),
        ([[[1.0], [2.0]], [[3.0], [NAN]]], {1}),
        ([1, 2], NONE),
        ([True], NONE),
        (["nan"], NONE),
        (NAN, None),
        (INF, None),
        (1.0, NONE),
        (np.zeros((0, 3)), NONE),
        (np.zeros((3, 0)), NONE),
    ],
)
def test_rows_that_hold_what_is_no_number(array: Any, rows: Any) -> None:
    assert _nonfinite_rows(np.array(array)) == rows


def test_rows_of_the_source_are_put_in_their_places() -> None:
    output, source = np.zeros((3, 2)), np.ones((3, 2))
    assert _with_rows(output, source, None) is source
    assert _with_rows(output, source[:2], frozenset({0})).tolist() == output.tolist()
    assert _with_rows(output, source, frozenset({0, 2})).tolist() == [[1, 1], [0, 0], [1, 1]]
    assert output.sum() == 0


def excused(build: Any, *rows: Any, **arrays: Any) -> frozenset[int] | None:
    """Return the rows of the output that differences in these rows of the inputs may affect."""
    g = Graph()
    given = {name: np.array(array, np.float32) for name, array in arrays.items()}
    values = [g.input(name, ir.DataType.FLOAT, list(a.shape)) for name, a in given.items()]
    y = build(g, *values)
    g.output(y, "y")
    excuses = [_Excuse(y.producer(), None if each is None else frozenset(each)) for each in rows]
    return _excused_rows(g.model(), "y", excuses, given)


X = [[1.0, 2.0], [3.0, 5.0], [-7.0, 9.0]]


def test_rows_that_go_their_own_ways_are_excused_alone() -> None:
    def negative(g: Graph, x: ir.Value) -> ir.Value:
        return g.Log(x)  # the last row has NaN, which stays NaN

    assert excused(negative, {1}, x=X) == {1}
    assert excused(negative, {0}, {1}, x=X) == {0, 1}
    assert excused(negative, {1}, (), x=X) == {1}
    assert excused(negative, {1}, None, x=X) is None
    assert excused(negative, {0, 1, 2}, x=X) is None, "none is left to be held"
    assert excused(negative, {3}, x=X) is None, "there is no such row"


def test_a_row_that_another_makes_no_number_is_not_its_own() -> None:
    """Infinity times 0 in the second row gives NaN in all rows; a finite number there does not."""
    x = [[1.0], [INF], [3.0]]
    assert excused(lambda g, x: g.Add(x, g.Mul(g.ReduceMax(x, np.array([0])), np.float32(0))), {1}, x=x) is None
    assert excused(lambda g, x: g.Mul(x, np.float32(0)), {1}, x=x) == {1}


def test_excused_rows_are_given_what_the_first_of_the_others_has(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def run(model: ir.Model, arrays: Any, outputs: Any) -> dict[str, np.ndarray]:
        asked.append(arrays["x"].tolist())
        return {"y": arrays["x"]}

    monkeypatch.setattr("convert.reference.executor.run", run)
    rows = [[float(n)] for n in range(5)]
    assert excused(lambda g, x: g.Neg(x), {0}, {3}, x=rows) == {0, 3}
    assert asked == [rows, [[1.0], [1.0], [2.0], [1.0], [4.0]]]


@pytest.mark.parametrize(
    "build",
    [
        lambda g, x: g.Sub(x, g.ReduceMean(x, np.array([0]), keepdims=1)),
        lambda g, x: g.ReduceSum(x, np.array([0]), keepdims=0),
        lambda g, x: g.ReduceMax(x, np.array([0, 1]), keepdims=0),
        lambda g, x: g.Slice(x, [0], [2], [0]),
        lambda g, x: g.Transpose(x, perm=[1, 0]),
        lambda g, x: g.Concat(x, x, axis=0),
    ],
)
def test_rows_that_meet_or_are_not_those_of_the_inputs_are_excused_together(build: Any) -> None:
    assert excused(build, {1}, x=X) is None


def test_inputs_have_rows_together() -> None:
    def both(g: Graph, x: ir.Value, other: ir.Value) -> ir.Value:
        return g.Add(x, other)

    assert excused(both, {0}, x=X, other=X) == {0}
    assert excused(both, {0}, x=X, other=X[:1]) is None
    assert excused(both, {0}, x=X, other=1.0) is None


def test_what_does_not_run_excuses_every_row() -> None:
    def unheard(g: Graph, x: ir.Value) -> ir.Value:
        y = g.Neg(x)
        y.producer().op_type = "Unheard"
        return y

    assert excused(unheard, {1}, x=X) is None
    g = Graph()
    g.output(g.Neg(g.input("x", ir.DataType.FLOAT, [3, 2])), "y")
    assert _excused_rows(g.model(), "y", [], None) is None
    assert _excused_rows(g.model(), "y", [], {}) is None
