"""Kernels that gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convert.errors import Unsupported

from .table import INTEGERS, Array, ExecutorRun, kernel


@kernel("Slice")
def slice_kernel(
    run: ExecutorRun, x: Array, starts_: Array = None, ends_: Array = None, *, starts: Sequence[int] = (),
    ends: Sequence[int] = (),
) -> Array:  # fmt: skip
    """Slice one axis; a negative bound v means size + v + 1."""
    given = (starts, ends) if starts_ is None else (starts_, ends_)
    low, high = (
        [int(b) + size + 1 if b < 0 else int(b) for b, size in zip([*bound, *rest], x.shape, strict=False)]
        for bound, rest in zip(given, ([0] * x.ndim, [-1] * x.ndim), strict=True)
    )
    cut = [(min(a, size), min(b, size), size) for a, b, size in zip(low, high, x.shape, strict=True)]
    if sum((low, high) != (0, size) for low, high, size in cut) > 1:
        raise Unsupported("a Slice of several axes")
    if any(low > high for low, high, _ in cut):
        raise Unsupported("a Slice that ends before it starts")
    return x[tuple(slice(low, high) for low, high, _ in cut)].copy()


@kernel("Gather")
def gather(run: ExecutorRun, x: Array, indices: Array, *, axis: int = 0) -> Array:
    run.takes(INTEGERS, indices)
    if np.any(indices >= x.shape[axis]) or np.any(indices < (-x.shape[0] if axis == 0 else 0)):
        raise Unsupported("an index outside the axis, or a negative one on an axis but the first")
    return np.take(x, indices, axis=axis)


@kernel("BatchGather")
def batch_gather(run: ExecutorRun, x: Array, indices: Array) -> Array:
    return gather(run, x, indices, axis=1)


@kernel("BooleanMask")
def boolean_mask(run: ExecutorRun, x: Array, mask: Array) -> list[Array]:
    """Return the rows where the mask is true, and their indices."""
    run.takes({"bool"}, mask)
    if mask.ndim != 1 or len(mask) != len(x):
        raise Unsupported(f"a mask of shape {mask.shape} over {x.shape}")
    return [x[mask], np.nonzero(mask)[0].astype(np.int64)]


@kernel("ScatterAssign")
def scatter_assign(run: ExecutorRun, x: Array, indices: Array, rows: Array) -> Array:
    """Replace rows; if an index occurs twice, the last row is used."""
    run.takes(INTEGERS, indices)
    if rows.shape != (*indices.shape, *x.shape[1:]) or np.any(indices < 0) or np.any(indices >= len(x)):
        raise Unsupported(f"rows of shape {rows.shape} at {indices.shape} places of {x.shape}")
    y = x.copy()
    y[indices.reshape(-1)] = rows.reshape(-1, *x.shape[1:])
    return y


@kernel("ReversePackedSegs")
def reverse_packed(run: ExecutorRun, x: Array, lengths: Array) -> Array:
    """Reverse the first `lengths` steps of each sequence in [length, batch, …]."""
    run.takes({"int32"}, lengths)
    y = x.copy()
    for i, length in enumerate(lengths):
        y[:length, i] = x[:length, i][::-1]
    return y
