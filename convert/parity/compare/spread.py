"""Compute how the errors of an output are distributed over its elements, and sample them for plots."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from convert.graph.tensors import widened_array
from convert.outcome.verdict import Spread
from convert.parity.magnitudes import rms

MAX_POINTS = 2000
WORST_POINTS = 100
"""Number of points in the sample with the largest errors, so that rare defects are always shown."""

STEPS = 2
"""Bins of the histogram for each power of ten."""

_LEAST, _MOST = -20, 20
"""Range of the powers of ten of errors; errors outside it are counted in the first and last bin."""


def spread_of(
    references: Sequence[np.ndarray], sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
) -> Spread | str:
    """Return how errors are distributed over the elements of an output on all sets, or why that cannot be plotted.

    Errors are relative to the rms of the reference on each set.
    """
    rows, numbers = [], dict[str, list[np.ndarray]](source=[], target=[])
    for reference, source, target in zip(references, sources, targets, strict=False):
        if any(array.dtype.kind in "OUS" for array in (reference, source, target)):
            return "the output holds text"
        if not reference.shape == source.shape == target.shape:
            return f"the target has shape {list(target.shape)}, and the source {list(source.shape)}"
        flat = [_as_floats(array) for array in (reference, source, target)]
        rows.append(_errors(*flat))
        numbers["source"].append(flat[1])
        numbers["target"].append(flat[2])
    given, got, own, off = (np.concatenate(column) for column in zip(*rows, strict=True)) if rows else [np.zeros(0)] * 4
    if not given.size:
        return "the output has no finite numbers"
    chosen = _chosen(off)
    points = [(_rounded(a), _rounded(b)) for a, b in zip(given[chosen], got[chosen], strict=True)]
    low, high = _range(np.concatenate([own, off]))
    values = {side: _statistics(np.concatenate(arrays)) for side, arrays in numbers.items()}
    return Spread(given.size, low, _counts(off, low, high), _counts(own, low, high), points, values)


def _statistics(numbers: np.ndarray) -> dict[str, float]:
    """Return statistics of the numbers of one side: of the finite numbers, and how many are not finite."""
    finite = numbers[np.isfinite(numbers)]
    scale = float(np.abs(finite).max()) or 1.0  # sums of numbers near 1e308 overflow
    found = {
        "mean": float(np.mean(finite / scale)) * scale,
        "deviation": float(np.std(finite / scale)) * scale,
        "least": float(finite.min()),
        "median": float(np.median(finite / scale)) * scale,
        "greatest": float(finite.max()),
    }
    return {**{name: _rounded(number) for name, number in found.items()}, "nonfinite": numbers.size - finite.size}


def _as_floats(array: np.ndarray) -> np.ndarray:
    wide = widened_array(array)
    parts = np.stack([wide.real, wide.imag]) if wide.dtype.kind == "c" else wide
    return np.asarray(parts, np.float64).ravel()


def _errors(
    reference: np.ndarray, source: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return source and target at the elements where both and the reference are finite, and the relative errors of
    both.
    """
    finite = np.isfinite(reference) & np.isfinite(source) & np.isfinite(target)
    right, given, got = reference[finite], source[finite], target[finite]
    scale = max(rms(right), np.finfo(np.float64).tiny) if right.size else 1.0
    return given, got, np.abs(given - right) / scale, np.abs(got - right) / scale


def _chosen(errors: np.ndarray) -> np.ndarray:
    """Return the indices of at most `MAX_POINTS` elements: the worst ones, and others at equal steps."""
    if errors.size <= MAX_POINTS:
        return np.arange(errors.size)
    worst = np.argpartition(errors, -WORST_POINTS)[-WORST_POINTS:]
    even = np.linspace(0, errors.size - 1, MAX_POINTS - WORST_POINTS).astype(np.int64)
    return np.unique(np.concatenate([worst, even]))


def _range(errors: np.ndarray) -> tuple[int, int]:
    """Return the smallest and the largest power of ten of the nonzero errors."""
    present = errors[errors > 0]
    if not present.size:
        return -8, -7
    least, most = (min(max(float(end), 10.0**_LEAST), 10.0**_MOST) for end in (present.min(), present.max()))
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    return low, max(high, low + 1)


def _counts(errors: np.ndarray, low: int, high: int) -> list[int]:
    """Return the number of zero errors, followed by the number in each bin from 10**low to 10**high."""
    present = np.clip(errors[errors > 0], 10.0**low, 10.0**high)
    bins = STEPS * (high - low)
    places = np.clip(np.floor((np.log10(present) - low) * STEPS).astype(np.int64), 0, bins - 1)
    return [int(errors.size - present.size), *np.bincount(places, minlength=bins).tolist()]


def _rounded(number: float) -> float:
    """Return a number rounded to six digits, which is more than a plot shows."""
    return float(f"{number:.6g}")
