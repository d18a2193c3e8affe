"""The texts of verdicts and the numbers in them, computed here independently."""

from __future__ import annotations

import numpy as np
import pytest

from convert.outcome.verdict import FAIL
from convert.parity.compare.outputs import _rms_of_smallest, compare, vacuous_reason


def test_how_far_the_better_half_is_off_is_told_beside_the_source() -> None:
    """Relative to 2: 2**-5 against four roundings of the elements, and four of 64 elements that are 0.5 off."""
    exact = np.full(64, 2.0)
    source, target = exact.astype(np.float32), (exact + 2.0**-5).astype(np.float32)
    source[:4] += np.float32(0.5)
    row = compare("y", [exact], [source], [target])
    assert row.status == FAIL
    assert row.reason == (
        f"the better half of the elements is off by {2.0**-6:.2e}, against {2.0**-22:.2e} in all but the few of the "
        f"source that make its noise floor {2.0**-4:.2e}"
    )


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 1.0])
def test_the_smallest_are_found_in_any_order(share: float) -> None:
    """Many orders are tried, because np.partition leaves the next number in its place for most of them."""
    numbers = np.arange(1.0, 1001.0)
    wanted = np.sqrt(np.mean(numbers[: int(1000 * share)] ** 2))
    signs = np.where(np.arange(1000) % 2, 1.0, -1.0)
    for seed in range(1000):
        mixed = np.random.default_rng(seed).permutation(numbers * signs)
        assert _rms_of_smallest(mixed, share) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("size", [1, 3])
def test_integers_of_a_source_that_has_others_in_float64_are_counted_as_they_are(size: int) -> None:
    row = compare("y", [np.arange(size)], [np.array([1, 2])], [np.array([1, 3])])
    assert (row.status, row.reason) == (FAIL, "1 of 2 elements differ")


@pytest.mark.parametrize("shape", [(5,), (), (4, 3, 2), (4, 3, 1), (4, 3, 3, 3)])
def test_sets_of_another_rank_say_nothing_of_the_others(shape: tuple[int, ...]) -> None:
    """Two sets whose rows are equal do not depend on the inputs, whatever a third set has."""
    rows = [np.tile([1.0, 2.0, 3.0], (count, 1)) for count in (2, 4)]
    other = np.arange(1.0, np.prod(shape) + 1).reshape(shape)
    assert vacuous_reason([*rows, other]) == "the output does not depend on the inputs"
    assert vacuous_reason([rows[0], other, rows[1]]) == "the output does not depend on the inputs"
    assert vacuous_reason([other, *rows]) == ""
    assert vacuous_reason([rows[0], other]) == ""
