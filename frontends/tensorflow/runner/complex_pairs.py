"""Complex tensors at a model's boundary, which are pairs of real numbers in the shared graph and in feeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def fed_array(value: Any, dtype: Any) -> np.ndarray:
    """Return `value` as an array of TensorFlow's `dtype`; a complex one from its pairs, [.., 2]."""
    kind = np.dtype(dtype.base_dtype.as_numpy_dtype)
    array = np.asarray(value)
    if kind.kind == "c" and array.dtype.kind != "c":
        array = array[..., 0] + np.asarray(1j, np.complex128) * array[..., 1]
    return np.asarray(array, kind)


def with_pairs(outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return outputs as graphs have them: complex ones with real and imaginary part in a last dim of 2."""
    return {
        name: np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array
        for name, array in outputs.items()
    }
