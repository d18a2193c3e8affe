"""Cosines and sines of fractions of a turn, for the matrices of Fourier transforms."""

from __future__ import annotations

import numpy as np

from convert.graph.long_double import PI, wide


def cos_sin(parts: np.ndarray, whole: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cos and sin of 2π · parts / whole for integers, as float64.

    Whole turns are removed first, so that the angles are exact. Quarter turns give exactly 0, 1 and -1, where a rounded
    π gives 1e-16 instead of 0: the spectrum of real numbers has no imaginary part at the first and the middle
    frequency. The values are computed in long double, so that they are the same on every processor.
    """
    rest = np.asarray(parts) % whole
    angles = 2 * PI * wide(rest) / whole
    quarter = 4 * rest % whole == 0
    cos, sin = np.cos(angles).astype(np.float64), np.sin(angles).astype(np.float64)
    return np.where(quarter, np.round(cos), cos), np.where(quarter, np.round(sin), sin)


def has_part(length: int) -> np.ndarray:
    """Return which parts of the half spectrum of `length` real numbers can be nonzero, as booleans [frequencies, 2].

    The first and the middle frequency have no imaginary part.
    """
    places = np.arange(length // 2 + 1)
    return np.stack([np.ones_like(places, bool), (places != 0) & (2 * places != length)], -1)
