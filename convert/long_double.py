"""Numbers that go into a file, computed alike on every processor of one kind: in long double, rounded once.

numpy chooses its kernels by the processor. With numpy 2.4, exp, log, sin, pow and 20 other functions give other last
bits under AVX-512 (SVML), AVX2 and neither, in float16, float32 and float64. Matrix products are OpenBLAS's, which adds
in another order on each generation of processors. The C library's functions of a double differ with FMA as well.

Long doubles have none of these kernels: numpy's loops over them are plain C, in the order of the elements, and call the
C library's functions, of which there is one version. So on x86-64 with one C library

* products and sums are the same bits everywhere, because long double's + − × ÷ √ are exact to the last bit;
* functions are the same where the processors' x87 instructions are. Those are documented to be exact to one unit in the
  last of 64 bits. If two processors differ there, a float32 differs with a probability of some 2⁻³⁹ for each number, a
  float64 with some 2⁻¹⁰.

Where long double is double (Windows, macOS on ARM) nothing of this holds for functions. + − × ÷ √ of float32 and
float64 need none of it: they are exact to the last bit, and numpy's sums are in one order.

A product of 1024 × 1024 by 1024 × 1024 takes 10 s in long double and 0.03 s in float32 by OpenBLAS. Constants are
folded up to 64 KiB only, where it is 5 ms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WIDE = np.longdouble
PI = WIDE("3.14159265358979323846264338327950288")
_ERF_END, _ERF_TERMS = 7.0, 240
"""Where erf is 1 to the last bit, and how many terms of its series are as good up to there."""


def wide(x: Any) -> Any:
    """Return `x` as an array of long doubles, to be computed with and rounded at the end."""
    return np.asarray(x).astype(WIDE)


def erf(x: Any) -> Any:
    """Return the error function of long doubles: 2/√π e^(−x²) Σ 2ⁿ x²ⁿ⁺¹ / (2n+1)!!, all of whose terms are positive.

    Its error is a few dozen units in the last of 64 bits.
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
    """Return the determinants of matrices [..., n, n] of long doubles, by elimination with the largest pivots."""
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
