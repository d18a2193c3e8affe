"""Which decisions rounding may turn: picked places, comparisons and roundings, with their margins worked out here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.parity.inputs import Feed
from convert.parity.rounding_margins import is_within_noise
from convert.parity.ties import count_flips, is_tied, worst_elements

F, I64, BOOL = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.BOOL
Build = Callable[[Graph, ir.Value], ir.Value]

THIRD = np.float32(1 / 3)
NEAR = np.array([0.1, THIRD, 0.9], np.float32)
"""Three times the middle one is 1 up to a rounding: 1.0000000298 in float64."""


def model(build: Build, shape: Any = ("n",)) -> ir.Model:
    g = Graph()
    g.output(build(g, g.Mul(g.input("x", F, shape), np.float32(3))), "y")
    return g.model()


def within(build: Build, right: Any, got: Any, x: Any = NEAR, factor: float = 4.0, name: str = "y") -> bool:
    x = np.asarray(x, np.float32)
    feeds = [Feed("one", {"x": x})]
    return is_within_noise(model(build, x.shape), name, feeds, [np.array(right)], [np.array(got)], factor)


def floor(g: Graph, v: ir.Value) -> ir.Value:
    return g.Cast(g.Floor(v), to=I64)


@pytest.mark.parametrize(
    ("build", "right", "got"),
    [
        (lambda g, v: g.Greater(v, np.float32(1)), [False, True, True], [False, False, True]),
        (lambda g, v: g.Less(v, np.float32(1)), [True, False, False], [True, True, False]),
        (lambda g, v: g.GreaterOrEqual(np.float32(1), v), [True, False, False], [True, True, False]),
        (lambda g, v: g.Not(g.LessOrEqual(v, np.float32(1))), [False, True, True], [False, False, True]),
        (lambda g, v: g.Reshape(g.Greater(v, np.float32(1)), [3, 1]), [[False], [True], [True]],
         [[False], [False], [True]]),
        (lambda g, v: g.Reshape(g.Cast(g.Greater(v, np.float32(1)), to=F), [3, 1]), [[0.0], [1.0], [1.0]],
         [[0.0], [0.0], [1.0]]),
        (lambda g, v: g.Cast(g.Greater(v, np.float32(1)), to=I64), [0, 1, 1], [0, 0, 1]),
        (floor, [0, 1, 2], [0, 0, 2]),
        (lambda g, v: g.Cast(g.Ceil(v), to=I64), [1, 2, 3], [1, 1, 3]),
        (lambda g, v: g.Cast(v, to=I64), [0, 1, 2], [0, 0, 2]),
        (lambda g, v: g.Cast(g.Cast(v, to=I64), to=ir.DataType.INT32), [0, 1, 2], [0, 0, 2]),
        (lambda g, v: g.Cast(g.Round(g.Sub(v, np.float32(0.5))), to=I64), [0, 1, 2], [0, 0, 2]),
    ],
)  # fmt: skip
def test_a_margin_of_a_rounding_is_noise_and_a_larger_is_not(build: Build, right: list[Any], got: list[Any]) -> None:
    assert within(build, right, got)
    assert within(build, right, right)
    # The next number is 0.3: far from the edge; and no factor leaves no noise.
    assert not within(build, right, got, [0.1, 0.34, 0.9])
    assert not within(build, right, got, factor=0.0)
    wrong = [*got[:-1], right[0]]
    assert not within(build, right, wrong), "the last is decided by far"
    for few in (1, 2):
        assert not within(build, right, got[:few])
        assert not within(build, right[:few], got)
    assert not within(build, right, got, name="z")


def test_margins_of_many_numbers_are_noise() -> None:
    more: Build = lambda g, v: g.Greater(v, np.float32(1))  # noqa: E731
    x = np.full(400, 0.1, np.float32)
    x[399] = THIRD
    right, got = np.arange(400) == 399, np.zeros(400, bool)
    assert within(more, right, got, x)
    assert not within(more, right, ~got, x)


def test_whole_numbers_are_one_apart_at_the_most() -> None:
    assert within(floor, [0, 1, 2], [0, 2, 2])
    assert not within(floor, [0, 1, 2], [0, 3, 2])
    assert not within(floor, [0, 1, 2], [0, -1, 2])


def test_what_is_equal_in_float64_is_no_matter_of_rounding() -> None:
    """3 · 0.5 is 1.5 in both: what a comparison makes of it is said by the operator."""
    equal: Build = lambda g, v: g.Greater(v, np.float32(1.5))  # noqa: E731
    assert not within(equal, [False, False, True], [False, True, True], [0.1, 0.5, 0.9])


@pytest.mark.parametrize(
    "build",
    [
        lambda g, v: g.Neg(g.Cast(v, to=I64)),
        lambda g, v: g.Equal(g.Cast(v, to=I64), np.int64(1)),
        lambda g, v: g.Cast(g.Abs(g.Cast(v, to=I64)), to=ir.DataType.INT32),
        lambda g, v: g.ArgMax(v, axis=0, keepdims=0),
    ],
)
def test_other_operators_decide_nothing(build: Build) -> None:
    assert not within(build, [0, 1, 2], [0, 0, 2])


def test_a_graph_that_does_not_run_explains_nothing() -> None:
    def unheard(g: Graph, v: ir.Value) -> ir.Value:
        made = g.Neg(v)
        made.producer().op_type = "Unheard"
        return g.Cast(made, to=I64)

    assert not within(unheard, [0, 1, 2], [0, 0, 2])

    def picked(g: Graph, v: ir.Value) -> ir.Value:
        made = g.Neg(v)
        made.producer().op_type = "Unheard"
        return g.ArgMax(made, axis=0, keepdims=0)

    feeds = [Feed("one", {"x": NEAR})]
    assert not is_tied(model(picked, (3,)), "y", feeds, [np.array(2)], [np.array(1)], 4.0)


# Scores that a product gives: the second and third are a rounding apart.
SCORES = np.array([[0.1, 0.7, np.nextafter(np.float32(0.7), np.float32(0)), 0.2]], np.float32)


@pytest.mark.parametrize(
    ("build", "right", "got", "tied"),
    [
        (lambda g, v: g.ArgMax(v, axis=1, keepdims=0), [1], [2], True),
        (lambda g, v: g.ArgMax(v, axis=1, keepdims=1), [[1]], [[2]], True),
        (lambda g, v: g.ArgMax(v, axis=1, keepdims=0), [1], [0], False),
        (lambda g, v: g.ArgMax(v, axis=1, keepdims=0), [1], [[2]], False),
        (lambda g, v: g.ArgMin(g.Neg(v), axis=-1, keepdims=0), [1], [2], True),
        (lambda g, v: g.Squeeze(g.ArgMax(v, axis=1, keepdims=1), np.array([1])), [1], [2], True),
        (lambda g, v: g.TopK(v, [2], outputs=2)[1], [[1, 2]], [[2, 1]], True),
        (lambda g, v: g.TopK(v, [3], outputs=2)[1], [[1, 2, 3]], [[2, 1, 3]], True),
        (lambda g, v: g.TopK(v, [3], outputs=2)[1], [[1, 2, 3]], [[2, 1, 0]], False),
        (lambda g, v: g.TopK(v, [2], outputs=2)[1], [[1, 2]], [[2, 2]], False),
        (lambda g, v: g.TopK(v, [2], outputs=2)[1], [[1, 2]], [[2, 4]], False),
        (lambda g, v: g.TopK(v, [2], outputs=2)[1], [[1, 2]], [[-3, 1]], False),
        (lambda g, v: g.Mul(g.ArgMax(v, axis=1, keepdims=0), np.int64(1)), [1], [2], True),
        (lambda g, v: g.Mul(g.ArgMax(v, axis=1, keepdims=0), np.int64(1)), [1], [3], False),
    ],
)
def test_places_are_tied_by_their_scores(build: Build, right: Any, got: Any, tied: bool) -> None:
    feeds = [Feed("one", {"x": SCORES})]
    assert is_tied(model(build, (1, 4)), "y", feeds, [np.array(right)], [np.array(got)], 4.0) == tied
    # Each set has to be: here the second is wrong by far.
    both = [np.array(right)] * 2, [np.array(got), np.array(got) * 0]
    assert not is_tied(model(build, (1, 4)), "y", feeds * 2, *both, 4.0)


def test_many_rows_are_tied_by_their_scores() -> None:
    feeds, made = [Feed("one", {"x": np.tile(SCORES, (400, 1))})], model(lambda g, v: g.ArgMax(v, axis=1), (400, 4))
    right, other = np.full((400, 1), 1), np.full((400, 1), 2)
    assert is_tied(made, "y", feeds, [right], [other], 4.0)
    other[399] = 0
    assert not is_tied(made, "y", feeds, [right], [other], 4.0)


@pytest.mark.parametrize("mask", [-1e9, -1e20, np.finfo(np.float32).min, -np.inf])
def test_beside_a_masked_score_others_are_no_ties(mask: float) -> None:
    """Its rounding is 30 and more, which is none of theirs."""

    def masked(g: Graph, v: ir.Value) -> ir.Value:
        return g.ArgMax(g.Where(np.array([False, False, False, True]), np.float32(mask), v), axis=1, keepdims=0)

    feeds, made = [Feed("one", {"x": SCORES})], model(masked, (1, 4))
    assert is_tied(made, "y", feeds, [np.array([1])], [np.array([2])], 4.0)
    assert not is_tied(made, "y", feeds, [np.array([1])], [np.array([0])], 4.0)
    assert not is_tied(made, "y", feeds, [np.array([1])], [np.array([3])], 4.0)


@pytest.mark.parametrize("decide", [lambda g, v: g.Greater(v, np.float32(1)), lambda g, v: g.Cast(v, to=I64)])
def test_beside_a_time_stamp_others_are_decided_by_their_own_margin(decide: Build) -> None:
    """Its rounding is 100, which is none of theirs."""

    def stamped(g: Graph, v: ir.Value) -> ir.Value:
        return decide(g, g.Concat(v, g.Mul(v, np.float32(1e9)), axis=0))

    large = [1, 1, 1] if decide(g := Graph(), g.input("v", F, [1])).dtype == BOOL else [3e8, 1e9, 2.7e9]
    assert within(stamped, [0, 1, 1, *large], [0, 0, 1, *large])
    assert not within(stamped, [0, 1, 1, *large], [1, 1, 1, *large])


def test_scores_that_are_given_have_a_rounding_of_their_size() -> None:
    """2**-24 of the root mean square, times the factor: 1e-7 or so beside numbers of 1, 1e-4 beside 1,000."""
    g = Graph()
    g.output(g.ArgMax(g.input("x", F, [4]), axis=0, keepdims=0), "y")
    made = g.model()
    for size, apart in ((1.0, 1.2e-7), (1000.0, 1.2e-4)):
        for times, tied in ((1, True), (3, False)):
            x = np.array([size, size - times * apart, -size, -size], np.float64)
            feeds = [Feed("one", {"x": x})]
            assert is_tied(made, "y", feeds, [np.array(0)], [np.array(1)], 4.0) == tied, (size, times)


@pytest.mark.parametrize(("apart", "tied"), [(2.4e-7, True), (3.6e-7, False)])
def test_scores_that_float32_has_exactly_have_a_rounding_of_their_size(apart: float, tied: bool) -> None:
    """Twice 0.5 to 1.5, which float32 holds: four times 2**-24 of their root mean square of 2.4 is 5.6e-7."""
    g = Graph()
    g.output(g.ArgMax(g.Mul(g.input("x", ir.DataType.DOUBLE, [4]), np.float64(2)), axis=0, keepdims=0), "y")
    feeds = [Feed("one", {"x": np.array([1.5, 1.5 - apart, -0.5, -1.25])})]
    assert is_tied(g.model(), "y", feeds, [np.array(0)], [np.array(1)], 4.0) == tied


def test_rows_whose_largest_moved() -> None:
    reference = np.array([[[1.0, 2.0], [5.0, 5.1]], [[0.0, -1.0], [3.0, 3.0]]])
    target = np.array([[[2.0, 1.0], [5.1, 5.0]], [[0.0, -1.0], [3.0, 4.0]]])
    assert count_flips(reference, target, 0.0) == (2, 4)
    assert count_flips(reference, target, 0.2) == (1, 4)
    assert count_flips(reference, target, 1.0) == (0, 4)
    assert count_flips(reference, reference, 0.0) == (0, 4)
    one, other = np.array([[[0.0, 5.0, 1.0], [2.0, 3.0, 9.0]]]), np.array([[[0.0, 1.0, 5.0], [2.0, 3.0, 9.0]]])
    assert count_flips(one, other, 0.0) == (1, 2)


def test_errors_are_relative_to_what_is_finite_in_floats_and_plain_in_integers() -> None:
    reference, target = np.array([3.0, 4.0, np.inf, np.nan]), np.array([3.5, 4.0, 1.0, 1.0])
    found = worst_elements([reference], [target], ["a"])
    assert [(e.index, e.feed) for e in found] == [((2,), "a"), ((3,), "a"), ((0,), "a")]
    assert found[2].error == pytest.approx(0.5 / np.sqrt(12.5))
    (whole,) = worst_elements([np.array([7, 9])], [np.array([7, 12])], ["a"])
    assert (whole.error, whole.reference, whole.target) == (3.0, 9.0, 12.0)
    (flag,) = worst_elements([np.array([True, False])], [np.array([True, True])], ["a"])
    assert (flag.index, flag.error) == ((1,), 1.0)
    (zero,) = worst_elements([np.zeros(3)], [np.array([0.0, 0.0, 0.25])], ["a"])
    assert (zero.index, zero.error) == ((2,), 0.25)
