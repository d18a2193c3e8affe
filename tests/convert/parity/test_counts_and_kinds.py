"""Small functions of the verdict by hand: counts of what differs, kinds of numbers, the largest, masks, boundaries."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.parity.boundary_values import _MOST, _with_whole_rows, boundary_values, mix_boundary_values
from convert.parity.compare import _count_wrong, _same_kind
from convert.parity.distribution import distribution_difference
from convert.parity.magnitudes import smaller_columns
from convert.parity.nonfinite import _kinds
from convert.parity.special import _kinds as kinds_of_elements
from convert.parity.ties import _largest
from convert.parity.uneven import _overflow_reason
from convert.parity.weights import _comparable

T = ir.DataType


def test_wrong_integers_of_a_source_of_another_shape_are_those_that_differ() -> None:
    source, target = np.array([1, 2, 3, 4, 5]), np.array([1, 3, 2, 4, 5])
    assert _count_wrong(np.zeros(2, np.int64), source, target) == 2
    assert _count_wrong(np.zeros(2, np.int64), source, source.copy()) == 0


def test_each_element_is_a_number_or_the_same_infinity_or_nan_on_both_sides() -> None:
    a = np.array([1.0, np.nan, np.inf, -np.inf, np.nan, np.inf, 1.0, 2.0, np.inf])
    b = np.array([3.0, np.nan, np.inf, -np.inf, np.inf, -np.inf, np.nan, np.inf, 0.0])
    assert _same_kind(a, b).tolist() == [True, True, True, True, False, False, False, False, False]


@pytest.mark.parametrize(
    ("content", "kinds"),
    [([1.0], set()), ([np.nan], {"nan"}), ([np.inf, 1], {"+"}), ([-np.inf, 1], {"-"}),
     ([np.nan, -np.inf, np.inf], {"nan", "+", "-"}), ([3], set())],
)  # fmt: skip
def test_kinds_of_an_array(content: list[float], kinds: set[str]) -> None:
    assert _kinds(np.array(content, np.float32)) == kinds
    assert _kinds(np.array([7])) == set()


def test_kinds_of_elements() -> None:
    given = [0.0, np.nan, np.inf, -np.inf]
    assert kinds_of_elements(np.array(given)).tolist() == [0, 1, 2, 3]
    assert kinds_of_elements(np.array([1 + 2j, complex(np.nan, 0), complex(0, np.inf)])).tolist() == [0, 1, 1]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 9])
def test_places_of_the_largest(most: int) -> None:
    off = np.array([3.0, 0.0, 5.0, 5.0, 1.0, 2.0])
    assert _largest(off, most) == [2, 3, 0, 5, 4][:most]


def test_columns_that_are_far_smaller_are_found_whatever_the_size_of_the_whole() -> None:
    small = np.ones((40, 2))
    small[:, 1] = 1e-6
    for size in (1.0, 1e200, 1e-200):
        (mask,) = smaller_columns(small * size)
        assert mask[:, 1].all()
        assert not mask[:, 0].any()
    for count in (7, 8, 9):
        assert len(smaller_columns(small[:count])) == (count >= 8), count


@pytest.mark.parametrize("count", [_MOST - 1, _MOST, _MOST + 1])
def test_tables_beyond_a_length_are_no_boundaries(count: int) -> None:
    g = Graph()
    x = g.input("x", T.INT64, ["n", 1])
    g.output(g.Equal(x, np.arange(10, 10 + count)[None]), "y")
    assert bool(boundary_values(g.model().graph.inputs[0])) == (count <= _MOST)


def test_an_absent_bound_of_a_clip_is_none() -> None:
    g = Graph()
    x = g.input("x", T.FLOAT, ["n"])
    g.output(g.node("Clip", [x, None, g.const(np.float32(6))]), "y")
    assert boundary_values(g.model().graph.inputs[0]) == [3.0, 6.0, 9.0]


def test_what_bounds_a_clip_is_compared_with_nothing() -> None:
    g = Graph()
    x = g.input("x", T.FLOAT, [])
    g.output(g.node("Clip", [g.const(np.ones(3, np.float32)), g.const(np.float32(-1)), x]), "y")
    assert boundary_values(g.model().graph.inputs[0]) == []


@pytest.mark.parametrize("rows", [1, 2, 3, 64, 128])
def test_some_rows_of_masks_are_whole(rows: int) -> None:
    mask = np.tile(np.array([True, False, True, False]), (rows, 1))
    made = _with_whole_rows(mask.copy(), np.random.default_rng(0))
    filled, emptied = made.all(1).sum(), (~made).all(1).sum()
    assert (filled, emptied) == ((0, 0) if rows < 3 else (max(1, rows // 10), max(1, rows // 10)))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_indices_of_two_choices_have_whole_rows_where_there_are_several(size: int) -> None:
    g = Graph()
    x = g.input("x", T.INT64, [1, size])
    g.output(g.Gather(g.const(np.zeros((2, 3), np.float32)), x), "y")
    value = g.model().graph.inputs[0]
    made = mix_boundary_values(value, np.zeros((1, size), np.int64), 1, 2)
    assert made is not None
    assert set(made.ravel().tolist()) <= {0, 1}


def test_of_padded_steps_a_fifth_of_the_rows_is_one_number() -> None:
    g = Graph()
    x = g.input("x", T.FLOAT, ["n", "t", 4])
    g.output(g.Greater(x, np.float32(0.5)), "y")
    array = np.random.default_rng(0).normal(size=(40, 50, 4)).astype(np.float32)
    made = mix_boundary_values(g.model().graph.inputs[0], array.copy(), 1)
    assert made is not None
    whole = (made == made[..., :1]).all(-1).mean()
    others = (made != array).mean()
    assert 0.15 < whole < 0.25
    assert 0.18 < others < 0.28


def test_draws_of_other_centres_and_spreads_differ() -> None:
    rng = np.random.default_rng(0)

    def draws(centre: float, spread: float) -> list[np.ndarray]:
        return [centre + spread * rng.normal(size=50) for _ in range(400)]

    assert not distribution_difference(draws(100, 1), draws(100, 1))
    assert distribution_difference(draws(3, 1), draws(4, 1))
    assert distribution_difference(draws(0, 1), draws(0, 2))


def test_single_weights_are_compared_by_name_only() -> None:
    one, many, none = (ir.tensor(np.arange(n, dtype=np.float32)) for n in (1, 3, 0))
    assert list(_comparable({"a": one, "b": many}, {})) == ["b"]
    assert list(_comparable({"a": one, "b": many}, {"a": one})) == ["a", "b"]
    assert list(_comparable({"a": one}, {"a": many})) == []
    assert list(_comparable({"a": none}, {})) == []


def test_a_source_that_only_rounds_and_an_exact_output() -> None:
    """An output that nothing moves does not keep the note from the one that rounding alone moves."""
    exact, single = np.ones(4), np.full(4, 3.0, np.float32)
    still = np.zeros(4, np.float32)
    reason = _overflow_reason([single, still], [exact, still.astype(np.float64)], [single, still])
    assert reason.startswith("rounding alone moves the source by")
    assert not _overflow_reason([still], [still.astype(np.float64)], [still])
