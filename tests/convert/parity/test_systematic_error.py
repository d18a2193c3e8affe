"""A scale of one sign is told from rounding, for weights in 4, 8 and 16 bits and rounded in two ways."""

from __future__ import annotations

import numpy as np
import pytest

from convert.parity.compare.systematic_error import wrong_scale


def rounded_weight(weight: np.ndarray, bits: int, *, symmetric: bool) -> np.ndarray:
    """Round each column of a weight to 2**bits steps, around zero or between its ends."""
    low = -np.abs(weight).max(0) if symmetric else weight.min(0)
    step = (np.abs(weight).max(0) - low if symmetric else np.ptp(weight, 0)) / (2**bits - 1)
    return np.round((weight - low) / step) * step + low


def outputs(seed: int, bits: int, features: int) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return a dense layer's output in float64, with rounded weights, and with weights rounded in another way."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((32, features)) / 6
    inputs = [rng.standard_normal((rows, 32)) for rows in (2, 1, 3)]
    weights = (weight, rounded_weight(weight, bits, symmetric=True), rounded_weight(weight, bits, symmetric=False))
    exact, rounded, target = ([np.maximum(x @ w, 0) for x in inputs] for w in weights)
    return exact, rounded, target


@pytest.mark.parametrize(("bits", "factor"), [(4, 1.5), (8, 1.05), (16, 1.003)])
@pytest.mark.parametrize("features", [8, 64])
def test_no_alarm_and_no_miss(bits: int, factor: float, features: int) -> None:
    alarms = misses = 0
    for seed in range(200):
        exact, rounded, target = outputs(seed, bits, features)
        alarms += bool(wrong_scale(exact, rounded, target))
        misses += not wrong_scale(exact, rounded, [factor * array for array in target])
    assert (alarms, misses) == (0, 0)


def test_what_it_says() -> None:
    exact, rounded, target = outputs(0, 8, 64)
    told = wrong_scale(exact, rounded, [0.9 * array for array in target])
    assert "times the source as a whole" in told
    assert told.startswith("it is 0.9")


def test_places_that_are_not_finite_are_left_out() -> None:
    exact, rounded, target = outputs(0, 8, 64)
    target[0][0, 0] = np.inf
    exact[1][0, 1] = np.nan
    assert wrong_scale(exact, rounded, target) == ""


@pytest.mark.parametrize("array", [np.zeros((2, 3)), np.array([[1, 2, 3]]), np.array([["a"]], object), np.float64(3.0)])
def test_what_has_no_scale(array: np.ndarray) -> None:
    assert wrong_scale([array], [array], [array]) == ""
