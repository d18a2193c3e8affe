"""Cosines and sines of fractions of a turn, of which the matrices of Fourier transforms consist."""

from __future__ import annotations

import numpy as np

from convert.long_double import PI, wide


def cos_sin(parts: np.ndarray, whole: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of 2π · parts / whole for integers, in float64.

    Whole turns are taken off first, so that the angles are exact, and quarters are 0, 1 and -1, where π rounded leaves
    1e-16 for 0: a spectrum of real numbers has no imaginary part at the first frequency and the middle one. They are
    computed in long double, so that they are the same on every processor.
    """
    rest = np.asarray(parts) % whole
    angles = 2 * PI * wide(rest) / whole
    quarter = 4 * rest % whole == 0
    cos, sin = np.cos(angles).astype(np.float64), np.sin(angles).astype(np.float64)
    return np.where(quarter, np.round(cos), cos), np.where(quarter, np.round(sin), sin)


def has_part(length: int) -> np.ndarray:
    """Of the half spectrum of `length` real numbers [frequencies, 2], which parts there are: booleans.

    The first frequency and the middle one have no imaginary part.
    """
    places = np.arange(length // 2 + 1)
    return np.stack([np.ones_like(places, bool), (places != 0) & (2 * places != length)], -1)
