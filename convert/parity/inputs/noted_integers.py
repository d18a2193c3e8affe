"""Generate integers as a reader noted them on an input (`RANGE_KEY`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def noted_integers(
    low: int, high: int, order: Sequence[str], rng: np.random.Generator, shape: Sequence[int]
) -> np.ndarray:
    """Return integers from `low` to `high`; with "partition" in `order`, nonnegative integers whose sum is `high`."""
    if "partition" in order:
        count = int(np.prod(shape))
        return rng.multinomial(high, np.full(count, 1 / count)).reshape(shape) if count else np.zeros(shape, np.int64)
    array = rng.integers(low, max(low, high) + 1, size=shape)
    return np.sort(array)[::-1] if "descending" in order else array
