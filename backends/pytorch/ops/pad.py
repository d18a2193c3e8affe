"""Pads."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from convert.errors import Unsupported

from ..common import wide
from ..rules import host, onnx_op
from ..torch_internals import check


@onnx_op("Pad")
@host("pads", "constant_value", "axes")
def pad(t, x, pads, constant_value=None, axes=None, *, mode):
    dtype = x.dtype
    x = x.to(torch.uint8) if dtype == torch.bool else wide(x)
    rank, known = x.dim(), t.static(pads)
    places = list(range(rank)) if axes is None else t.static(axes)
    if places is None:
        sizes = _by_axis(t, pads, axes, rank)
    else:
        own = [int(a) % rank for a in places]
        numbers = t.ints(pads)
        sizes = {a: (numbers[i], numbers[len(own) + i]) for i, a in enumerate(own)}
    plain = known is not None and (constant_value is None or t.static(constant_value) is not None)
    if mode == "constant" and plain and places is not None:
        value = 0 if constant_value is None else t.static(constant_value).ravel()[0].item()
        flat = [n for a in reversed(range(rank)) for n in sizes.get(a, (0, 0))]
        while len(flat) > 2 and flat[-2:] == [0, 0]:
            flat = flat[:-2]
        return F.pad(x, flat, value=value).to(dtype)
    value = None if constant_value is None else t.tensor(constant_value).reshape(()).to(x.dtype)
    for a, (before, after) in sizes.items():
        if not (isinstance(before, int) and isinstance(after, int) and before == after == 0):
            x = _padded(x, a, before, after, mode, value)
    return x.to(dtype)


def _by_axis(t: Any, pads: Any, axes: Any, rank: Any) -> Any:
    """Return the pads of every axis if `axes` are known at run time only."""
    numbers, own = t.tensor(pads).to(torch.int64), torch.remainder(t.tensor(axes).to(torch.int64), rank)
    count = own.shape[0]
    if not isinstance(count, int):
        raise Unsupported("a Pad whose number of axes is computed at run time")
    found = {}
    for a in range(rank):
        before = torch.where(own == a, numbers[:count], 0).sum().item()
        after = torch.where(own == a, numbers[count:], 0).sum().item()
        found[a] = (before, after)
    return found


def _padded(x: Any, axis: Any, before: Any, after: Any, mode: Any, value: Any) -> Any:
    """Pad one axis by indexing, for pads that may be known at run time only (Pad-24).

    Negative pads crop first, as in onnxruntime.
    """
    n = x.shape[axis]
    total = n + before + after
    check(total >= 0)
    places = torch.arange(total) - before
    if mode != "constant":
        start = torch.sym_max(-before, 0)
        kept = n - start - torch.sym_max(-after, 0)
        return torch.index_select(x, axis, _map_to_source(places - start, kept, mode) + start)
    inside = (places >= 0) & (places < n)
    if _is_zero(n):
        shape = [total if i == axis else m for i, m in enumerate(x.shape)]
        return torch.zeros(shape, dtype=x.dtype) + (0 if value is None else value)
    y = torch.index_select(x, axis, torch.minimum(torch.clamp(places, min=0), _scalar(n - 1)))
    mark = inside.reshape([-1 if i == axis else 1 for i in range(x.dim())])
    return torch.where(mark, y, torch.zeros((), dtype=x.dtype) if value is None else value)


def _map_to_source(places: Any, n: Any, mode: str) -> Any:
    """Map indices to elements. An index outside the `n` elements gets the element that padding puts there."""
    if mode == "wrap":
        return torch.remainder(places, n)
    if mode == "edge" or _is_one(n):
        return torch.minimum(torch.clamp(places, min=0), _scalar(n - 1))
    period = torch.clamp(_scalar(2 * (n - 1)), min=1)
    turned = torch.remainder(places, period)
    return torch.minimum(turned, period - turned)


def _scalar(n: Any) -> Any:
    return torch.scalar_tensor(n, dtype=torch.int64)


def _is_one(n: Any) -> Any:
    return isinstance(n, int) and n == 1


def _is_zero(n: Any) -> Any:
    return isinstance(n, int) and n == 0
