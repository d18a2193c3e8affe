"""Recurrent layers in 8 bits: intermediate results of a cell are rounded inside the reference kernels.

The kernels accept any array class. So weights of the classes below intercept every product and sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

RECURRENT = ("GRU", "LSTM", "RNN")

# Ranges that TensorFlow Lite's 8-bit kernels prescribe.
_FIXED = {"expit": (0.0, 255 / 256), "tanh": (-1.0, 127 / 128)}

Store = Callable[[str, np.ndarray, tuple[float, float] | None], np.ndarray]


class RowRoundedWeights(np.ndarray):
    """Weights whose products round each row of the other matrix to 256 steps of its own range."""

    def __rmatmul__(self, other: Any) -> np.ndarray:
        from convert.reference.quantization_steps import round_to_steps

        rows = np.asarray(other)
        return round_to_steps(rows, rows.min(-1, keepdims=True), rows.max(-1, keepdims=True)) @ np.asarray(self)


class StoredWeights(np.ndarray):
    """Weights of a cell, which pass every intermediate result through `store`, with its position in the step."""

    store: Store | None = None
    first = False
    """Whether a product with this array begins a step."""
    place: list[int]

    def __array_finalize__(self, other: Any) -> None:
        if isinstance(other, StoredWeights):
            self.store, self.first, self.place = other.store, other.first, other.place

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        result = getattr(ufunc, method)(
            *(np.asarray(x) if isinstance(x, StoredWeights) else x for x in inputs), **options
        )
        if method != "__call__" or not isinstance(result, np.ndarray) or result.dtype.kind != "f":
            return result
        if ufunc is np.matmul and self.first and inputs[1] is self:
            self.place[0] = 0
        self.place[0] += 1
        assert self.store is not None
        found = self.store(str(self.place[0]), result, _FIXED.get(ufunc.__name__)).view(StoredWeights)
        found.store, found.place = self.store, self.place
        return found


def cell_weights(w: np.ndarray, r: np.ndarray, store: Store) -> tuple[StoredWeights, StoredWeights]:
    """Return the input and recurrent weights of a layer as arrays that have `store` round what the cell computes."""
    place = [0]
    both = w.view(StoredWeights), r.view(StoredWeights)
    for array, first in zip(both, (True, False), strict=True):
        array.store, array.first, array.place = store, first, place
    return both
