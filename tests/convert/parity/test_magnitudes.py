"""Gaps between the magnitudes of an array, and the elements below them, on numbers chosen by hand."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from convert.parity.magnitudes import smaller_parts

LEAST = np.finfo(np.float32).min


@pytest.mark.parametrize(
    ("array", "masks"),
    [
        ([1.0, -2.0, 3.0, LEAST], [[1, 1, 1, 0]]),
        ([1.0, -2.0, 3.0, np.finfo(np.float64).max], [[1, 1, 1, 0]]),
        ([1.0, 9999.0], []),
        ([1.0, 10000.0], [[1, 0]]),
        ([-1.0, 1.0, 1.0, 1.0, 9999.0], []),
        ([2.0, 0.0, 0.0, 0.0, 1.9e4], []),
        ([1e-9, 1.0, 1e9, 2e9], [[1, 1, 0, 0], [1, 0, 0, 0]]),
        ([0.0, 1.0, 2.0], []),
        ([0.0, 1.0, 1e9], [[1, 1, 0]]),
        ([0.0, -1e9, 0.0], [[1, 0, 1]]),
        ([0.0, -9999.0], []),
        ([0.0, 0.0], []),
        ([1.0, -np.inf, np.nan, 2.0], []),
        ([1.0, -np.inf, np.nan, 2e9], [[1, 0, 0, 0]]),
        ([1e-45, 1e-5, 1.0], [[1, 1, 0]]),
        ([5.0], []),
    ],
)
def test_elements_below_each_gap(array: list[float], masks: list[list[int]]) -> None:
    with np.errstate(all="raise"):
        assert [m.astype(int).tolist() for m in smaller_parts(np.array(array))] == masks


def test_the_gap_is_held_against_the_size_of_all_that_are_smaller() -> None:
    """A hundred 1s and one 5,000 have a root mean square of 498: 4.9e6 does not begin a new magnitude, 5.1e6 does."""
    array = np.array([1.0] * 100 + [5000.0])
    assert not smaller_parts(np.append(array, 4.9e6))
    (mask,) = smaller_parts(np.append(array, 5.1e6))
    assert mask.tolist() == [True] * 101 + [False]


def test_which_arrays_have_magnitudes() -> None:
    big = np.array([[1.0, 2.0], [1e9, 3.0]])
    for dtype in (np.float32, np.complex64, np.complex128, ml_dtypes.bfloat16):
        (mask,) = smaller_parts(big.astype(dtype))
        assert mask.tolist() == [[True, True], [False, True]]
    assert not smaller_parts(big.astype(np.int64))
    assert not smaller_parts(big > 2)
    assert not smaller_parts(np.array(["a", "b"], object))
    assert not smaller_parts(np.zeros((0, 3)))
    assert not smaller_parts(np.random.default_rng(0).normal(size=100_000))
