"""Scales and zero points of TensorFlow Lite tensors, and the constants that mark them in a graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_FIRST = 0xFF000000
"""The bits of -2¹²⁷ as float32. Marks have larger bit patterns, which are numbers below those of any model."""
_COUNT = 1 << 22


@dataclass(frozen=True)
class Steps:
    """A real number is scale · (integer - zero). dtype: `int8` or `int16`, the dtype of the kernels."""

    scale: float
    zero: int
    dtype: str = "int8"


def marking_constant(number: int) -> float:
    """Return the constant that marks a tensor with the scale of this number."""
    if not 0 <= number < _COUNT:
        raise ValueError("more quantizations than marks")
    return float(np.array(_FIRST | number, np.uint32).view(np.float32))


def mark_number(constant: np.float32) -> int | None:
    """Return the number that a marking constant encodes, or None."""
    number = int(np.array(constant, np.float32).view(np.uint32)[()]) - _FIRST
    return number if 0 <= number < _COUNT else None
