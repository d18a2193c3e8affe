"""Reference kernels of scatters, where ONNX's own lose NaN in max and min."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from convert.reference.table import kernel

Array = Any


@kernel("ScatterElements")
def scatter_elements(count: int, x: Array, indices: Array, updates: Array, *, axis: int, reduction: str) -> Array:
    places = list(np.ix_(*(np.arange(n) for n in indices.shape)))
    places[axis] = np.where(indices < 0, indices + x.shape[axis], indices)
    return _write(x, tuple(places), updates, reduction)


@kernel("ScatterND")
def scatter_nd(count: int, x: Array, indices: Array, updates: Array, *, reduction: str) -> Array:
    return _write(x, tuple(np.moveaxis(indices, -1, 0)), updates, reduction)


def _write(x: Array, places: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """Return `x` with `updates` written to `places`, in order if some places are equal."""
    out = np.array(x)
    if not updates.size:
        return out
    if reduction == "none":
        out[places] = updates
    else:
        _REDUCTIONS[reduction](out, places, updates)
    return out


_REDUCTIONS: Mapping[str, Callable[..., None]] = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}
