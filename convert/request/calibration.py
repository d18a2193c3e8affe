"""The range of a value that quantization uses, as `--calibration-method` says; numbers outside it are clipped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convert.errors import UsageError

MINMAX, PERCENTILE, MSE = "minmax", "percentile", "mse"
_HINT = "--calibration-method minmax, mse, percentile, or percentile=99.9"
_BINS, _STEPS = 4096, 255
_CANDIDATES = 128
"""Number of positions of each bound that are tried."""


@dataclass(frozen=True)
class RangeMethod:
    """minmax: all numbers. percentile: the numbers between the percentiles `percent` at both ends. mse: the range with
    the least mean square error.
    """

    name: str = MINMAX
    percent: float = 99.99

    @property
    def is_plain(self) -> bool:
        """Return whether nothing is clipped."""
        return self.name == MINMAX


def parse_method(text: str) -> RangeMethod:
    """Read `minmax`, `mse`, `percentile` or `percentile=99.9`. Raises `UsageError`."""
    name, equals, number = text.partition("=")
    if name not in (MINMAX, PERCENTILE, MSE) or (equals and name != PERCENTILE):
        raise UsageError(f"{text!r} is no way to choose ranges", hint=_HINT)
    if not equals:
        return RangeMethod(name)
    try:
        percent = float(number)
    except ValueError:
        percent = 0.0
    if not 50 < percent <= 100:
        raise UsageError(f"{number!r} in {text!r} is no percentile above 50", hint=_HINT)
    return RangeMethod(name, percent)


class Histogram:
    """A histogram of a value between known ends: the smallest and largest number of the samples, widened to
    contain 0.
    """

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = min(low, 0.0), max(high, 0.0)
        self.edges = np.linspace(self.low, self.high, _BINS + 1)
        self.counts = np.zeros(_BINS, np.int64)
        self.zeros = 0

    def add(self, array: np.ndarray) -> None:
        """Count the finite numbers of an array; zeros, which quantization represents exactly, are counted
        separately.
        """
        width = self.high - self.low
        numbers = array[np.isfinite(array) & (array != 0)].astype(np.float64)
        self.zeros += array.size - numbers.size
        if width > 0:
            bins = ((numbers - self.low) * (_BINS / width)).astype(np.int64)
            self.counts += np.bincount(np.clip(bins, 0, _BINS - 1), minlength=_BINS)

    def range(self, method: RangeMethod, *, wide: bool = False) -> tuple[float, float]:
        """Return the ends of the range that `method` chooses for 8 bits, or for 16 if `wide`; the range contains 0."""
        # In 16 bits, clipping one number costs more than a wider step costs a billion others.
        if method.is_plain or (wide and method.name == MSE) or not self.counts.any():
            return self.low, self.high
        return self._percentiles(method.percent) if method.name == PERCENTILE else self._least_error()

    def _percentiles(self, percent: float) -> tuple[float, float]:
        counts = self.counts.copy()
        counts[np.searchsorted(self.edges, 0.0, side="right") - 1 if self.high > 0 else -1] += self.zeros
        below, beyond = np.cumsum(counts), counts.sum() * (100 - percent) / 100
        low = self.edges[int(np.searchsorted(below, beyond, side="right"))]
        high = self.edges[int(np.searchsorted(below, counts.sum() - beyond, side="left")) + 1]
        return min(float(low), 0.0), max(float(high), 0.0)

    def _least_error(self) -> tuple[float, float]:
        """Return the range with the least mean square error: step² / 12 inside, and the squared distance from an end
        outside.
        """
        centers = (self.edges[:-1] + self.edges[1:]) / 2
        lows = np.unique(np.linspace(self.low, 0.0, _CANDIDATES + 1)[:-1]) if self.low < 0 else np.zeros(1)
        highs = np.unique(np.linspace(0.0, self.high, _CANDIDATES + 1)[1:]) if self.high > 0 else np.zeros(1)
        clipped_low = np.array([self._beyond(np.maximum(end - centers, 0)) for end in lows])
        clipped_high = np.array([self._beyond(np.maximum(centers - end, 0)) for end in highs])
        inside = self.counts.sum() - clipped_low[:, None, 1] - clipped_high[None, :, 1]
        step = (highs[None, :] - lows[:, None]) / _STEPS
        error = clipped_low[:, None, 0] + clipped_high[None, :, 0] + inside * step**2 / 12
        best = np.unravel_index(int(np.argmin(error)), error.shape)
        return float(lows[best[0]]), float(highs[best[1]])

    def _beyond(self, distances: np.ndarray) -> tuple[float, float]:
        """Return the sum of squared distances, and how many numbers have a distance."""
        return float(np.sum(self.counts * distances**2)), float(self.counts[distances > 0].sum())


def range_of(array: np.ndarray, method: RangeMethod) -> tuple[float, float]:
    """Return the range that `method` chooses for the numbers of one array."""
    finite = array[np.isfinite(array)]
    histogram = Histogram(float(finite.min(initial=0.0)), float(finite.max(initial=0.0)))
    if not method.is_plain:
        histogram.add(finite)
    return histogram.range(method)
