"""The spread of errors over elements: counts by size, a bounded sample, and why there is none."""

from __future__ import annotations

import numpy as np
import pytest

from convert.outcome.verdict import Spread
from convert.parity.compare.spread import MAX_POINTS, STEPS, spread_of


def spread(reference: np.ndarray, source: np.ndarray, target: np.ndarray) -> Spread:
    found = spread_of([reference], [source], [target])
    assert isinstance(found, Spread), found
    return found


def test_every_element_is_in_one_bin_of_its_error() -> None:
    reference = np.ones(1000)
    target = reference.copy()
    target[:10] += 3e-5  # of the bin from 1e-4.5 = 3.2e-5 down
    target[10:12] -= 5e-2
    found = spread(reference, reference.astype(np.float32), target)
    assert found.elements == 1000
    assert (sum(found.target), sum(found.source)) == (1000, 1000)
    assert (found.target[0], found.source[0]) == (988, 1000)
    counted = {found.low + (place - 1) / STEPS: n for place, n in enumerate(found.target) if n and place}
    assert counted == {-5.0: 10, -1.5: 2}


def test_errors_are_relative_to_the_set_that_they_are_of() -> None:
    sets = [np.full(4, 1.0), np.full(4, 1000.0)]
    found = spread_of(sets, sets, [s * 1.001 for s in sets])
    assert isinstance(found, Spread)
    assert max(found.target) == 8


def test_a_huge_output_is_sampled_with_its_worst_elements() -> None:
    reference = np.random.default_rng(0).standard_normal(1_000_000)
    target = reference.copy()
    target[[7, 543_210]] += 5.0
    found = spread(reference, reference, target)
    assert found.elements == 1_000_000
    assert len(found.points) <= MAX_POINTS
    assert sum(abs(a - b) > 1 for a, b in found.points) == 2


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.uint8, np.bool_, np.complex64])
def test_other_numbers_are_spread_too(dtype: type[np.generic]) -> None:
    array = (np.arange(12) % 5).reshape(3, 4).astype(dtype)
    assert spread(array, array, array).target[0] == 12 * (2 if dtype is np.complex64 else 1)


def test_nan_and_infinities_are_left_out() -> None:
    array = np.array([1.0, np.nan, np.inf, 2.0])
    assert spread(array, array, array).elements == 2


WORDS, NUMBERS, LESS = np.array(["a", "b"]), np.ones((2, 3)), np.ones((2, 2))
NONE = {
    "the output holds text": (WORDS, WORDS, WORDS),
    "the target has shape [2, 2], and the source [2, 3]": (NUMBERS, NUMBERS, LESS),
    "the output has no finite numbers": (NUMBERS * np.nan, NUMBERS * np.nan, NUMBERS),
}


@pytest.mark.parametrize("why", NONE)
def test_it_says_why_there_is_none(why: str) -> None:
    reference, source, target = NONE[why]
    assert spread_of([reference], [source], [target]) == why
    assert spread_of([np.zeros((0, 2))], [np.zeros((0, 2))], [np.zeros((0, 2))]) == "the output has no finite numbers"


def test_what_the_numbers_of_both_sides_are_like() -> None:
    source = np.array([1.0, 2.0, 3.0, 10.0, np.nan])
    found = spread(source, source, np.array([1e308, np.inf, np.inf, np.inf, np.nan])).values
    expected = {"mean": 4.0, "deviation": 3.53553, "least": 1.0, "median": 2.5, "greatest": 10.0, "nonfinite": 1}
    assert found["source"] == expected
    assert found["target"]["greatest"] == 1e308  # the others are infinite
    assert found["target"]["nonfinite"] == 4


def test_errors_larger_than_every_bin_are_in_the_last_one() -> None:
    found = spread(np.ones(3), np.ones(3), np.full(3, 1e300))
    assert (found.target[-1], sum(found.target)) == (3, 3)
