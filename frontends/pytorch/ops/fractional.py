"""Max pools over windows at random positions (Graham, 2014)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.graph import Graph

from ..common.places import Length
from ..common.sizes import arange, plus, reshape, size, times
from ..common.values import as_value, cast, constant_like
from ..rules import torch_op
from .conv import ensure_batch_dim


def _fractional_pool(dims: int) -> Any:
    def rule(
        g: Graph, x: ir.Value, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: ir.Value
    ) -> list[ir.Value]:
        x, lone = ensure_batch_dim(g, x, dims)
        lengths = [size(g, x, i + 2) for i in range(dims)]
        # The random numbers of a plane have the last dim first; those of a volume have the first dim first.
        order = range(dims) if dims == 3 else reversed(range(dims))
        starts = {
            d: _window_starts(g, g.Gather(random_samples, k, axis=2), lengths[d], kernel_size[d], output_size[d])
            for k, d in enumerate(order)
        }
        place = _window_indices(g, [starts[d] for d in range(dims)], kernel_size, lengths)
        found = _max_with_indices(g, x, place, list(output_size), lengths, math.prod(kernel_size))
        return [g.Squeeze(v, [0]) if lone else v for v in found]

    return rule


torch_op.same(_fractional_pool, fractional_max_pool2d=2, fractional_max_pool3d=3)


def _window_starts(g: Graph, sample: ir.Value, length: Length, kernel: int, out: Length) -> ir.Value:
    """Return the window starts of each plane, [N, C, windows]: at fractional steps, with the last window at the end."""
    sample, last_start = g.Unsqueeze(sample, [2]), plus(g, length, -kernel)
    last = g.Add(g.Cast(g.Mul(sample, constant_like(g, 0.0, sample)), to=ir.DataType.INT64), last_start)
    if isinstance(out, int) and out == 1:
        return last
    before = plus(g, out, -1)
    if isinstance(last_start, int) and isinstance(before, int):
        step: Any = np.array(last_start / before, dtype=g.dtype(sample).numpy())
    else:
        step = g.Div(*(cast(g, as_value(g, n, torch.int64), g.dtype(sample)) for n in (last_start, before)))
    numbers = cast(g, arange(g, before), g.dtype(sample))
    moved, begun = (cast(g, g.Mul(v, step), torch.int64) for v in (g.Add(sample, numbers), sample))
    return g.Concat(g.Sub(moved, begun), last, axis=2)


def _window_indices(g: Graph, starts: list[ir.Value], kernel: Sequence[int], lengths: Sequence[Length]) -> ir.Value:
    """Return flat indices in the plane, [N, C, …windows, …kernel]."""
    dims = len(starts)
    total = None
    for i, start in enumerate(starts):
        ones = [k for k in range(2, 2 + 2 * dims) if k != 2 + i]
        offsets = np.arange(kernel[i]).reshape([-1 if k == i else 1 for k in range(dims)])
        term = g.Mul(g.Add(g.Unsqueeze(start, ones), offsets), times(g, *lengths[i + 1 :]))
        total = term if total is None else g.Add(total, term)
    assert total is not None
    return total


def _max_with_indices(
    g: Graph, x: ir.Value, place: ir.Value, out: list[Length], lengths: Sequence[Length], window: int
) -> tuple[ir.Value, ir.Value]:
    outer = [size(g, x, 0), size(g, x, 1)]
    flat = reshape(g, x, [*outer, times(g, *lengths)])
    read = g.GatherElements(flat, reshape(g, place, [*outer, times(g, *out, window)]), axis=2)
    last = 2 + len(out)
    read, place = (reshape(g, v, [*outer, *out, window]) for v in (read, place))
    best = g.Unsqueeze(g.ArgMax(read, axis=last, keepdims=0), [last])
    return g.ReduceMax(read, [last], keepdims=0), g.Squeeze(g.GatherElements(place, best, axis=last), [last])
