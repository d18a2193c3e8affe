"""Convolutions and pools of integers, which ONNX has for floats only: windows are gathered, exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph
from convert.semantics.windows import Window

from ..common.places import Length, Table, combined, places_in_plane, sliding_places, spread
from ..common.sizes import plus, quotient, reshape, size, static_sizes, times, vector
from ..common.values import cast, constant_like, lowest
from ..rules import torch_op

LENGTHS = torch_op.limit("convolution", "convolutions of integers by weights of unknown size")


def _lengths(g: Graph, x: ir.Value) -> list[Length]:
    return [size(g, x, i) for i in range(2, g.rank(x))]


def _window_tables(g: Graph, lengths: Sequence[Length], how: Window) -> tuple[list[Table], list[Length]]:
    """Return the indices [windows, kernel] that windows read in each dim, counted in the padded input, and their
    number.
    """
    tables, counts = [], []
    for i, length in enumerate(lengths):
        whole = plus(g, length, plus(g, how.pads[i], how.pads[i + len(lengths)]))
        last_start = plus(g, whole, -how.dilations[i] * (how.kernel[i] - 1) - 1)
        counts.append(plus(g, quotient(g, last_start, how.strides[i]), 1))
        tables.append(sliding_places(g, counts[-1], how.strides[i], np.arange(how.kernel[i]) * how.dilations[i]))
    return tables, counts


def _gather_windows(g: Graph, x: ir.Value, how: Window, fill: int) -> ir.Value:
    """Return [N, C, …, window] of x [N, C, …], with `fill` in the padding."""
    tables, out = _window_tables(g, _lengths(g, x), how)
    dims = len(tables)
    if any(not isinstance(p, int) or p for p in how.pads):
        pads = vector(g, [0, 0, *how.pads[:dims], 0, 0, *how.pads[dims:]])
        x = g.Pad(x, pads, constant_like(g, fill, x))
    for i in reversed(range(dims)):
        x = g.Gather(x, tables[i], axis=i + 2)
    perm = [0, 1, *range(2, 2 + 2 * dims, 2), *range(3, 3 + 2 * dims, 2)]
    return reshape(g, g.Transpose(x, perm=perm), [size(g, x, 0), size(g, x, 1), *out, math.prod(how.kernel)])


def conv_integers(g: Graph, x: ir.Value, weight: ir.Value, bias: ir.Value | None, how: Window, groups: int) -> ir.Value:
    """Return the convolution of integers as an int64 matrix product. weight: [out, in / groups, …]."""
    dtype = g.dtype(x)
    x, weight = cast(g, x, torch.int64), cast(g, weight, torch.int64)
    made, each = static_sizes(g.shape(weight)[:2], LENGTHS)
    read = _gather_windows(g, x, how, 0)
    out, batch, area = _window_tables(g, _lengths(g, x), how)[1], size(g, x, 0), math.prod(how.kernel)
    count = times(g, *out)
    read = g.Transpose(reshape(g, read, [batch, groups, each, count, area]), perm=[0, 1, 3, 2, 4])
    read = reshape(g, read, [batch, groups, count, each * area])
    matrices = g.Transpose(g.Reshape(weight, [groups, made // groups, each * area]), perm=[0, 2, 1])
    found = reshape(g, g.Transpose(g.MatMul(read, matrices), perm=[0, 1, 3, 2]), [batch, made, *out])
    if bias is not None:
        found = g.Add(found, g.Unsqueeze(cast(g, bias, torch.int64), list(range(1, len(out) + 1))))
    return cast(g, found, dtype)


def conv_transpose_integers(
    g: Graph,
    x: ir.Value,
    weight: ir.Value,
    bias: ir.Value | None,
    how: Window,
    more: Sequence[int],
    groups: int,
) -> ir.Value:
    """Return the transposed convolution of integers: insert zeros between the elements, then convolve with the flipped
    kernel.

    weight: [in, out / groups, …]. more: the additional output_padding.
    """
    dims = len(how.kernel)
    for i, (length, stride) in enumerate(zip(_lengths(g, x), how.strides, strict=True)):
        if stride == 1:
            continue
        axis, rank = i + 2, g.rank(x)
        x = g.Unsqueeze(x, [axis + 1])
        x = g.Pad(x, [0] * (rank + 1 + axis + 1) + [stride - 1] + [0] * (rank - axis - 1), constant_like(g, 0, x))
        lengths = [size(g, x, d) for d in range(rank + 1)]
        x = reshape(g, x, [*lengths[:axis], times(g, length, stride), *lengths[axis + 2 :]])
        x = g.Slice(x, [0], vector(g, plus(g, times(g, length, stride), 1 - stride)), [axis])
    reach = [d * (k - 1) for d, k in zip(how.dilations, how.kernel, strict=True)]
    pads = [r - p for r, p in zip(reach, how.pads, strict=False)]
    ends = [p + m for p, m in zip(pads, more, strict=True)]
    read, made = g.shape(weight)[:2]
    if not isinstance(read, int) or not isinstance(made, int):
        raise Unsupported(LENGTHS)
    weight = g.Reshape(weight, [groups, read // groups, made, *how.kernel])
    weight = g.Transpose(weight, perm=[0, 2, 1, *range(3, 3 + dims)])
    weight = g.Reshape(weight, [groups * made, read // groups, *how.kernel])
    for i, k in enumerate(how.kernel):
        weight = g.Gather(weight, np.arange(k)[::-1].copy(), axis=i + 2)
    return conv_integers(g, x, weight, bias, Window.of(how.kernel, None, how.dilations, [*pads, *ends]), groups)


def max_pool_integers(g: Graph, x: ir.Value, how: Window) -> tuple[ir.Value, ir.Value]:
    """Return the maxima of the windows, and their flat indices in the plane."""
    lengths = _lengths(g, x)
    read = _gather_windows(g, x, how, lowest(g.dtype(x)))
    dims, last = len(lengths), g.rank(read) - 1
    tables, counts = _window_tables(g, lengths, how)
    begins = [np.array([[-p]]) for p in how.pads[:dims]]
    tables = [combined(g, "Add", table, begin) for table, begin in zip(tables, begins, strict=True)]
    flat = g.Unsqueeze(places_in_plane(g, tables, lengths, counts), [0, 1])
    best = g.Unsqueeze(g.ArgMax(read, axis=last, keepdims=0), [last])
    index = g.GatherElements(g.Expand(flat, g.dims(read)), best, axis=last)
    return g.ReduceMax(read, [last], keepdims=0), g.Squeeze(index, [last])


def _sum_of_integers(g: Graph, x: ir.Value, length: int) -> ir.Value:
    """Return the sum over the last dim by halving: runtimes compute ReduceSum of integers in floats, exact up to 2⁵³
    only.
    """
    while length > 1:
        half = length // 2
        folded = g.Add(g.Slice(x, [0], [half], [-1]), g.Slice(x, [half], [2 * half], [-1]))
        x = g.Concat(folded, g.Slice(x, [2 * half], [length], [-1]), axis=-1) if length % 2 else folded
        length = half + length % 2
    return g.Squeeze(x, [-1])


def average_pool_integers(g: Graph, x: ir.Value, how: Window, counted: Sequence[int], divisor: int | None) -> ir.Value:
    """Return the sums of the windows divided by their number of elements, truncated; `counted` padding is counted
    too.
    """
    lengths, dtype = _lengths(g, x), g.dtype(x)
    read = _gather_windows(g, cast(g, x, torch.int64), how, 0)
    counts: Table = np.ones((1,) * len(lengths), dtype=np.int64)
    for i, table in enumerate(_window_tables(g, lengths, how)[0]):
        begin = plus(g, how.pads[i], -counted[i])
        end = plus(g, lengths[i], plus(g, how.pads[i], counted[i]))
        others = [k for k in range(len(lengths)) if k != i]
        counts = combined(g, "Mul", counts, spread(g, _number_inside(g, table, begin, end), others))
    total = _sum_of_integers(g, read, math.prod(how.kernel))
    return cast(g, g.Div(total, divisor or counts), dtype)


def _number_inside(g: Graph, table: Table, begin: Length, end: Length) -> Table:
    """Return how many indices of each row are in [begin, end)."""
    if isinstance(table, np.ndarray) and isinstance(begin, int) and isinstance(end, int):
        return ((table >= begin) & (table < end)).sum(1)
    inside = g.And(g.GreaterOrEqual(table, begin), g.Less(table, end))
    return g.ReduceSum(g.Cast(inside, to=ir.DataType.INT64), [1], keepdims=0)
