"""Find elements of an array that are so small that their errors do not show next to the other elements."""

from __future__ import annotations

import numpy as np

from convert.graph.tensors import widened_array

GAP = 1e4
"""Smallest ratio of an element to the rms of all smaller ones that separates two magnitudes.

Examples of larger elements: masks (-1e4, -1e9, the least float32), time stamps next to scores, and winners next to the
tails of a softmax.
"""
COLUMNS = 64.0
"""A column smaller than the whole by this factor was computed by itself, so its errors are judged by themselves."""
_FEWEST = 8
_FLUSHED = float(np.finfo(np.float32).tiny)  # some runtimes flush smaller numbers to 0
_EXTREME = 1e140  # squares of larger numbers overflow


def smaller_parts(array: np.ndarray) -> list[np.ndarray]:
    """Return masks of the elements below each wide gap of magnitudes, the mask with most elements first.

    The result is [] without a gap, as for most arrays. Infinities and NaN are in no mask. Zeros have no magnitude to
    compare and are in all masks. If all other elements are `GAP` or more, zeros have a mask of their own.
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
    """Return whether there may be a gap, judged by exponents alone. Few arrays have a gap, and sorting is slower."""
    exponents = np.frexp(sizes)[1]
    mean_square, count = 0.0, 0  # lower bound for all smaller numbers; the next power of two is 1
    for found in np.bincount(exponents - exponents.min()).tolist():
        if found and count and GAP**2 * mean_square <= 1:
            return True
        count += found
        mean_square = (mean_square + found / count * (0.25 - mean_square)) / 4
    return False


def smaller_columns(array: np.ndarray) -> list[np.ndarray]:
    """Return masks of columns far smaller than the whole, along the second and the last axis, e.g. scores with boxes.

    The result is [] without such columns. Infinities and NaN are in no mask.
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
        if not small.any():
            continue
        mask = small & finite
        if np.count_nonzero(mask) >= _FEWEST:
            found.append(mask)
    return found


def rms(array: np.ndarray) -> float:
    """Return the root mean square, 0 for an empty array; correct even if squares underflow or overflow."""
    sizes = np.abs(array)
    with np.errstate(over="ignore", under="ignore"):
        found = float(np.sqrt(np.mean(sizes**2))) if array.size else 0.0
    if array.size and (np.isinf(found) or found < _ROOT) and 0 < (largest := float(sizes.max())) < np.inf:
        return largest * float(np.sqrt(np.mean((sizes / largest) ** 2)))
    return found


_ROOT = float(np.sqrt(np.finfo(np.float64).tiny))
