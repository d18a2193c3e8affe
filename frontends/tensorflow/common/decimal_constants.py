"""The numbers that programs wrote and TensorFlow rounded to float32: one answer for reader and runner in float64.

A graph keeps √2 as 1.41421354 and 0.1 as 0.100000001. In float64 the program would have computed with what it wrote,
and an operator such as Gelu does. So both float64 runs take a float32 scalar back to what it was written as.
"""

from __future__ import annotations

import math

import numpy as np

_IRRATIONAL = (
    math.pi,
    math.e,
    math.log(2.0),
    math.log(10.0),
    math.sqrt(2.0),
    math.sqrt(0.5),
    math.sqrt(math.pi),
    math.sqrt(2.0 * math.pi),
    math.sqrt(2.0 / math.pi),
    math.sqrt(0.5 / math.pi),
    2.0 * math.pi,
    0.5 * math.pi,
)
_WRITTEN = {float(np.float32(sign * x)): sign * x for x in _IRRATIONAL for sign in (1.0, -1.0)}

# A decimal of so few digits was written. Where a number looks like that by chance, both sides still read it alike.
_DIGITS = 6


def unrounded_number(number: float) -> float:
    """What a float32 number was rounded from: a constant of mathematics, a decimal of up to 6 digits, or itself."""
    number = float(np.float32(number))
    if not math.isfinite(number):
        return number
    decimal = float(f"{number:.{_DIGITS}g}")
    return _WRITTEN.get(number, decimal if float(np.float32(decimal)) == number else number)
