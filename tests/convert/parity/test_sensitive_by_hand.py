"""Which errors of elements a rounding excuses: at the bounds, and a hair beyond them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from convert.errors import ConvertError
from convert.parity import sensitive
from convert.parity.inputs import Feed
from convert.parity.sensitive import unexplained_error

Moves = Callable[[int], np.ndarray]
EDGE = 1e-9 / 16
"""By so much an element has to move to be sensitive."""


def error_of(monkeypatch: pytest.MonkeyPatch, own: np.ndarray, moves: Moves, exact: Any = None) -> tuple[float, int]:
    """The unexplained error of `own` beside ones (or `exact`), where run number n gives moves(n); and how many runs."""
    runs: list[int] = []

    def outputs(graph: Any, feed: Feed, name: str, seed: int) -> np.ndarray:
        runs.append(seed)
        return moves(seed)

    monkeypatch.setattr(sensitive, "_outputs", outputs)
    given = np.ones(own.shape) if exact is None else exact
    found = unexplained_error(None, "y", Feed("one", {}), given, own)  # type: ignore[arg-type]
    assert runs == list(range(len(runs)))
    return found, len(runs)


def changed(**by: float) -> np.ndarray:
    """Eight ones, some of them changed."""
    array = np.ones(8)
    for place, change in by.items():
        array[int(place[1:])] += change
    return array


def moved_by(**by: float) -> Moves:
    """Every disturbed run moves the same elements by as much."""
    return lambda seed: changed(**by) if seed else np.ones(8)


def test_what_is_within_the_bound_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert error_of(monkeypatch, changed(_0=2.0**-40), moved_by()) == (2.0**-40, 0)


@pytest.mark.parametrize(("error", "found"), [(2.0**-16, 0.0), (2.0**-16 + 2.0**-40, 2.0**-16 + 2.0**-40)])
def test_sixteen_times_what_a_rounding_moves(error: float, found: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert error_of(monkeypatch, changed(_0=error), moved_by(_0=2.0**-20)) == (found, 2 if not found else 25)


@pytest.mark.parametrize(("move", "excused"), [(EDGE * 0.9, False), (EDGE * 1.1, True), (-EDGE * 1.1, True)])
def test_only_what_moves_itself_is_excused(move: float, excused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = error_of(monkeypatch, changed(_0=2.0**-10), moved_by(_0=move, _1=0.5))
    assert found == (0.0 if excused else 2.0**-10)
    found, _ = error_of(monkeypatch, changed(_0=2.0**-10), moved_by(_1=0.5))
    assert found == 2.0**-10


def test_a_small_error_beside_an_excused_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    found, runs = error_of(monkeypatch, changed(_0=2.0**-10, _3=2.0**-33), moved_by(_0=2.0**-10))
    assert (found, runs) == (2.0**-33, 2)
    # Of what does not move itself the error stays, though it is beyond the bound as well.
    found, runs = error_of(monkeypatch, changed(_0=2.0**-10, _3=2.0**-20), moved_by(_0=2.0**-10))
    assert (found, runs) == (2.0**-20, 25)


@pytest.mark.parametrize(("moved", "found", "runs"), [((0, 1, 2), 0.0, 2), ((0, 1), 2.0**-10, 5), ((), 2.0**-10, 5)])
def test_where_many_are_off_each_has_to_move_itself(
    moved: tuple[int, ...], found: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of eight are more than a quarter."""
    off = dict.fromkeys(("_0", "_1", "_2"), 2.0**-10)
    moves = moved_by(**{f"_{place}": 2.0**-10 for place in moved})
    assert error_of(monkeypatch, changed(**off), moves) == (found, runs)
    # What moves by a sixteenth of the error is its rounding, and what moves by less is not.
    for factor, explained in ((2.0**-14, 0.0), (2.0**-15, 2.0**-10)):
        weak = moved_by(**dict.fromkeys(off, factor))
        assert error_of(monkeypatch, changed(**off), weak)[0] == explained


def test_moves_of_several_runs_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the runs moves one of two elements, and the later ones by less."""

    def moves(seed: int) -> np.ndarray:
        return {0: np.ones(8), 1: changed(_0=2.0**-10), 2: changed(_1=2.0**-10)}.get(seed, np.ones(8))

    assert error_of(monkeypatch, changed(_0=2.0**-10, _1=2.0**-10), moves) == (0.0, 3)


def test_the_last_run_may_be_the_one_that_moves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for last, found in ((24, 0.0), (25, 2.0**-10)):

        def moves(seed: int, last: int = last) -> np.ndarray:
            return changed(_0=2.0**-10) if seed == last else np.ones(8)

        assert error_of(monkeypatch, changed(_0=2.0**-10), moves) == (found, 25)


@pytest.mark.parametrize("kind", [np.nan, np.inf, -np.inf])
def test_what_becomes_no_number(kind: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """An element that is no number on one side is excused where a rounding makes it one."""

    def moves(place: int) -> Moves:
        return lambda seed: np.where(np.arange(8) == place, kind, 1.0) if seed else np.ones(8)

    assert error_of(monkeypatch, changed(_0=kind), moves(0)) == (0.0, 2)
    assert error_of(monkeypatch, changed(_0=kind), moves(1)) == (np.inf, 0 + 25)
    assert error_of(monkeypatch, changed(_0=kind), moved_by(_0=0.5)) == (np.inf, 25)
    # On both sides there is nothing to excuse.
    exact = changed(_0=kind)
    assert error_of(monkeypatch, changed(_0=kind, _1=2.0**-10), moved_by(_1=2.0**-10), exact) == (0.0, 2)
    assert error_of(monkeypatch, changed(_0=kind, _1=2.0**-10), moves(0), exact) == (2.0**-10, 25)


def test_infinities_of_two_signs_are_no_number_of_one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    for seeds, found in (({0: np.inf}, 0.0), ({}, np.inf)):

        def moves(seed: int, seeds: dict[int, float] = seeds) -> np.ndarray:
            return changed(_0=seeds.get(seed, -np.inf))

        assert error_of(monkeypatch, changed(_0=-np.inf), moves, changed(_0=np.inf))[0] == found


def test_other_shapes_and_integers_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert error_of(monkeypatch, np.ones(7), moved_by(), np.ones(8)) == (np.inf, 0)
    assert error_of(monkeypatch, np.ones(8, int), moved_by(), np.zeros(8, int)) == (np.inf, 0)
    late = changed(_0=2.0**-10)
    assert error_of(monkeypatch, late, lambda seed: np.ones(8 - (seed == 3))) == (2.0**-10, 4)


def test_a_graph_that_does_not_run_excuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seed: int) -> np.ndarray:
        raise ConvertError("no")

    assert error_of(monkeypatch, changed(_0=2.0**-10), fails)[0] == 2.0**-10


def test_errors_are_relative_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    own = changed(_0=2.0**-10) * 2.0**20
    exact = np.full(8, 2.0**20)
    assert error_of(monkeypatch, own, lambda seed: exact, exact)[0] == 2.0**-10
    assert error_of(monkeypatch, own, lambda seed: own if seed else exact, exact) == (0.0, 2)
    # Sixteen times a move of 2^-16 of the whole is less than what it is off by.
    moved = exact + np.array([16.0] + [0.0] * 7)
    assert error_of(monkeypatch, own, lambda seed: moved if seed else exact, exact)[0] == 2.0**-10
    # In units of nothing: all elements are 0.
    found, _ = error_of(monkeypatch, np.array([0.0] * 7 + [1e-300]), lambda seed: np.zeros(8), np.zeros(8))
    assert found > 1
