"""Operators that only move elements, applied to arrays of any content: numbers, names of dims, indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


def move(operator: str, *inputs: Array | None, **attributes: Any) -> list[Array]:
    """Return the outputs of an ONNX operator of `MOVEMENTS` for arrays in place of its inputs.

    Axes, shapes, counts and indices are integers; the other arrays may have any dtype, objects too. Raises ValueError
    or IndexError for inputs that do not fit.
    """
    made = MOVEMENTS[operator](*inputs, **attributes)
    return made if isinstance(made, list) else [made]


def _axes(numbers: Array | None) -> tuple[int, ...] | None:
    return None if numbers is None else tuple(int(n) for n in numbers.ravel())


def _slice(x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None) -> Array:
    place: list[Any] = [slice(None)] * x.ndim
    along = range(len(starts)) if axes is None else axes.tolist()
    by = [1] * len(starts) if steps is None else steps.tolist()
    for axis, start, end, step in zip(along, starts.tolist(), ends.tolist(), by, strict=True):
        length = x.shape[axis]
        first = max(start + length, 0) if step < 0 and start < 0 else start
        place[axis] = slice(first, None if step < 0 and end < -length else end, step)
    return x[tuple(place)]


def _split(x: Array, split: Array | None = None, axis: int = 0, num_outputs: int = 0) -> list[Array]:
    if split is not None:
        return np.split(x, np.cumsum(split.ravel())[:-1], axis)
    part = -(-x.shape[axis] // num_outputs)
    return np.split(x, [part * n for n in range(1, num_outputs)], axis)


def _reshape(x: Array, shape: Array, allowzero: int = 0) -> Array:
    return x.reshape([x.shape[i] if n == 0 and not allowzero else int(n) for i, n in enumerate(shape.ravel())])


def _flatten(x: Array, axis: int = 1) -> Array:
    rows = int(np.prod(x.shape[: axis + x.ndim if axis < 0 else axis], dtype=np.int64))
    return x.reshape(rows, x.size // max(rows, 1))


MOVEMENTS: dict[str, Callable[..., Array | list[Array]]] = {
    "Concat": lambda *xs, axis: np.concatenate(xs, axis),
    "Expand": lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, _axes(shape) or ())),
    "Flatten": _flatten,
    "Gather": lambda x, indices, axis=0: np.take(x, indices, axis),
    "Identity": lambda x: x,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": lambda x, axes=None: np.squeeze(x, _axes(axes)),
    "Tile": lambda x, repeats: np.tile(x, _axes(repeats) or ()),
    "Transpose": lambda x, perm=None: np.transpose(x, perm),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, _axes(axes) or ()),
}
"""Rules by operator."""
