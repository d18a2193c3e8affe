"""Computes constants of output files in long double, rounded once, for equal bits on every processor of one kind.

numpy selects its kernels by processor. With numpy 2.4, exp, log, sin, pow and 20 other functions differ in the last
bits between AVX-512 (SVML), AVX2 and neither, in float16, float32 and float64. Matrix products come from OpenBLAS,
which adds in another order on each generation of processors. The C library's double functions also differ with FMA.

Long doubles have no such kernels. numpy's loops over them are plain C, in the order of the elements. They call the C
library's functions, each of which exists in one version only. So on x86-64 with one C library:

- Products and sums have the same bits everywhere, because long double's + − × ÷ √ are exact to the last bit.
- Functions have the same bits if the processors' x87 instructions do, which are documented to have an error of at most
  one ulp (64 bits). If two processors differ there, a float32 differs with a probability of about 2⁻³⁹ per number, a
  float64 with about 2⁻¹⁰.

On systems where long double is double (Windows, macOS on ARM), this does not hold for functions. The operations + − × ÷
√ of float32 and float64 need no long doubles: they are exact to the last bit, and numpy's sums have one order.

A product of 1024 × 1024 by 1024 × 1024 takes 10 s in long double, and 0.03 s in float32 by OpenBLAS. Constants are
folded only up to 64 KiB, where it takes 5 ms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WIDE = np.longdouble
PI = WIDE("3.14159265358979323846264338327950288")
_ERF_END, _ERF_TERMS = 7.0, 240
"""The point from which erf is 1 to the last bit, and the number of terms that its series needs up to there."""


def wide(x: Any) -> Any:
    """Return `x` as an array of long doubles, to compute with and round at the end."""
    return np.asarray(x).astype(WIDE)


def erf(x: Any) -> Any:
    """Return the error function of long doubles: 2/√π e^(−x²) Σ 2ⁿ x²ⁿ⁺¹ / (2n+1)!!, whose terms are all positive.

    Its error is a few dozen ulp (64 bits).
    """
    x = wide(x)
    size = np.minimum(np.abs(x), WIDE(_ERF_END))
    term = size
    total = np.zeros_like(size)
    for n in range(_ERF_TERMS):
        total = total + term
        term = term * size * size * 2 / (2 * n + 3)
    return np.copysign(np.minimum(2 / np.sqrt(PI) * np.exp(-size * size) * total, 1), x)


def determinant(matrices: Any) -> Any:
    """Return the determinants of matrices [..., n, n] of long doubles, by elimination with partial pivoting."""
    a = wide(matrices).copy()
    found = np.ones(a.shape[:-2], WIDE)
    for k in range(a.shape[-1]):
        pivot = k + np.abs(a[..., k:, k]).argmax(-1)[..., None, None]
        row = np.take_along_axis(a, pivot, -2)
        np.put_along_axis(a, pivot, a[..., k : k + 1, :], -2)
        found = found * row[..., 0, k] * np.where(pivot[..., 0, 0] == k, 1, -1)
        safe = np.where(row[..., k] == 0, 1, row[..., k])[..., None]
        a[..., k + 1 :, :] -= a[..., k + 1 :, k : k + 1] / safe * row
    return found
