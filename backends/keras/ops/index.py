"""Gathering and scattering by index, slicing and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import KerasTensor, layers, ops

from convert.errors import Unsupported

from ..constants import Constant
from ..emitter import Emitter, Value
from ..rules import onnx_op
from ..tensors import Tensor, is_floating, ones_along, places_below, plus
from ..windows import pad_zeros


@onnx_op("Gather")
def gather(k, x, indices, *, axis):
    table = isinstance(x, Constant) and is_floating(x) and len(x.shape) == 2 and axis in (0, -2)
    if table and isinstance(indices, KerasTensor):
        return k.layer(layers.Embedding, indices, {"embeddings": x}, input_dim=x.shape[0], output_dim=x.shape[1])
    return ops.take(k.tensor(x), k.tensor(indices), axis=axis)


@onnx_op("GatherElements")
def gather_elements(k, x, indices, *, axis):
    axis %= len(x.shape)
    x, indices = k.live(x) if isinstance(x, Constant) else x, k.tensor(indices)
    # Indices may be shorter than the data along the other axes, unless the dims have the same name.
    names = zip(k.input_dims(0), k.input_dims(1), strict=True)
    if any(i != axis and not isinstance(n, int) and (n is None or d != n) for i, (d, n) in enumerate(names)):
        raise Unsupported("indices of dynamic number")
    cut = [None if i == axis or n == d else n for i, (d, n) in enumerate(zip(x.shape, indices.shape, strict=True))]
    if any(n is not None for n in cut):
        x = x[tuple(slice(None, n) for n in cut)]
    return ops.take_along_axis(x, indices, axis=axis)


def _wrap_negative(k: Emitter, indices: Tensor, dims: Sequence[int | str | None]) -> Tensor:
    """Return non-negative indices (index tuples for several dims); negative ones count from the end."""
    if isinstance(indices, np.ndarray) and (indices >= 0).all():
        return indices
    sizes = k.vector(dims) if len(dims) > 1 else k.size(dims[0])
    return ops.where(ops.less(indices, 0), plus(indices, ops.cast(sizes, str(indices.dtype))), indices)


@onnx_op("GatherND")
def gather_nd(k, x, indices, *, batch_dims):
    x, indices = k.live(x) if isinstance(x, Constant) else x, k.tensor(indices)
    depth = indices.shape[-1]
    if depth is None:
        raise Unsupported("indices of dynamic number of dims")
    end = batch_dims + depth
    lead, rest, dims = x.shape[:end], x.shape[end:], k.sizes_of(0, x)
    indices = _wrap_negative(k, indices, dims[batch_dims:end])
    # A reshape could infer one dynamic dim at most.
    if batch_dims == depth == 1 and None in rest and None in lead:
        return _row_of_each(x, ops.cast(indices[..., 0], "int64"))
    rows = _number_of_row(k, indices, dims[:batch_dims], dims[batch_dims:end])
    if end == 1:
        return ops.take(x, rows, axis=0)
    if rest.count(None) + (None in lead) > 1:
        raise Unsupported("GatherND of several dims of dynamic size")
    return ops.take(ops.reshape(x, (-1 if None in lead else int(np.prod(lead)), *_sizes(rest))), rows, axis=0)


def _number_of_row(k: Emitter, indices: Tensor, batch: Sequence[Any], sizes: Sequence[Any]) -> Tensor:
    """Return the row number in [*batch, *sizes] of each index tuple in [*batch, …, depth]."""
    number: Any = None
    for dim in batch:
        own = k.places(dim, "int64")
        number = own if number is None else plus(ops.multiply(ops.expand_dims(number, -1), k.size(dim)), own)
    for _ in range(len(indices.shape) - 1 - len(batch)) if batch else ():
        number = ops.expand_dims(number, -1)
    for place, dim in enumerate(sizes):
        own = ops.cast(indices[..., place], "int64")
        number = own if number is None else plus(ops.multiply(number, k.size(dim)), own)
    return number


def _row_of_each(x: KerasTensor, places: Tensor) -> KerasTensor:
    """Return the rows of x [batch, rows, *rest] at indices [batch, …], separately for each batch element."""
    if len(places.shape) != 2:
        raise Unsupported("GatherND of several dims of dynamic size")
    for _ in x.shape[2:]:
        places = ops.expand_dims(places, -1)
    return ops.take_along_axis(x, places, axis=1)


def _sizes(dims: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(-1 if d is None else d for d in dims)


@onnx_op("ScatterND")
def scatter_nd(k, x, indices, updates, *, reduction):
    x, indices, updates = _scattered(k, x, indices, updates, reduction)
    depth = indices.shape[-1]
    return _scatter_update(x, _wrap_negative(k, indices, k.sizes_of(0, x)[:depth]), updates, reduction)


def _scattered(k: Emitter, x: Value, indices: Value, updates: Value, reduction: str | None) -> tuple[Tensor, ...]:
    """Return the operands of a scatter as tensors: Keras multiplies by the number of elements of a tensor, which arrays
    lack.
    """
    x = k.live(x) if isinstance(x, Constant) else x
    if reduction == "mul":
        return x, *(k.live(v) if isinstance(v, Constant) else v for v in (indices, updates))
    return x, *k.tensors(indices, updates)


def _scatter_update(x: KerasTensor, indices: Tensor, updates: Tensor, reduction: str | None) -> KerasTensor:
    """Return x with updates scattered at a list of index tuples."""
    lead = len(indices.shape) - 1
    reduction = None if reduction == "none" else reduction
    if lead == 1:
        return ops.scatter_update(x, indices, updates, reduction=reduction)
    if None in indices.shape or None in updates.shape[:lead]:
        raise Unsupported("indices of dynamic number")
    count = int(np.prod(indices.shape[:-1]))
    indices = ops.reshape(indices, (count, indices.shape[-1]))
    rest = updates.shape[lead:]
    updates = ops.reshape(updates, (count, *(d if d is not None else -1 for d in rest)))
    return ops.scatter_update(x, indices, updates, reduction=reduction)


@onnx_op("ScatterElements")
def scatter_elements(k, x, indices, updates, *, axis, reduction):
    x, indices, updates = _scattered(k, x, indices, updates, reduction)
    axis %= len(x.shape)
    if None in indices.shape:
        raise Unsupported("indices of dynamic number")
    indices = _wrap_negative(k, indices, [k.sizes_of(0, x)[axis]])
    places = []
    for i, n in enumerate(indices.shape):
        along = np.arange(n).reshape([-1 if j == i else 1 for j in range(len(indices.shape))])
        places.append(ops.cast(indices, "int64") if i == axis else np.broadcast_to(along, indices.shape))
    return _scatter_update(x, ops.stack(places, axis=-1), updates, reduction)


@onnx_op("OneHot")
def one_hot(k, indices, depth, values, *, axis):
    (size,) = k.ints(depth, "a depth")
    rank = len(indices.shape)
    axis = axis if axis >= 0 else axis + rank + 1
    indices = ops.cast(k.tensor(indices), "int64")
    indices = ops.where(ops.less(indices, 0), indices + size, indices)
    hot = ops.one_hot(indices, size, axis=axis if axis < rank else -1, dtype="bool")
    # A file stores a scalar as a number without dtype, but a vector of one element with it.
    off, on = (values.array[i : i + 1] if isinstance(values, Constant) else values[i] for i in (0, 1))
    return ops.where(hot, on, off)


@onnx_op("NonZero")
def non_zero(k, x):
    return ops.stack(list(ops.nonzero(x)))


@onnx_op("Compress")
def compress(k, x, condition, *, axis):
    chosen = k.static(condition)
    if chosen is None:
        raise Unsupported("a condition computed at run time")
    places = np.flatnonzero(chosen).astype(np.int32)
    if axis is None:
        return ops.take(ops.reshape(x, (-1,)), places, axis=0)
    return ops.take(x, places, axis=axis)


_LARGEST = 2**31 - 1


@onnx_op("Slice")
def slices(k, x, starts, ends, axes, steps):
    x = k.live(x) if isinstance(x, Constant) else x
    (count,) = starts.shape
    if count is None:
        raise Unsupported("axes of dynamic number")
    axes = list(range(count)) if axes is None else k.ints(axes, "axes")
    steps = [1] * count if steps is None else k.ints(steps, "steps")
    if not (isinstance(starts, Constant) and isinstance(ends, Constant)):
        for i, (axis, step) in enumerate(zip(axes, steps, strict=True)):
            a, b = (ops.cast(v[i], "int64") for v in k.tensors(starts, ends))
            x = ops.take(x, _places_between(x, axis % len(x.shape), a, b, step), axis=axis % len(x.shape))
        return x
    starts, ends = k.ints(starts), k.ints(ends)
    place = [slice(None)] * len(x.shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step < 0 and start < -1 and x.shape[axis] is None:
            x, start = _turned(x, axis, start, end), 0
            end, step = _LARGEST, -step
        place[axis] = _slice(x.shape[axis], start, end, step)
    return x[tuple(place)]


def _turned(x: Tensor, axis: int, start: int, end: int) -> Tensor:
    """Return x[start:end:-1] for a negative `start`; one before the first element starts at the first.

    Python's slice would return no element for such a start.
    """
    front = (slice(None),) * (axis % len(x.shape))
    turned = x[(*front, slice(None, end if end >= 0 else None, -1))]
    if end >= 0:
        return turned[(*front, slice(-start - 1, None))]
    # The reversed x always starts with its last element, for every start, unless the end is before that element.
    stop = -end - 1 if end >= -_LARGEST else None
    body = turned[(*front, slice(None, -1))][(*front, slice(-start - 1, stop))]
    return ops.concatenate([body, turned[(*front, slice(-1, stop))]], axis)


def _places_between(x: KerasTensor, axis: int, start: Tensor, end: Tensor, step: int) -> KerasTensor:
    """Return the indices of a slice with run-time bounds: Slice-13 clamps to [0, n] forwards, to [−1, n − 1]
    backwards.
    """
    n = ops.sum(ones_along(x, axis, "int64"))
    start, end = (ops.where(ops.less(v, 0), ops.add(v, n), v) for v in (start, end))
    low, high = (0, n) if step > 0 else (-1, n - 1)
    start = ops.minimum(ops.maximum(start, 0), high)
    end = ops.minimum(ops.maximum(end, low), high)
    count = ops.negative(ops.floor_divide(ops.subtract(start, end), step))
    return ops.add(start, places_below(count) * step)


def _slice(n: int | None, start: int, end: int, step: int) -> slice:
    """Return a Python slice; bounds outside the range of indices mean "up to the end"."""
    if n is not None:
        # Python clamps as ONNX does. The exception is a backward slice that starts before the first element, which is
        # empty in Python.
        start = max(start + n, 0) if step < 0 and start < 0 else start
        whole = range(n)[slice(start, end, step)]
        stop = whole.stop if whole.stop >= 0 else None
        return slice(whole.start, stop, step) if len(whole) else slice(0, 0, 1)
    if step < 0:
        first = None if start >= _LARGEST or start == -1 else start
        return slice(first, None if end < -_LARGEST else end, step)
    first = None if start == 0 or start < -_LARGEST else start
    return slice(first, None if end >= _LARGEST else end, None if step == 1 else step)


@onnx_op("Pad")
def pad(k, x, pads, value, axes, *, mode):
    amounts, rank = k.ints(pads, "pads"), len(x.shape)
    chosen = list(range(rank)) if axes is None else [a % rank for a in k.ints(axes, "axes")]
    widths = [[0, 0] for _ in range(rank)]
    for axis, b, e in zip(chosen, amounts[: len(chosen)], amounts[len(chosen) :], strict=True):
        widths[axis] = [b, e]
    if any(min(w) < 0 for w in widths):
        x = x[tuple(slice(max(-b, 0) or None, min(e, 0) or None) for b, e in widths)]
        widths = [[max(b, 0), max(e, 0)] for b, e in widths]
    if not any(map(any, widths)):
        return x
    if mode == "constant":
        return _pad_constant(k, x, widths, value)
    if mode == "reflect" and all(n is None or max(w) < n for n, w in zip(x.shape, widths, strict=True)):
        return ops.pad(x, widths, mode="reflect")
    for axis, (b, e) in enumerate(widths):
        if b or e:
            n = x.shape[axis]
            places = _pad_places(x, axis, b, e, mode) if n is None else _pad_indices(n, b, e, mode)
            x = ops.take(x, places, axis=axis)
    return x


def _pad_constant(k: Emitter, x: KerasTensor, widths: Sequence[Sequence[int]], value: Value) -> KerasTensor:
    fill = np.zeros([], x.dtype) if value is None else k.static(value)
    if fill is None:
        raise Unsupported("a fill computed at run time")
    if 2 < len(x.shape) < 6 and is_floating(x) and not fill.any():
        for axis in (0, len(x.shape) - 1):
            x = _between_zeros(x, axis, *widths[axis])
        return pad_zeros(x, widths[1:-1])
    if x.dtype == "bool":
        return ops.cast(ops.pad(ops.cast(x, "int8"), widths, constant_values=int(fill.reshape(()))), "bool")
    return ops.pad(x, widths, constant_values=fill.reshape(()).item())


def _between_zeros(x: KerasTensor, axis: int, before: int, after: int) -> KerasTensor:
    """Return x padded with zeros along a dim that is not spatial, without a Pad operator.

    Under oneDNN, a convolution takes a Pad before it as its own pads, and drops those of batch and channels (TensorFlow
    2.21).
    """
    if not before and not after:
        return x
    one = ops.sum(ops.zeros_like(x), axis=axis, keepdims=True)
    parts = [ops.repeat(one, before, axis), x, ops.repeat(one, after, axis)]
    return ops.concatenate([p for p, n in zip(parts, (before, 1, after), strict=True) if n], axis)


def _pad_places(x: KerasTensor, axis: int, before: int, after: int, mode: str) -> KerasTensor:
    """Return, for a dynamic dim, the index of the element at each position of the padded dim."""
    inside = ops.cumsum(ones_along(x, axis, "int64")) - 1
    size = ops.sum(ones_along(x, axis, "int64"))
    parts = [np.arange(-before, 0), inside, size + np.arange(after)]
    place = ops.concatenate([p for p, n in zip(parts, (before, 1, after), strict=True) if n])
    if mode == "edge":
        return ops.minimum(ops.maximum(place, 0), size - 1)
    if mode == "wrap":
        return ops.mod(place, size)
    raise Unsupported(f"Pad mode {mode!r} along a dim of dynamic size")


def _pad_indices(n: int, before: int, after: int, mode: str) -> np.ndarray:
    """Return, for a dim of `n`, the index of the element at each position of the padded dim."""
    place = np.arange(-before, n + after)
    if mode == "edge":
        place = place.clip(0, n - 1)
    elif mode == "wrap":
        first = max(-before, 0)  # negative pads crop first; the mode repeats the remaining elements
        place = first + (place - first) % (n + min(after, 0) - first)
    elif mode == "reflect":
        period = max(2 * (n - 1), 1)
        place %= period
        place = np.minimum(place, period - place)
    else:
        raise Unsupported(f"Pad mode {mode!r}")
    return place.astype(np.int32)


@onnx_op("ReverseSequence")
def reverse_sequence(k, x, lengths, *, batch_axis, time_axis):
    n = x.shape[time_axis]
    if n is None:
        raise Unsupported("sequences of a dynamic number of steps")
    lengths = ops.expand_dims(ops.cast(k.tensor(lengths), "int64"), -1)
    steps = np.arange(n)
    places = ops.where(ops.less(steps, lengths), lengths - 1 - steps, steps)
    rank = len(x.shape)
    if time_axis < batch_axis:
        places = ops.transpose(places, (1, 0))
    shape = [x.shape[i] if i in (batch_axis, time_axis) else 1 for i in range(rank)]
    places = ops.reshape(places, [-1 if d is None else d for d in shape])
    # The indices become one per element.
    places = plus(places, ops.cast(ops.zeros_like(x), "int64"))
    return ops.take_along_axis(x, places, axis=time_axis)
