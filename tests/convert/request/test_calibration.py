"""Ranges by all numbers, by percentiles and by the least mean square error, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from convert.errors import UsageError
from convert.request.calibration import Histogram, RangeMethod, parse_method, range_of

RNG = np.random.default_rng(0)
NUMBERS = RNG.standard_normal(200_000)


def error(numbers: np.ndarray, low: float, high: float) -> float:
    """Return the mean square error of numbers rounded to 255 steps between these ends; 0 is one of the steps."""
    step = (high - low) / 255
    zero = np.round(-low / step)
    raw = np.clip(np.round(numbers / step) + zero, 0, 255)
    return float(np.mean(((raw - zero) * step - numbers) ** 2))


@pytest.mark.parametrize("numbers", [NUMBERS, np.maximum(NUMBERS, 0), -np.abs(NUMBERS), NUMBERS + 3, np.zeros(4)])
def test_minmax_is_all_numbers_and_zero(numbers: np.ndarray) -> None:
    assert range_of(numbers, RangeMethod()) == (min(numbers.min(), 0), max(numbers.max(), 0))


@pytest.mark.parametrize("percent", [90.0, 99.0, 99.9])
@pytest.mark.parametrize("numbers", [NUMBERS, np.maximum(NUMBERS, 0), -np.abs(NUMBERS), NUMBERS + 3])
def test_percentiles_are_those_of_numpy(numbers: np.ndarray, percent: float) -> None:
    low, high = range_of(numbers, RangeMethod("percentile", percent))
    bin_width = (max(numbers.max(), 0) - min(numbers.min(), 0)) / 4096
    assert low == pytest.approx(min(np.percentile(numbers, 100 - percent), 0), abs=2 * bin_width)
    assert high == pytest.approx(max(np.percentile(numbers, percent), 0), abs=2 * bin_width)


@pytest.mark.parametrize("heavy", [NUMBERS, NUMBERS**3, np.maximum(NUMBERS, 0) ** 3, RNG.uniform(-1, 1, 10_000)])
def test_the_least_error_is_no_larger_than_those_nearby(heavy: np.ndarray) -> None:
    low, high = range_of(heavy, RangeMethod("mse"))
    found = error(heavy, low, high)
    for factor in (0.8, 0.9, 1.1, 1.25):
        assert found <= 1.02 * error(heavy, low * factor, high), factor
        assert found <= 1.02 * error(heavy, low, high * factor), factor


def test_an_outlier_is_clipped_where_the_rest_gains_more() -> None:
    numbers = np.concatenate([np.tile(NUMBERS, 5), [25.0]])
    low, high = range_of(numbers, RangeMethod("mse"))
    assert high < 20
    assert error(numbers, low, high) < 0.75 * error(numbers, numbers.min(), numbers.max())


def test_samples_add_up() -> None:
    whole, parts = (Histogram(NUMBERS.min(), NUMBERS.max()) for _ in range(2))
    whole.add(NUMBERS)
    for part in np.array_split(NUMBERS, 7):
        parts.add(part)
    for method in (RangeMethod("mse"), RangeMethod("percentile", 99.0)):
        assert whole.range(method) == parts.range(method)


@pytest.mark.parametrize("method", ["minmax", "mse", "percentile"])
@pytest.mark.parametrize("numbers", [np.zeros(0), np.zeros(3), np.array([np.inf, np.nan, 2.0])])
def test_few_and_strange_numbers_have_a_range(numbers: np.ndarray, method: str) -> None:
    low, high = range_of(numbers, parse_method(method))
    assert (low, high) == (0, 2.0 if numbers.any() else 0)


@pytest.mark.parametrize(("text", "method"), [("mse", RangeMethod("mse")), ("minmax", RangeMethod()),
                         ("percentile", RangeMethod("percentile", 99.99)),
                         ("percentile=99.5", RangeMethod("percentile", 99.5))])  # fmt: skip
def test_methods_are_read(text: str, method: RangeMethod) -> None:
    assert parse_method(text) == method


@pytest.mark.parametrize("text", ["", "max", "mse=3", "percentile=", "percentile=x", "percentile=40", "percentile=101"])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"percentile|ranges"):
        parse_method(text)
