"""Elements among those of runs that were moved, and how scores are moved for that: with numbers worked out here."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.differences import Difference
from convert.graph import Graph
from convert.parity import flipped_steps, tied_counts
from convert.parity.flipped_steps import is_among
from convert.parity.inputs import Feed
from convert.parity.moves import moved_array
from convert.parity.tied_counts import _drawn, _moves, _pickers, _runs, is_of_tied_scores

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64
FLIPS = [np.zeros(8, int), *np.eye(8, dtype=int)]
"""Eight elements, of which each run flips one."""


def changed(array: np.ndarray, **by: float) -> np.ndarray:
    array = array.copy()
    for place, change in by.items():
        array[int(place[1:])] += change
    return array


@pytest.mark.parametrize(("count", "among"), [(0, True), (1, True), (4, True), (5, False), (8, False)])
def test_four_times_as_many_as_a_run_flips_may_differ(count: int, among: bool) -> None:
    other = (np.arange(8) < count).astype(int)
    assert is_among(FLIPS, FLIPS[0], other) == among
    assert is_among(FLIPS, other, FLIPS[0]) == among
    twice = [FLIPS[0], *(one + np.roll(one, 1) for one in FLIPS[1:])]
    assert is_among([*twice[:2], *FLIPS[1:], *twice[2:]], FLIPS[0], other), "two at once make eight"


@pytest.mark.parametrize("by", [-1, 2])
def test_a_step_that_no_run_takes_is_not_among_them(by: int) -> None:
    off = changed(FLIPS[0], _3=by)
    assert not is_among(FLIPS, FLIPS[0], off)
    assert not is_among(FLIPS, off, FLIPS[0])
    assert is_among(FLIPS, off, off), "what is the same need not be explained"
    large = [one + (1 << 20) for one in FLIPS]
    assert not is_among(large, large[0], off + (1 << 20)), "however large the numbers are"


RUNS = [np.ones(4), changed(np.ones(4), _0=1.0)]
SLACK = 2.0**-17
"""2**-18 of the largest number, 2."""
BEYOND = SLACK * (1 + 2.0**-10)


@pytest.mark.parametrize(
    ("change", "among"),
    [
        ({"_0": 1.0}, True),
        ({"_0": 0.5}, True),
        ({"_0": 1.0 + SLACK}, True),
        ({"_0": 1.0 + BEYOND}, False),
        ({"_0": -SLACK}, True),
        ({"_0": -BEYOND}, False),
        ({"_1": SLACK}, True),
        ({"_1": BEYOND}, False),
        ({"_1": -SLACK, "_2": SLACK, "_3": -SLACK, "_0": 1.0}, True),
    ],
)
def test_floating_elements_are_among_them_up_to_rounding(change: dict[str, float], among: bool) -> None:
    other = changed(np.ones(4), **change)
    assert is_among(RUNS, np.ones(4), other) == among
    assert is_among(RUNS, other, np.ones(4)) == among


def test_runs_of_another_shape_or_without_numbers_explain_nothing() -> None:
    other = changed(np.ones(4), _0=1.0)
    assert is_among(RUNS, np.ones(4), other)
    assert not is_among([*RUNS, np.ones(3)], np.ones(4), other)
    for number in (np.nan, np.inf, -np.inf):
        assert not is_among([*RUNS, changed(np.ones(4), _2=number)], np.ones(4), other)
    nothing = np.zeros((0, 3))
    assert is_among([nothing, nothing], nothing, nothing)


def test_runs_that_flip_as_little_as_rounding_flip_nothing() -> None:
    runs = [np.ones(4), changed(np.ones(4), _0=SLACK / 4)]
    assert not is_among(runs, np.ones(4), changed(np.ones(4), _0=SLACK / 2 + SLACK / 8))
    assert is_among(runs, np.ones(4), changed(np.ones(4), _0=SLACK / 4))


def test_steps_are_looked_for_in_a_plain_run_and_32_that_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each moves the result of the one operator that there is by its own seed."""
    g = Graph()
    g.output(g.Mul(g.input("x", F, [6]), np.float32(1 / 3)), "y")
    x, asked = np.linspace(1, 2, 6).astype(np.float32), []
    monkeypatch.setattr(flipped_steps, "is_among", lambda *given: asked.append(given) or True)
    source, target = np.ones(6), np.zeros(6)
    assert flipped_steps._may_flip(g.model(), "y", Feed("one", {"x": x}), source, target)
    ((runs, first, second),) = asked
    assert (first is source, second is target, len(runs)) == (True, True, 33)
    product = x * np.float32(1 / 3)
    np.testing.assert_array_equal(runs[0], product)
    for seed, found in enumerate(runs[1:]):
        np.testing.assert_array_equal(found, moved_array(product, np.random.default_rng([31, seed])))


