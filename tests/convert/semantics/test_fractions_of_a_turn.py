"""Cosines and sines of fractions of a turn, compared with high-precision values."""

from __future__ import annotations

import mpmath
import numpy as np

from convert.semantics.turns import cos_sin, has_part


def test_quarters_are_exact_and_the_rest_is_rounded() -> None:
    parts = np.arange(-40, 80)
    cos, sin = cos_sin(parts, 20)
    for part, a, b in zip(parts, cos, sin, strict=True):
        with mpmath.workdps(30):
            halves = mpmath.mpf(int(part)) / 10
            exact = float(mpmath.cospi(halves)), float(mpmath.sinpi(halves))
        np.testing.assert_allclose((a, b), exact, rtol=0, atol=1e-15)  # an angle below 2π is rounded by 4e-16
    np.testing.assert_array_equal(cos[::5], np.tile([1, 0, -1, 0], 6))
    np.testing.assert_array_equal(sin[::5], np.tile([0, 1, 0, -1], 6))


def test_real_numbers_have_no_imaginary_part_at_two_frequencies() -> None:
    x = np.random.default_rng(0).normal(size=10)
    for length in (9, 10):
        spectrum = np.fft.rfft(x, length)
        np.testing.assert_array_equal(has_part(length), np.stack([spectrum.real != 0, spectrum.imag != 0], -1))
