"""Helpers that write rows of the TensorFlow backend's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.cases import f32


@dataclass(frozen=True, eq=False)
class Const:
    """An input that is an initializer of the model."""

    array: np.ndarray


def const(content: Any, dtype: Any = np.int64) -> Const:
    """Return an initializer: lists become int64, arrays keep their dtype."""
    return Const(content if isinstance(content, np.ndarray) else np.array(content, dtype))


def ints(*values: int) -> np.ndarray:
    """Return an int64 vector that is given at run time."""
    return np.array(values, np.int64)


def f16(*shape: int) -> np.ndarray:
    return f32(*shape).astype(np.float16)


def number(value: float, dtype: Any = np.float32) -> np.ndarray:
    return np.array(value, dtype)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5], np.float32)
HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.2], np.float32)
