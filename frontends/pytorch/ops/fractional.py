"""Maxima over windows whose places are drawn (Graham, 2014)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.sizes import reshape, size, static_sizes
from ..common.values import cast, constant_like
from ..rules import torch_op
from .conv import ensure_batch_dim

_LENGTHS = torch_op.limit("fractional_max_pool2d", "fractional pools over dims of unknown length")


def _fractional_pool(dims: int) -> Any:
    def rule(
        g: Graph, x: ir.Value, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: ir.Value
    ) -> list[ir.Value]:
        x, lone = ensure_batch_dim(g, x, dims)
        lengths = static_sizes(g.shape(x)[2:], _LENGTHS)
        if not all(isinstance(n, int) for n in output_size):
            raise Unsupported(_LENGTHS)
        # The numbers for a plane are those of the last dim first, in three dims of the first dim first.
        order = range(dims) if dims == 3 else reversed(range(dims))
        starts = {
            d: _window_starts(g, g.Gather(random_samples, k, axis=2), lengths[d], kernel_size[d], output_size[d])
            for k, d in enumerate(order)
        }
        place = _window_indices(g, [starts[d] for d in range(dims)], kernel_size, lengths)
        return [g.Squeeze(v, [0]) if lone else v for v in _max_with_indices(g, x, place, list(output_size), lengths)]

    return rule


torch_op.same(_fractional_pool, fractional_max_pool2d=2, fractional_max_pool3d=3)


def _window_starts(g: Graph, sample: ir.Value, length: int, kernel: int, out: int) -> ir.Value:
    """Where the windows of each plane begin, [N, C, windows]: at steps of a fraction, the last one at the end."""
    sample = g.Unsqueeze(sample, [2])
    if out == 1:
        return g.Cast(
            g.Add(g.Mul(sample, constant_like(g, 0.0, sample)), constant_like(g, length - kernel, sample)),
            to=ir.DataType.INT64,
        )
    step = np.array((length - kernel) / (out - 1), dtype=g.dtype(sample).numpy())
    numbers = np.arange(out - 1).astype(step.dtype)
    moved, begun = (cast(g, g.Mul(v, step), torch.int64) for v in (g.Add(sample, numbers), sample))
    first = g.Sub(moved, begun)
    last = g.Mul(g.Slice(first, [0], [1], [2]), 0)
    return g.Concat(first, g.Add(last, length - kernel), axis=2)


def _window_indices(g: Graph, starts: list[ir.Value], kernel: Sequence[int], lengths: Sequence[int]) -> ir.Value:
    """Places in the flattened plane, [N, C, …windows, …kernel]."""
    dims = len(starts)
    total = None
    for i, start in enumerate(starts):
        ones = [k for k in range(2, 2 + 2 * dims) if k != 2 + i]
        offsets = np.arange(kernel[i]).reshape([-1 if k == i else 1 for k in range(dims)])
        term = g.Mul(g.Add(g.Unsqueeze(start, ones), offsets), math.prod(lengths[i + 1 :]))
        total = term if total is None else g.Add(total, term)
    assert total is not None
    return total


def _max_with_indices(
    g: Graph, x: ir.Value, place: ir.Value, out: list[int], lengths: Sequence[int]
) -> tuple[ir.Value, ir.Value]:
    outer = [size(g, x, 0), size(g, x, 1)]
    area = math.prod(lengths)
    flat = reshape(g, x, [*outer, area])
    window = math.prod(static_sizes(g.shape(place)[2 + len(out) :], _LENGTHS))
    read = g.GatherElements(flat, reshape(g, place, [*outer, math.prod(out) * window]), axis=2)
    last = 2 + len(out)
    read, place = (reshape(g, v, [*outer, *out, window]) for v in (read, place))
    best = g.Unsqueeze(g.ArgMax(read, axis=last, keepdims=0), [last])
    return g.ReduceMax(read, [last], keepdims=0), g.Squeeze(g.GatherElements(place, best, axis=last), [last])
