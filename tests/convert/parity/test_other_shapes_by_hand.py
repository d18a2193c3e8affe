"""Arrays of another shape or dtype, smaller and larger on either side: they are never compared number by number."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.parity.compare import argmax_agreement, compare, float64_error
from convert.parity.distribution import redraws
from convert.parity.draws import _differ_by_value
from convert.parity.flipped_steps import is_among, is_of_flipped_steps
from convert.parity.float64_noise import _farthest
from convert.parity.floors import distance
from convert.parity.inputs import Feed
from convert.parity.nonfinite import _count, _patched
from convert.parity.profile import _relative_error
from convert.parity.randomness import describe_repeats, judge_random
from convert.parity.sensitive import unexplained_error
from convert.parity.small_elements import _Errors, _errors
from convert.parity.special import special_difference
from convert.parity.special_verdict import _with_denormals, _with_nan, _with_rows
from convert.parity.tied_counts import is_of_tied_scores
from convert.parity.ties import is_tied, worst_elements
from convert.parity.weights import _apart
from convert.verdict import FAIL, INCONCLUSIVE

F = ir.DataType.FLOAT
PAIRS = [((2,), (3,)), ((1, 4), (4, 4)), ((4, 5), (5, 4)), ((20,), (4, 5)), ((4, 5), (4, 5, 1)), ((4, 1), (4, 5)),
         ((), (1,)), ((4, 5), (5, 5))]  # fmt: skip
OTHER = pytest.mark.parametrize(("one", "other"), [*PAIRS, *(pair[::-1] for pair in PAIRS)])


def numbers(shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
    return np.linspace(1, 2, int(np.prod(shape))).reshape(shape).astype(dtype)


@OTHER
def test_outputs_of_another_shape_have_no_distance(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    a, b = numbers(one), numbers(other)
    assert float64_error(a, b) == distance(a, b) == np.inf
    assert _relative_error(a, b) is None
    assert not _differ_by_value(a, b, b)
    assert not _differ_by_value(a, a, b)
    assert worst_elements([a], [b], ["one"]) == []
    assert argmax_agreement([a], [b]) is None
    assert not redraws([a, b, a])
    assert _errors(a, b, np.ones(other, bool)) == _Errors()
    assert unexplained_error(None, "y", Feed("one", {}), a, b) == np.inf  # type: ignore[arg-type]
    assert not is_among([a, a], b, b)
    assert not is_among([b, a], b, b)
    np.testing.assert_array_equal(_farthest(a, [a, b]), a)
    np.testing.assert_array_equal(_farthest(a, [b, a]), b)


@OTHER
def test_a_target_of_another_shape_fails_and_a_reference_decides_nothing(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    for kind in (np.float32, np.int64):
        a, b = numbers(one, kind), numbers(other, kind)
        found = compare("y", [a], [a], [b])
        assert (found.status, found.reason) == (FAIL, f"shape {list(other)} where the source has {list(one)}")
        found = compare("y", [b, b * 2], [a, a * 2], [a, a * 2])
        assert found.status == INCONCLUSIVE
        assert found.reason == (
            f"rounding decides how many elements there are: {list(one)} in float32, {list(other)} in float64"
        )


@OTHER
def test_special_values_of_another_shape(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    for kind in (np.float32, np.int64):
        a, b = numbers(one, kind), numbers(other, kind)
        assert special_difference(a, b, None, a * 2) == special_difference(a, a, b, a * 2) == ""
        told = f"shape {list(other)} where the source has {list(one)}"
        assert special_difference(a, a, a, b) == told
    a, b = numbers(one, np.float32), numbers(other, np.float32)
    missing = np.full(other, np.nan, np.float32)
    assert _with_nan(a, missing) is a
    assert _with_denormals(a, b) is a
    assert _with_rows(a, b, frozenset({0})) is a
    assert _count([a], [missing]) == 0
    assert _patched({"y": a}, {"y": missing})["y"] is a


@OTHER
def test_runs_of_another_shape_differ(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    a, b = numbers(one), numbers(other)
    assert len(describe_repeats({"y": a}, {"y": b})) == 1
    assert describe_repeats({"y": a}, {"y": a}) == []
    g = Graph()
    g.output(g.RandomNormal(shape=list(one)), "y")
    assert judge_random(g.model(), "y", "RandomNormal", [a], [b]).status == FAIL
    assert judge_random(g.model(), "y", "RandomNormal", [a], [a]).status == INCONCLUSIVE


@OTHER
def test_nothing_excuses_another_shape(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    g = Graph()
    x = g.input("x", F, list(one) or [1])
    steps = g.QuantizeLinear(x, np.float32(1), np.uint8(0))
    g.output(steps, "q")
    g.output(g.ArgMax(x, axis=0, keepdims=0), "i")
    feed = [Feed("one", {"x": numbers(one or (1,), np.float32)})]
    a, b = np.zeros(one, np.uint8), np.zeros(other, np.uint8)
    assert not is_of_flipped_steps(g.model(), "q", feed, [a], [b])
    a, b = np.zeros(one, np.int64), np.zeros(other, np.int64)
    assert not is_of_tied_scores(g.model(), "i", feed, [a], [b], 4.0)
    assert not is_tied(g.model(), "i", feed, [a], [b], 4.0)


@pytest.mark.parametrize(("one", "other"), [((4, 5), (5, 4)), ((20,), (4, 5)), ((2, 2, 5), (4, 5)), ((10, 2), (4, 5))])
def test_weights_of_another_shape_are_told_in_the_order_of_their_size(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    a, b = np.arange(20.0), np.arange(20.0)[::-1] + 0.5
    for shapes in ((one, other), (other, one)):
        np.testing.assert_array_equal(_apart(a, b, *shapes), np.full(20, 0.5))
    assert _apart(a, b, one, one).max() > 1


DTYPES = [(np.float32, np.float64), (np.float32, np.int32), (np.int32, np.int64), (np.uint8, np.int8),
          (np.float16, np.float32), (bool, np.uint8)]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), DTYPES)
def test_a_target_of_another_dtype_fails(one: Any, other: Any) -> None:
    for first, second in ((one, other), (other, one)):
        a, b = np.arange(4).astype(first), np.arange(4).astype(second)
        found = compare("y", [a], [a], [b])
        assert (found.status, found.reason) == (FAIL, f"dtype {b.dtype} where the source has {a.dtype}")
        assert not _differ_by_value(np.arange(4.0), a, b)
        g = Graph()
        g.output(g.RandomNormal(shape=[4]), "y")
        assert judge_random(g.model(), "y", "RandomNormal", [a], [b]).status == FAIL
        assert _with_nan(b, a) is b
