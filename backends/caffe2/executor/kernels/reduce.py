"""Kernels of reductions and of sorting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from convert.errors import Unsupported
from convert.rules import Rule

from .table import ARITHMETIC, FLOAT, Array, ExecutorRun, kernel


def reduction(dtypes: Iterable[str], function: Callable[..., Array]) -> Rule:
    """Return a kernel over `axes`; over all axes if none are named."""

    def rule(run: ExecutorRun, x: Array, *, axes: Sequence[int] = (), keepdims: int = 1) -> Array:
        run.takes(dtypes, x)
        over = tuple(a % x.ndim for a in axes) or tuple(range(x.ndim))
        return np.asarray(function(x, axis=over, keepdims=bool(keepdims))).astype(x.dtype, copy=False)

    return rule


def _l1(x: Array, **where: Any) -> Array:
    return np.sum(np.abs(x), **where)


def _l2(x: Array, **where: Any) -> Array:
    return np.sqrt(np.sum(x * x, **where))


kernel.same(lambda f: reduction(ARITHMETIC, f), ReduceSum=np.sum, ReduceMax=np.max, ReduceMin=np.min)
kernel.same(lambda f: reduction(FLOAT, f), ReduceMean=np.mean, ReduceL1=_l1, ReduceL2=_l2)


def extremum(function: Callable[..., Array]) -> Rule:
    """Return a kernel for the index of the largest or smallest element, the first of equal ones."""

    def rule(run: ExecutorRun, x: Array, *, axis: int = -1, keepdims: int = 1) -> Array:
        run.takes(ARITHMETIC, x)
        return np.asarray(function(x, axis=axis, keepdims=bool(keepdims))).astype(np.int64)

    return rule


kernel.same(extremum, ArgMax=np.argmax, ArgMin=np.argmin)


@kernel("TopK")
def top_k(run: ExecutorRun, x: Array, count: Array = None, *, k: int = 0, axis: int = -1) -> list[Array]:
    """Return the largest elements in order, equal ones by index, and their indices; the third output has flat
    indices.
    """
    run.takes(FLOAT, x)
    number = int(k if count is None else count.reshape(()))
    if number > x.shape[axis]:
        raise Unsupported(f"the {number} largest of {x.shape[axis]}")
    order = np.argsort(-x, axis=axis, kind="stable")
    places = np.take(order, np.arange(number), axis=axis)
    flat = np.take_along_axis(np.arange(x.size).reshape(x.shape), places, axis=axis)
    return [np.take_along_axis(x, places, axis=axis), places.astype(np.int64), flat.astype(np.int64)]


@kernel("SumElements")
def sum_elements(run: ExecutorRun, x: Array, *, average: int = 0) -> Array:
    run.takes(FLOAT, x)
    return np.asarray(x.mean() if average else x.sum())


@kernel("Moments")
def moments(run: ExecutorRun, x: Array, *, axes: Sequence[int] = (), keepdims: int = 1) -> list[Array]:
    run.takes(FLOAT, x)
    over = tuple(axes) or tuple(range(x.ndim))
    return [f(x, axis=over, keepdims=bool(keepdims)) for f in (np.mean, np.var)]


@kernel("Range")
def arange(run: ExecutorRun, *bounds: Array) -> Array:
    run.takes(ARITHMETIC, *bounds)
    if any(b.size != 1 for b in bounds):
        raise Unsupported("bounds that are no single numbers")
    numbers = [b.reshape(())[()] for b in bounds]
    start, stop = (numbers[0].dtype.type(0), numbers[0]) if len(numbers) == 1 else numbers[:2]
    step = numbers[2] if len(numbers) == 3 else start.dtype.type(1)
    if start.dtype.kind == "i" and step < 0:
        raise Unsupported("integers with a negative step: the runtime loses the last one")
    count = max(0, int(np.ceil((stop - start) / step)))
    return (start + np.arange(count).astype(start.dtype) * step).astype(start.dtype)
