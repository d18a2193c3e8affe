"""Runs a graph in its own dtypes with every sum taken number after number, as simple kernels do, and so coordinates.

That is rounding, and more of it than numpy's sums by halves or a source's own kernels have. A runtime whose error is no
larger may be right: of a mean over a picture, or a product over thousands of channels, nothing else is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.activity import check_time
from convert.reference.executor import Executor


class OneByOne(np.ndarray):
    """An array of float32 or float64, and what is made of it; its sums and matrix products add one number at a time."""

    backwards = False

    @property
    def coordinates(self) -> type[np.floating]:
        """Of Resize: a ratio of sizes that is 7/32 is exact, its inverse, which the operator divides by, is not."""
        return np.float32 if self.dtype == np.float32 else np.float64

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        plain = [x.view(np.ndarray) if isinstance(x, OneByOne) else x for x in inputs]
        if ufunc is np.matmul and method == "__call__" and all(np.ndim(x) > 1 for x in plain):
            result = _product(plain[0], plain[1], self.backwards)
        elif ufunc is np.add and method == "reduce" and not {"where", "initial"} & _given(kwargs):
            result = _total(plain[0], kwargs.get("axis", 0), bool(kwargs.get("keepdims")), self.backwards)
        else:
            result = getattr(ufunc, method)(*plain, **kwargs)
        if out is not None:
            out[0].view(np.ndarray)[...] = result
            return out[0]
        kind = type(self)
        return tuple(_as(kind, x) for x in result) if isinstance(result, tuple) else _as(kind, result)


class _Backwards(OneByOne):
    """The same, beginning with the last number."""

    backwards = True


def one_by_one(x: Any) -> Any:
    """An array of float32 or float64 as a `OneByOne`; what is none as it is."""
    return _as(OneByOne, x)


def _as(kind: type[OneByOne], x: Any) -> Any:
    return x.view(kind) if isinstance(x, np.ndarray) and x.dtype in (np.float32, np.float64) else x


def run_one_by_one(model: ir.Model, feeds: Mapping[str, np.ndarray], *, backwards: bool = False) -> dict[str, Any]:
    """Outputs of a model of the canonical opset in its own dtypes, by name; raises as `run` of the executor does.

    backwards: sums and products begin with the last number, for a source whose own kernels begin with the first.
    """
    executor = _OneByOneExecutor(set(), every=False)
    executor.kind = _Backwards if backwards else OneByOne
    found = executor.run_model(model, feeds)
    return {n: x.view(np.ndarray) if isinstance(x, OneByOne) else x for n, x in found.items()}


def run_disturbed(
    model: ir.Model, feeds: Mapping[str, np.ndarray], move: Callable[[np.ndarray], np.ndarray]
) -> dict[str, Any]:
    """The same where `move` changes each result of an operator by a unit in the last place: Monte Carlo arithmetic.

    Kernels of functions such as Tanh are not exact to the last digit, and what follows may make more of that. Whole
    numbers stay, which are counts, places and buckets.
    """
    executor = _DisturbedExecutor(set(), every=False)
    executor.move = move
    return executor.run_model(model, feeds)


class _DisturbedExecutor(Executor):
    move: Callable[[np.ndarray], np.ndarray]

    def _store(self, value: ir.Value, array: Any) -> None:
        floating = isinstance(array, np.ndarray) and array.dtype in (np.float32, np.float64)
        if floating and value.producer() is not None and not np.array_equal(array, np.rint(array)):
            array = self.move(array)
        super()._store(value, array)


class _OneByOneExecutor(Executor):
    kind: type[OneByOne]

    def get(self, value: ir.Value | None) -> Any:
        return _as(self.kind, super().get(value))


def _given(kwargs: Mapping[str, Any]) -> set[str]:
    empty = (None, True, np._NoValue)
    return {name for name, value in kwargs.items() if not any(value is e for e in empty)}


def _total(x: np.ndarray, axis: int | Iterable[int] | None, keepdims: bool, backwards: bool) -> np.ndarray:
    rank = x.ndim
    axes = range(rank) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    axes = sorted(a % rank for a in axes)
    kept = [n for a, n in enumerate(x.shape) if a not in axes]
    rows = np.moveaxis(x, axes, range(len(axes))).reshape(-1, *kept) if axes else x[None]
    rows = rows[::-1] if backwards else rows
    total = np.add.accumulate(rows, 0)[-1] if len(rows) else np.zeros(kept, x.dtype)
    return total.reshape([1 if a in axes else n for a, n in enumerate(x.shape)]) if keepdims else total


def _product(a: np.ndarray, b: np.ndarray, backwards: bool) -> np.ndarray:
    result = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), a.dtype)
    places = range(a.shape[-1])
    for k in reversed(places) if backwards else places:
        check_time()
        result += a[..., k, None] * b[..., k, None, :]
    return result
