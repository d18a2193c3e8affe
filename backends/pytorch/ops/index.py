"""Indexing: Gather, Scatter, Slice, OneHot, NonZero and similar operators."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor

from convert.graph.metadata import OPERATOR_KEY

from ..common import counted_axes, wide
from ..rules import host, onnx_op
from ..torch_internals import check

Size: TypeAlias = int | torch.SymInt


def _from_start(indices: Any, length: Any) -> Any:
    """Return indices with negative ones counted from the end."""
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + length, indices)


@onnx_op("Gather")
@host("indices")
def gather(t, x, indices, *, axis):
    known = t.static(indices)
    if known is not None and known.ndim == 0:
        return x.select(axis, int(known))
    places = t.tensor(indices)
    if t.node.metadata_props.get(OPERATOR_KEY) == "embedding":  # PyTorch's embedding, which takes no negative indices
        places = places.to(torch.int64)
    else:
        places = _from_start(places, x.shape[axis])
    if axis == 0 and x.dim() == 2 and x.dtype.is_floating_point and isinstance(x, torch.nn.Parameter):
        return torch.nn.functional.embedding(places, x)
    axis = axis % x.dim()
    flat = torch.index_select(x, axis, places.reshape(-1))
    return flat.reshape([*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]])


@onnx_op("GatherElements")
def gather_elements(t, x, indices, *, axis):
    return torch.gather(_cut(x, indices, axis), axis, _from_start(indices, x.shape[axis]))


def _cut(x: Any, indices: Any, axis: Any) -> Any:
    """Return x cut to the extent of the indices along the other axes."""
    return x


@onnx_op("GatherND")
def gather_nd(t, x, indices, *, batch_dims):
    places, last = indices.to(torch.int64), indices.shape[-1]
    parts = [_from_start(places[..., i], x.shape[batch_dims + i]) for i in range(last)]
    if last == 0:  # an index of length 0 selects all of x
        ones = [1] * (indices.dim() - 1 - batch_dims)
        whole = x.reshape([*x.shape[:batch_dims], *ones, *x.shape[batch_dims:]])
        return whole.expand([*indices.shape[:-1], *x.shape[batch_dims:]])
    rank = places.dim() - 1
    before = [torch.arange(x.shape[b]).reshape([-1 if i == b else 1 for i in range(rank)]) for b in range(batch_dims)]
    return x[(*before, *parts)] if before or parts else x


@onnx_op("ScatterElements")
def scatter_elements(t, x, indices, updates, *, axis, reduction):
    places, dtype = _from_start(indices, x.shape[axis]), x.dtype
    x, updates = wide(x), wide(updates)
    if reduction == "none":
        return x.scatter(axis, places, updates).to(dtype)
    how = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[reduction]
    return x.scatter_reduce(axis, places, updates, how, include_self=True).to(dtype)


@onnx_op("ScatterND")
def scatter_nd(t, x, indices, updates, *, reduction):
    depth, dtype = indices.shape[-1], x.dtype
    x, updates = wide(x), wide(updates)
    flat = torch.zeros(indices.shape[:-1], dtype=torch.int64)
    for i in range(depth):
        flat = flat * x.shape[i] + _from_start(indices[..., i], x.shape[i])
    inner = list(x.shape[depth:])
    rows = x.reshape([_product(x.shape[:depth]), *inner])
    flat = flat.reshape(-1)
    new = updates.reshape([_product(indices.shape[:-1]), *inner])
    if reduction == "none":
        found = rows.index_copy(0, flat, new)
    elif reduction == "add":
        found = rows.index_add(0, flat, new)
    else:
        how = {"mul": "prod", "max": "amax", "min": "amin"}[reduction]
        found = rows.index_reduce(0, flat, new, how, include_self=True)
    return found.reshape(x.shape).to(dtype)


def _product(dims: Any) -> Any:
    total = 1
    for n in dims:
        total = total * n
    return total


@onnx_op("Slice")
@host("starts", "ends", "axes", "steps")
def slice_(t, x, starts, ends, axes=None, steps=None):
    begin, end = t.ints(starts), t.ints(ends)
    places = list(range(len(begin))) if axes is None else t.static(axes)
    step = [1] * len(begin) if steps is None else t.static(steps)
    if places is None or step is None:
        return _sliced_by_data(t, x, starts, ends, axes, steps)
    places, step = counted_axes([int(a) for a in places], x.dim()), [int(s) for s in step]
    fixed = all(not isinstance(v, torch.Tensor) for v in (starts, ends))
    for a, b, axis, by in zip(begin, end, places, step, strict=True):
        if fixed and by > 0:
            x = _plain_slice(x, axis, a, b, by)
        elif fixed and isinstance(a, int) and isinstance(b, int):
            x = _plain_slice(_backwards(x, axis, a, b), axis, 0, None, -by)
        else:
            x = _strided(x, axis, a, b, by)
    return x


def _plain_slice(x: Tensor, axis: int, a: Size, b: Size | None, by: int) -> Tensor:
    limit = 2**62
    a = max(min(a, limit), -limit) if isinstance(a, int) else a
    b = max(min(b, limit), -limit) if isinstance(b, int) else b
    place = [slice(None)] * x.dim()
    place[axis] = slice(a, b if not (isinstance(b, int) and b >= limit) else None, by)
    return x[tuple(place)]


def _backwards(x: Tensor, axis: int, a: int, b: int) -> Tensor:
    """Return the elements from `a` down to the one after `b`. Slice-13 clamps a start before the first element to
    it.
    """
    count = x.shape[axis]
    low = 0 if b < -(2**31) else count if b == -1 else b + 1
    if a < -1:
        high = 1 if a < -(2**31) else torch.sym_max(count + a + 1, 1)
    else:
        high = None if a == -1 or a >= 2**31 - 1 else a + 1
    return torch.flip(_plain_slice(x, axis, low, high, 1), [axis])


def _scalar(v: Any) -> Any:
    return torch.scalar_tensor(max(min(v, 2**62), -(2**62)) if isinstance(v, int) else v, dtype=torch.int64)


def _strided(x: Any, axis: Any, a: Any, b: Any, by: Any) -> Any:
    """Return a slice by positions: Slice-13 clamps to [0, n] forwards, and to [-1, n - 1] backwards."""
    n = x.shape[axis]
    if all(isinstance(v, int) for v in (a, b, n)):
        a, b = (a + n if a < 0 else a), (b + n if b < 0 else b)
        low, high = (0, n) if by > 0 else (-1, n - 1)
        places = range(min(max(a, 0), high), min(max(b, low), high), by)
        if places == range(n):
            return x
        return torch.index_select(x, axis, torch.arange(len(places)) * places.step + places.start)
    return torch.index_select(x, axis, _places(_scalar(a), _scalar(b), _scalar(by), _scalar(n)))


def _places(a: Any, b: Any, by: Any, n: Any) -> Any:
    a, b = torch.where(a < 0, a + n, a), torch.where(b < 0, b + n, b)
    forwards = by > 0
    low = torch.where(forwards, 0, -1)
    high = torch.where(forwards, n, n - 1)
    a = torch.minimum(torch.maximum(a, torch.where(forwards, 0, 0)), high)
    b = torch.minimum(torch.maximum(b, low), high)
    count = torch.clamp(-torch.div(a - b, by, rounding_mode="floor"), min=0).item()
    check(count >= 0)
    return a + torch.arange(count) * by


def _sliced_by_data(t: Any, x: Any, starts: Any, ends: Any, axes: Any, steps: Any) -> Any:
    """Slice along axes that are known at run time only: each input axis gets its own start, end and step, or is
    kept.
    """
    rank = x.dim()
    starts, ends = t.tensor(starts).to(torch.int64), t.tensor(ends).to(torch.int64)
    count = starts.shape[0]
    axes = torch.arange(count) if axes is None else torch.remainder(t.tensor(axes).to(torch.int64), rank)
    steps = torch.ones(count, dtype=torch.int64) if steps is None else t.tensor(steps).to(torch.int64)
    for axis in range(rank):
        chosen = axes == axis
        n = _scalar(x.shape[axis])
        a = torch.where(chosen, starts, 0).sum()
        by = torch.where(chosen.any(), torch.where(chosen, steps, 0).sum(), 1)
        b = torch.where(chosen.any(), torch.where(chosen, ends, 0).sum(), n)
        x = torch.index_select(x, axis, _places(a, b, by, n))
    return x


@onnx_op("OneHot")
@host("depth")
def one_hot(t, indices, depth, values, *, axis):
    count = t.number(depth if not isinstance(depth, torch.Tensor) else depth.reshape(()))
    if not isinstance(count, int):
        check(count >= 0)
    places = indices.to(torch.int64)
    places = torch.where(places < 0, places + count, places).unsqueeze(axis)
    rank = indices.dim() + 1
    marks = torch.arange(count).reshape([-1 if i == axis % rank else 1 for i in range(rank)])
    return torch.where(places == marks, values[1], values[0])


@onnx_op("NonZero")
def non_zero(t, x):
    return torch.nonzero(wide(x)).T.contiguous()


@onnx_op("Compress")
def compress(t, x, condition, *, axis):
    if axis is None:
        x, axis = x.reshape(-1), 0
    places = torch.nonzero(condition).reshape(-1)
    return torch.index_select(x, axis, places)


@onnx_op("TopK")
@host("k")
def top_k(t, x, k, *, axis, largest, sorted):
    dtype, x = x.dtype, wide(x)
    count = t.number(k if not isinstance(k, torch.Tensor) else k.reshape(()))
    # ONNX takes the lower index first among equal elements, as a stable sort does.
    values, places = torch.sort(x, dim=axis, descending=bool(largest), stable=True)
    if not isinstance(count, int):
        check(count >= 0)
        taken = torch.arange(count)
        return torch.index_select(values, axis, taken).to(dtype), torch.index_select(places, axis, taken)
    return values.narrow(axis, 0, count).to(dtype), places.narrow(axis, 0, count)


@onnx_op("ReverseSequence")
def reverse_sequence(t, x, lengths, *, batch_axis, time_axis):
    steps, shape = x.shape[time_axis], [1] * x.dim()
    time = torch.arange(steps)[None]
    count = lengths.to(torch.int64)[:, None]
    places = torch.where(time < count, count - 1 - time, time)
    places = places if batch_axis == 0 else places.T
    shape[batch_axis], shape[time_axis] = x.shape[batch_axis], steps
    return torch.gather(x, time_axis, places.reshape(shape).expand(x.shape))


@onnx_op("Unique")
def unique(t, x, *, axis, sorted):
    flat = x.reshape(-1) if axis is None else x
    dim = 0 if axis is None else axis
    dtype = flat.dtype
    values, inverse, counts = torch.unique(wide(flat), sorted=True, return_inverse=True, return_counts=True, dim=dim)
    inverse = inverse.to(torch.int64)  # PyTorch 2.10 gives it the dtype of x during capture
    positions = torch.arange(inverse.shape[0])
    first = torch.full((counts.shape[0],), inverse.shape[0], dtype=torch.int64)
    first = first.scatter_reduce(0, inverse, positions, "amin", include_self=True)
    if sorted:
        return values.to(dtype), first, inverse, counts
    order = torch.argsort(first)
    rank = torch.argsort(order)
    return torch.index_select(values, dim, order).to(dtype), first[order], rank[inverse], counts[order]
