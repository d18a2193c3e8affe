"""Which elements of an array are so much smaller than the others that an error of them does not show beside these."""

from __future__ import annotations

import numpy as np

from convert.graph.tensors import widened_array

GAP = 1e4
"""An element so many times as large as the root mean square of all smaller ones begins another magnitude: masks
(-1e4, -1e9, the least number of float32), time stamps beside scores, winners beside the tails of a softmax."""
COLUMNS = 64.0
"""A column that is so many times smaller than the whole has errors of its own: it was computed by itself."""
_FEWEST = 8
_FLUSHED = float(np.finfo(np.float32).tiny)  # what lies below is 0 to some runtimes
_EXTREME = 1e140  # squares of what lies beyond it are out of range


def smaller_parts(array: np.ndarray) -> list[np.ndarray]:
    """Masks of the elements below each wide gap of magnitudes, the one with most elements first.

    Empty where there is no gap, as in most arrays. Infinities and NaN are in no mask; zeros are in all, and have one of
    their own where all others are `GAP` or more, because they have no magnitude to compare with.
    """
    if array.dtype.kind in "OUSbiu" or array.size < 2:
        return []
    sizes = np.abs(widened_array(array)).astype(np.float64)
    finite = np.isfinite(sizes)
    counted = sizes[finite & (sizes >= _FLUSHED)]
    if not counted.size or not (_may_have_gap(counted) or counted.min() >= GAP):
        return []
    ordered = np.sort(counted)
    bounded = np.minimum(ordered, _EXTREME)
    below = np.sqrt(np.cumsum(bounded**2) / np.arange(1, bounded.size + 1))
    edges = ordered[:-1][bounded[1:] >= GAP * below[:-1]].tolist()
    if ordered[0] >= GAP and ordered.size < np.count_nonzero(finite):
        edges.insert(0, np.nextafter(_FLUSHED, 0.0))
    return [finite & (sizes <= edge) for edge in reversed(edges)]


def _may_have_gap(sizes: np.ndarray) -> bool:
    """Whether there may be one, by powers of two alone, because few arrays have one and sorting costs more."""
    exponents = np.frexp(sizes)[1]
    mean_square, count = 0.0, 0  # of all smaller ones at the least; the next power of two is 1
    for found in np.bincount(exponents - exponents.min()).tolist():
        if found and count and GAP**2 * mean_square <= 1:
            return True
        count += found
        mean_square = (mean_square + found / count * (0.25 - mean_square)) / 4
    return False


def smaller_columns(array: np.ndarray) -> list[np.ndarray]:
    """Masks of columns that are far smaller than the whole, along the second and the last axis: scores beside boxes.

    Empty where there are none. Infinities and NaN are in no mask.
    """
    if array.dtype.kind in "OUSbiu" or array.ndim < 2 or not array.size:
        return []
    sizes = np.abs(widened_array(array)).astype(np.float64)
    finite = np.isfinite(sizes)
    largest = float(sizes[finite].max(initial=0.0))
    squares = np.where(finite, sizes, 0.0) / (largest or 1.0)
    np.square(squares, out=squares)
    whole, found = float(squares.mean()), []
    for axis in sorted({1, array.ndim - 1}):
        others = tuple(n for n in range(array.ndim) if n != axis)
        small = squares.mean(axis=others, keepdims=True) < whole / COLUMNS**2
        if small.any() and np.count_nonzero(mask := small & finite) >= _FEWEST:
            found.append(mask)
    return found


def rms(array: np.ndarray) -> float:
    """Root mean square, 0 for an empty array; right also where squares of its elements are 0 or infinite."""
    sizes = np.abs(array)
    with np.errstate(over="ignore", under="ignore"):
        found = float(np.sqrt(np.mean(sizes**2))) if array.size else 0.0
    if array.size and (np.isinf(found) or found < _ROOT) and 0 < (largest := float(sizes.max())) < np.inf:
        return largest * float(np.sqrt(np.mean((sizes / largest) ** 2)))
    return found


_ROOT = float(np.sqrt(np.finfo(np.float64).tiny))