def test_scores_are_moved_towards_either_end_and_by_chance() -> None:
    moves = list(_moves())
    assert len(moves) == 2 + 32
    assert moves[0]((2, 3)).tolist() == [[1, 0, -1]] * 2
    assert moves[1]((2, 3)).tolist() == [[-1, 0, 1]] * 2
    for seed, move in enumerate(moves[2:]):
        wanted = np.random.default_rng([37, seed]).uniform(-1, 1, (2, 3))
        np.testing.assert_array_equal(move((2, 3)), wanted)
        np.testing.assert_array_equal(_drawn(seed, (2, 3)), wanted)


@pytest.mark.parametrize(
    ("operator", "given", "axis"),
    [("ArgMax", {}, 0), ("ArgMin", {}, 0), ("ArgMax", {"axis": 1}, 1), ("TopK", {}, 1), ("TopK", {"axis": 0}, 0)],
)
def test_scores_move_by_a_share_of_their_noise(
    operator: str, given: dict[str, Any], axis: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given scores have a noise of 2**-24 of their root mean square; the move is along the axis that is picked from."""
    g = Graph()
    x = g.input("x", ir.DataType.DOUBLE, [3, 2])
    y = g.TopK(x, [1], outputs=2, **given)[1] if operator == "TopK" else getattr(g, operator)(x, **given)
    g.output(y, "y")
    made, asked = g.model(), []
    shapes: list[tuple[int, ...]] = []

    def move(shape: tuple[int, ...]) -> np.ndarray:
        shapes.append(shape)
        return np.arange(6.0).reshape(shape)

    def run_replaced(graph: Any, arrays: Any, moved: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        asked.append(moved)
        return {"y": np.array(7)}

    monkeypatch.setattr(tied_counts, "_moves", lambda: [move])
    monkeypatch.setattr("convert.reference.replaced.run_replaced", run_replaced)
    array = np.array([[1.0, -1.0], [2.0, 2.0], [-1.0, 1.0]])
    any_of_equal = [Difference((), "any of equal elements", equal=True)]
    found = _runs(made, "y", Feed("one", {"x": array}), _pickers(made, "y"), 4.0, any_of_equal)
    assert len(found) == 2
    assert found[1] == 7
    steps = np.arange(6.0).reshape(2, 3).T if axis == 0 else np.arange(6.0).reshape(3, 2)
    assert shapes == [(2, 3) if axis == 0 else (3, 2)]
    ((name, moved),) = asked[0].items()
    assert (name, moved.dtype) == ("x", np.float64)
    np.testing.assert_allclose(moved - array, 4 * 2.0**-24 * np.sqrt(2) * steps, rtol=1e-6)


def test_which_nodes_pick_among_scores() -> None:
    """Floating ones, before the output, each once; of integers and behind the output none."""
    g = Graph()
    x, whole = g.input("x", F, [4, 3]), g.input("i", I64, [4, 3])
    values, places = g.TopK(g.Clip(x, None, np.float32(3)), [2], outputs=2)  # of an input that is left out
    largest, least = g.ArgMax(x, axis=1), g.ArgMin(whole, axis=1)
    g.output(g.Add(g.Add(places, g.Cast(values, to=I64)), g.Add(largest, least)), "y")
    g.output(g.ArgMax(g.Cast(places, to=F), axis=1), "z")
    made = g.model()
    assert sorted(node.op_type for node in _pickers(made, "y")) == ["ArgMax", "TopK"]
    assert sorted(node.op_type for node in _pickers(made, "z")) == ["ArgMax", "TopK"]
    assert _pickers(made, "z")[0].inputs[0] is not x
    assert _pickers(made, "w") == []


def test_a_graph_that_does_not_run_explains_no_counts() -> None:
    g = Graph()
    odd = g.Neg(g.input("x", F, [4, 3]))
    g.output(g.ArgMax(odd, axis=1, keepdims=0), "y")
    odd.producer().op_type = "Unheard"
    made, feed = g.model(), [Feed("one", {"x": np.ones((4, 3), np.float32)})]
    right, other = np.array([0, 1, 2, 0]), np.array([0, 1, 2, 1])
    assert not is_of_tied_scores(made, "y", feed, [right], [other], 4.0)
    assert is_of_tied_scores(made, "y", feed, [right], [right], 4.0)
