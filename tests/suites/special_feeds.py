"""Rows of the operator tables with special values as inputs: NaN, infinities, zeros, integer limits, no elements.

`edge_cases(row)` yields the row again with other arrays. The source framework decides which of them an operator takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.cases import Case

SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -1.5, -2.5, 1e-40, 3.4e38, -3.4e38, 1e10,
            -300.0, 89.0, 20.0, 7.0)  # fmt: skip
"""Special values in float32: a denormal, halves that round to even, numbers whose square or exponential overflows."""

Change = Callable[[np.ndarray, int, int], np.ndarray]
"""Returns new values for an array, given its index among the inputs and the number of inputs."""


def edge_cases(row: Case) -> Iterator[Case]:
    """Yield the row with each kind of edge value, labelled by it; kinds that change nothing are left out."""
    shapes = {x.shape for x in arrays_of(row)}
    changes: dict[str, Change] = dict(CHANGES)
    if len(shapes) == 1 and max(len(s) for s in shapes) > 0:
        changes["pairs"] = _all_pairs
    for name, change in changes.items():
        found = _changed(row, change)
        if found is not None:
            yield found.named(f"{row.label} {name}".strip())


def _changed(row: Case, change: Change) -> Case | None:
    arrays = arrays_of(row)
    made = [change(x, i, len(arrays)) for i, x in enumerate(arrays)]
    if all(a is b for a, b in zip(arrays, made, strict=True)):
        return None
    return replace(row, inputs=tuple(_with_arrays(list(row.inputs), iter(made))))


def with_arrays(row: Case, change: Callable[[np.ndarray], np.ndarray]) -> Case:
    """Return the row with each array changed."""
    made = (change(a) for a in arrays_of(row))
    return replace(row, inputs=tuple(_with_arrays(list(row.inputs), made)))


def arrays_of(row: Case) -> list[np.ndarray]:
    """Return the arrays among the inputs, including those in lists."""
    return _arrays(row.inputs)


def _arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    return [a for v in value for a in _arrays(v)] if isinstance(value, (list, tuple)) else []


def _with_arrays(value: Any, left: Iterator[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        return next(left)
    return [_with_arrays(v, left) for v in value] if isinstance(value, (list, tuple)) else value


def _one(value: float, which: int | None = 0) -> Change:
    """Set one element of the first input (or of all inputs: None) to `value`; the other elements can be compared."""

    def change(array: np.ndarray, index: int, count: int) -> np.ndarray:
        if array.dtype.kind != "f" or not array.size or which not in (None, index):
            return array
        made = array.copy()
        made.reshape(-1)[array.size // 2] = value
        return made

    return change


def _row(value: float) -> Change:
    """Set the first part along the first axis to `value`, as masks do."""

    def change(array: np.ndarray, index: int, count: int) -> np.ndarray:
        if array.dtype.kind != "f" or not array.size or index:
            return array
        made = array.copy()
        made[(slice(1) if made.ndim else ...,)] = value
        return made

    return change


def _filled(value: float) -> Change:
    def change(array: np.ndarray, index: int, count: int) -> np.ndarray:
        return np.full_like(array, value) if array.dtype.kind == "f" and not index else array

    return change


def _empty(axis: int) -> Change:
    def change(array: np.ndarray, index: int, count: int) -> np.ndarray:
        if array.ndim == 0 or not -array.ndim <= axis < array.ndim:
            return array
        return np.take(array, [], axis)

    return change


def _integers(which: int | None) -> Change:
    """Return the limits of the dtype, and numbers whose products and shifts overflow."""

    def change(array: np.ndarray, index: int, count: int) -> np.ndarray:
        if array.dtype.kind not in "iu" or which not in (None, index):
            return array
        return np.resize(_numbers(array.dtype)[index:], array.shape)

    return change


def _numbers(dtype: np.dtype) -> np.ndarray:
    bounds, width = np.iinfo(dtype), np.iinfo(dtype).bits
    wanted = [bounds.min, bounds.max, -1, 0, 1, 2, -2, 3, -3, 7, -7, bounds.min + 1, bounds.max - 1, width - 1, width,
              width // 2, -width, 2**53 + 1, -(2**53) - 1, 2**31]  # fmt: skip
    return np.array([n for n in wanted if bounds.min <= n <= bounds.max], dtype)


def _all_pairs(array: np.ndarray, index: int, count: int) -> np.ndarray:
    """Pair every special value with every other: the first input changes slowly, the second fast."""
    pool: np.ndarray
    if array.dtype.kind == "f":
        pool = np.array([min(max(v, -6e4), 6e4) if np.isfinite(v) and array.dtype == np.float16 else v
                         for v in SPECIALS]).astype(array.dtype)  # fmt: skip
    elif array.dtype.kind in "iu":
        pool = _numbers(array.dtype)
    else:
        return array
    if count == 1 or len(pool) ** count > 10_000:
        return np.roll(pool, 3 * index)
    flat = np.repeat(pool, len(pool)) if index == 0 else np.tile(pool, len(pool))
    return np.repeat(flat, len(pool)) if count > 2 and index < 2 else np.resize(flat, len(pool) ** count)


CHANGES: dict[str, Change] = {
    "nan": _one(np.nan),
    "nan row": _row(np.nan),
    "+inf": _one(np.inf),
    "-inf": _one(-np.inf),
    "-inf row": _row(-np.inf),
    "+inf row": _row(np.inf),
    "nan everywhere else": lambda x, i, n: _one(np.nan)(x, 0, n) if i else x,
    "zeros": _filled(0.0),
    "negative zeros": _filled(-0.0),
    "large": _filled(3e38),
    "denormal": _filled(1e-40),
    "no rows": _empty(0),
    "no columns": _empty(-1),
    "extremes": _integers(None),
    "extremes first": _integers(0),
}


def difference(got: np.ndarray, want: np.ndarray, wide: np.ndarray | None = None) -> str:
    """Return how two results differ, or "": by dtype, shape, positions of NaN and of either infinity, then by numbers.

    wide: the source's result in a wider dtype. If it differs from `want`, the source overflows in an intermediate
    result or has kernels that differ, and either result is accepted.
    """
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    close = _close(got, want)
    if wide is not None and wide.shape == want.shape:
        with np.errstate(all="ignore"):
            close |= _close(got, wide.astype(want.dtype))
            if wide.dtype.kind in "fc":  # whether a sum overflows depends on its order
                close |= np.isfinite(wide) & (np.abs(wide) > 1e37)
    places = np.flatnonzero(~close.reshape(-1))
    shown = ", ".join(f"[{p}] {got.reshape(-1)[p]} for {want.reshape(-1)[p]}" for p in places[:4])
    return f"{places.size} of {got.size}: {shown}" if places.size else ""


def _close(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    if want.dtype.kind == "O":
        same = [_text(a) == _text(b) for a, b in zip(got.flat, want.flat, strict=True)]
        return np.array(same, bool).reshape(want.shape)
    if want.dtype.kind not in "fc":
        return np.asarray(got == want)
    a, b = got.astype(np.float64), want.astype(np.float64)
    rtol = {2: 4e-3, 4: 1e-4, 8: 1e-9}[want.dtype.itemsize]
    with np.errstate(all="ignore"):
        usual = np.abs(b[np.isfinite(b) & (np.abs(b) < 1e6)])
        return np.asarray(
            np.isclose(a, b, rtol=rtol, atol=rtol / 10 * max(1.0, usual.max(initial=0.0)), equal_nan=True)
        )


def _text(value: str | bytes) -> bytes:
    """Return a string as TensorFlow represents it."""
    return value.encode() if isinstance(value, str) else value
