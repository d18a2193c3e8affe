"""Reductions over windows: pools, running sums, and any other function of the elements in each window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from convert import limits
from convert.errors import ResourceLimit, Unsupported
from convert.graph import Graph
from convert.graph.values import inverse_permutation

from ..regions import Region
from ..rules import stablehlo_op
from ..sizes import Size, of_dim
from ..types import ResultType
from ..values import shape_vector
from .conv import pairs
from .elementwise import MEAN_KEY, is_float
from .gather import SCATTERED
from .reduce import is_neutral, reduced
from .shape import int64
from .slices import padded, padded_by


@stablehlo_op("reduce_window")
def reduce_window(
    g, *operands, window_dimensions, regions, results, window_strides=None, base_dilations=None,
    window_dilations=None, padding=None,
):  # fmt: skip
    """Return the reductions. The inputs are the operands, followed by the initial value of their windows."""
    count = len(operands) // 2
    values, starts = list(operands[:count]), list(operands[count:])
    rank = len(window_dimensions)
    strides, gaps, dilations = (list(v) if v is not None else [1] * rank
                                for v in (window_strides, base_dilations, window_dilations))  # fmt: skip
    pads = pairs(padding, rank)
    window = list(window_dimensions)
    monoid = regions[0].monoid() if count == 1 and is_neutral(starts[0], regions[0].monoid()) else ""
    if monoid and all(gap == 1 for gap in gaps):
        axis = running_axis(g, values[0], window, strides, dilations, pads)
        if monoid == "add" and axis is not None and values[0].dtype in _CUMULATED:
            return cumulated(g, values[0], axis, pads[axis][0] == 0 and window[axis] > 1)
        if (found := pooled(g, values[0], monoid, window, strides, dilations, pads)) is not None:
            return found
    low, high = ([pair[side] for pair in pads] for side in (0, 1))
    values = [padded(g, v, s, low, high, [gap - 1 for gap in gaps]) for v, s in zip(values, starts, strict=True)]
    return _every_place(g, values, starts, window, strides, dilations, regions[0], results)


_CUMULATED = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64,
                        ir.DataType.FLOAT16, ir.DataType.BFLOAT16})  # fmt: skip


def running_axis(
    g: Graph, x: ir.Value, window: list[int], strides: list[int], dilations: list[int], pads: list[tuple[int, int]]
) -> int | None:
    """Return the axis along which each window has all elements up to its position, or all from it on; None for other
    windows.
    """
    axes = [a for a, size in enumerate(window) if size != 1]
    if len(axes) != 1 or any(n != 1 for n in (*strides, *dilations)):
        return None
    (axis,) = axes
    length = g.shape(x)[axis]
    others = [pair for a, pair in enumerate(pads) if a != axis]
    whole = window[axis] == length and pads[axis] in ((window[axis] - 1, 0), (0, window[axis] - 1))
    return axis if whole and all(pair == (0, 0) for pair in others) else None


def cumulated(g: Graph, x: ir.Value, axis: int, backwards: bool) -> ir.Value:
    """Return the sum of all elements up to each one, or from each one on."""
    return g.CumSum(x, g.const(axis, ir.DataType.INT64), reverse=int(backwards))


def pooled(
    g: Graph, x: ir.Value, monoid: str, window: list[int], strides: list[int], dilations: list[int],
    pads: list[tuple[int, int]],
) -> ir.Value | None:  # fmt: skip
    """Return a max or sum window as a pool over at most three axes; None if it is no pool."""
    axes = [a for a in range(len(window)) if (window[a], strides[a], pads[a]) != (1, 1, (0, 0))]
    if monoid not in ("maximum", "add", "minimum") or not is_float(x) or not 1 <= len(axes) <= 3:
        return None
    spans = [dilations[a] * (window[a] - 1) + 1 for a in axes]
    if any(p < 0 for a in axes for p in pads[a]) or any(max(pads[a]) >= s for a, s in zip(axes, spans, strict=True)):
        return None
    kept = [a for a in range(len(window)) if a not in axes]
    kernel, steps, apart = ([v[a] for a in axes] for v in (window, strides, dilations))
    around = [*(pads[a][0] for a in axes), *(pads[a][1] for a in axes)]
    turned, back = _channels_first(g, x, kept, axes)
    if monoid == "add":
        mean = g.AveragePool(turned, kernel_shape=kernel, strides=steps, pads=around, count_include_pad=1,
                             dilations=apart)  # fmt: skip
        size = math.prod(kernel)
        summed = back(mean)
        found = g.Mul(summed, g.const(float(size), g.dtype(x)))
        found.meta[MEAN_KEY] = (summed, size)
        return found
    negative = monoid == "minimum"
    largest = g.MaxPool(g.Neg(turned) if negative else turned, kernel_shape=kernel, strides=steps, pads=around,
                        dilations=apart)  # fmt: skip
    return back(g.Neg(largest) if negative else largest)


DYNAMIC_WINDOWS = stablehlo_op.limit(
    "@stablehlo.dynamic_reduce_window",
    "windows of dynamic size that are neither a whole axis nor all elements before one",
)


@stablehlo_op("@stablehlo.dynamic_reduce_window")
def dynamic_reduce_window(g, *operands, regions, results, sizes):
    """Return the reductions of windows whose sizes are operands: of a whole axis, or up to each element, as in cumsum.

    The last five operands are the sizes, strides, dilations of the operand and of the window, and the padding.
    """
    count = (len(operands) - 5) // 2
    values, starts, known_sizes = list(operands[:count]), list(operands[count:-5]), sizes[-5:]
    if any(content is None for content in known_sizes[:4]):
        raise Unsupported(DYNAMIC_WINDOWS)
    window, *steps = ([size.number for size in content.tolist()] for content in known_sizes[:4])
    if any(None in numbers for numbers in steps):
        raise Unsupported(DYNAMIC_WINDOWS)
    padding: list[Size | None] = (
        [None] * (2 * len(window)) if known_sizes[4] is None else known_sizes[4].ravel().tolist()
    )
    pads = [None if amount is None else amount.number for amount in padding]
    if None not in window:
        if None in pads:
            values = _padded_values(g, values, starts, operands[-1], steps[1])
        return reduce_window(
            g, *values, *starts, window_dimensions=window, regions=regions, results=results, window_strides=steps[0],
            base_dilations=steps[1], window_dilations=steps[2], padding=None if None in pads else pads,
        )  # fmt: skip
    known = [amount for amount in padding if amount is not None]
    if len(known) < len(padding):
        raise Unsupported(DYNAMIC_WINDOWS)
    return _by_axis(g, values, starts, known_sizes[0].tolist(), steps, known, regions[0])


def _padded_values(
    g: Graph, values: list[ir.Value], starts: list[ir.Value], padding: ir.Value, gaps: list[int]
) -> list[ir.Value]:
    """Return the operands padded by computed amounts, before and after each axis."""
    if set(gaps) != {1}:
        raise Unsupported(DYNAMIC_WINDOWS)
    low, high = (g.Gather(int64(g, padding), np.int64(side), axis=1) for side in (0, 1))
    return [padded_by(g, v, s, low, high) for v, s in zip(values, starts, strict=True)]


def _by_axis(
    g: Graph, values: list[ir.Value], starts: list[ir.Value], window: list[Size], steps: list[list[int]],
    padding: list[Size], region: Region,
) -> list[ir.Value]:  # fmt: skip
    """Return the reductions of windows as long as an axis: of all its elements, or of those on one side."""
    axes = [a for a, size in enumerate(window) if size.number != 1]
    if len(axes) != 1 or any(n != 1 for numbers in steps for n in numbers):
        raise Unsupported(DYNAMIC_WINDOWS)
    (axis,) = axes
    others = [amount.number for k, amount in enumerate(padding) if k // 2 != axis]
    if any(n != 0 for n in others) or window[axis] != of_dim(g.shape(values[0])[axis]):
        raise Unsupported(DYNAMIC_WINDOWS)
    before, after = padding[2 * axis : 2 * axis + 2]
    last = window[axis] - 1
    if (before.number, after.number) == (0, 0):
        return _whole_axis(g, values, starts, axis, region)
    if (before == last and after.number == 0) or (before.number == 0 and after == last):
        return _running(g, values, starts, axis, region, backwards=before.number == 0)
    raise Unsupported(DYNAMIC_WINDOWS)


def _whole_axis(g: Graph, values: list[ir.Value], starts: list[ir.Value], axis: int, region: Region) -> list[ir.Value]:
    """Return the reduction of an axis of dynamic size, which stays with size 1."""
    found = reduced(g, values[0], starts[0], [axis], region.monoid()) if len(values) == 1 else None
    if found is None:
        raise Unsupported(DYNAMIC_WINDOWS)
    return [g.Unsqueeze(found, [axis])]


def _running(
    g: Graph, values: list[ir.Value], starts: list[ir.Value], axis: int, region: Region, *, backwards: bool
) -> list[ir.Value]:
    """Return the reduction of all elements up to each one, or from each one on: a CumSum, or a Scan over the rows."""
    neutral_sum = len(values) == 1 and region.monoid() == "add" and is_neutral(starts[0], "add")
    if neutral_sum and values[0].dtype in _CUMULATED:
        return [cumulated(g, values[0], axis, backwards)]
    body = g.body()
    rows = [[d for a, d in enumerate(g.shape(v)) if a != axis] for v in values]
    carried = [body.input(f"carried_{k}", g.dtype(v), rows[k]) for k, v in enumerate(values)]
    given = [body.input(f"row_{k}", g.dtype(v), rows[k]) for k, v in enumerate(values)]
    after = region.apply(body, [*given, *carried] if backwards else [*carried, *given])
    for value in (*after, *after):
        body.output(body.Identity(value))
    count = len(values)
    begins = [g.Expand(s, g.Shape(g.Gather(v, np.int64(0), axis=axis))) for v, s in zip(values, starts, strict=True)]
    attributes = {"body": body, "num_scan_inputs": count, "scan_input_axes": [axis] * count,
                  "scan_output_axes": [axis] * count, "scan_input_directions": [int(backwards)] * count,
                  "scan_output_directions": [int(backwards)] * count}  # fmt: skip
    found = g.node("Scan", [*begins, *values], attributes, outputs=2 * count)
    return [g.facts(v, shape=g.shape(x)) for v, x in zip(found[count:], values, strict=True)]


Back = Callable[[ir.Value], ir.Value]
"""A function that restores the layout of the operand in a result."""


def _channels_first(g: Graph, x: ir.Value, kept: list[int], axes: list[int]) -> tuple[ir.Value, Back]:
    """Return `x` with a batch axis, a channel axis and then `axes`, and the function that restores the layout of a
    result.
    """
    order = [*kept, *axes]
    moved = x if order == sorted(order) else g.Transpose(x, perm=order)
    added = 2 - len(kept)
    if added > 0:
        moved = g.Unsqueeze(moved, list(range(added)))
    elif added < 0:
        return _flattened(g, moved, kept, axes, order)

    def back(found: ir.Value) -> ir.Value:
        inner = g.Squeeze(found, list(range(added))) if added else found
        return inner if order == sorted(order) else g.Transpose(inner, perm=list(inverse_permutation(order)))

    return moved, back


def _flattened(g: Graph, moved: ir.Value, kept: list[int], axes: list[int], order: list[int]) -> tuple[ir.Value, Back]:
    """Like `_channels_first`, for more than two other axes: those after the first are merged into the channels."""
    dims = g.shape(moved)
    inner = dims[1 : len(kept)]
    if not all(isinstance(d, int) for d in inner):
        raise Unsupported("a window of a tensor with several axes of dynamic size")
    channels = math.prod(d for d in inner if isinstance(d, int))
    spatial = [d if isinstance(d, int) else 0 for d in dims[len(kept) :]]
    if 0 in spatial:
        raise Unsupported("a window of a tensor with several axes, along one of dynamic size")
    flat = g.Reshape(moved, g.const(np.array([0, channels, *spatial], np.int64)))

    def back(found: ir.Value) -> ir.Value:
        lengths = g.shape(found)[2:]
        shape = np.array([0, *inner, *lengths], np.int64)
        inner_value = g.Reshape(found, g.const(shape))
        return (
            inner_value if order == sorted(order) else g.Transpose(inner_value, perm=list(inverse_permutation(order)))
        )

    return flat, back


def _every_place(
    g: Graph,
    values: list[ir.Value],
    starts: list[ir.Value],
    window: list[int],
    strides: list[int],
    dilations: list[int],
    region: Region,
    results: list[ResultType],
) -> list[ir.Value]:
    """Return the elements at each position in the window as one tensor, combined position by position."""
    places = _places(g, window)
    rank = len(window)
    joined: list[ir.Value] = []
    for place in places:
        begins = [p * d for p, d in zip(place, dilations, strict=True)]
        parts = []
        for value in values:
            dims = g.shape(value)
            ends = []
            for axis in range(rank):
                count = results[0].dims[axis]
                length = dims[axis]
                if count is None and isinstance(length, int):
                    count = (length - (window[axis] - 1) * dilations[axis] - 1) // strides[axis] + 1
                if count is None:
                    # Number of elements at the end of the axis that a window at this position does not reach.
                    ends.append(begins[axis] - (window[axis] - 1) * dilations[axis] or 2**62)
                else:
                    ends.append(begins[axis] + (count - 1) * strides[axis] + 1)
            axes = [a for a in range(rank) if (window[a], strides[a]) != (1, 1)]
            parts.append(
                g.Slice(value, [begins[a] for a in axes], [ends[a] for a in axes], axes, [strides[a] for a in axes])
                if axes
                else value
            )
        joined = region.apply(g, [*joined, *parts]) if joined else parts
    return region.apply(g, [*starts, *joined])


WINDOW_AXES = stablehlo_op.limit(
    "select_and_scatter",
    "windows along an axis of dynamic size, and functions that ONNX does not scatter by, of windows that overlap",
)


@stablehlo_op("select_and_scatter")
def select_and_scatter(
    g, operand, source, init_value, *, window_dimensions, regions, window_strides=None, padding=None
):
    """Add each element of `source` at the element of its window that `select` chooses; padding is never chosen.

    Axes with windows are merged into one last axis. An additional row at its end takes elements without a target.
    """
    rank = len(window_dimensions)
    window, strides = list(window_dimensions), list(window_strides or [1] * rank)
    pads, dims = pairs(padding, rank), g.shape(operand)
    axes = [a for a in range(rank) if (window[a], strides[a], pads[a]) != (1, 1, (0, 0))]
    lengths = [dims[a] for a in axes if isinstance(dims[a], int)]
    select, scatter = regions
    kind = SCATTERED.get(scatter.monoid(), "")
    if len(lengths) != len(axes) or (not kind and any(strides[a] < window[a] for a in axes)):
        raise Unsupported(WINDOW_AXES)
    counts = [g.shape(source)[a] for a in axes]
    chosen = _preferred(g, operand, axes, lengths, counts, window, strides, pads, select)
    order = [*(a for a in range(rank) if a not in axes), *axes]
    size = math.prod(lengths)
    rows = [g.Reshape(v if order == sorted(order) else g.Transpose(v, perm=order), g.const(np.array([-1, n], np.int64)))
            for v, n in ((chosen, math.prod(counts)), (source, math.prod(counts)))]  # fmt: skip
    places = g.Concat(g.Shape(rows[0], start=0, end=1), g.const(np.array([size + 1], np.int64)), axis=0)
    start = g.Expand(init_value, places)
    if kind:
        found = g.ScatterElements(start, *rows, axis=1, reduction=kind)
    else:
        found = g.ScatterElements(start, rows[0], scatter.apply(g, [init_value, rows[1]])[0], axis=1)
    found = g.Slice(found, [0], [size], [1])
    found = g.Reshape(found, shape_vector(g, [dims[a] for a in order], g.Gather(g.Shape(operand), np.array(order))))
    return found if order == sorted(order) else g.Transpose(found, perm=list(inverse_permutation(order)))


def _places(g: Graph, window: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the positions in a window. Raises `ResourceLimit` if they are too many to be combined one by one."""
    if math.prod(window) > limits.WINDOW_PLACES:
        raise ResourceLimit(
            f"{g.location}: a window of {math.prod(window):,} elements is combined one by one",
            hint="a program can set convert.limits.WINDOW_PLACES",
        )
    return list(itertools.product(*map(range, window)))


def _preferred(
    g: Graph, x: ir.Value, axes: list[int], lengths: list[int], counts: list[int], window: list[int],
    strides: list[int], pads: list[tuple[int, int]], select: Region,
) -> ir.Value:  # fmt: skip
    """Return for each window the flat index over `axes` of the chosen element; the size of `axes` if there is none."""
    places = _places(g, [window[a] for a in axes])
    rank = len(window)
    shape = [counts[axes.index(a)] if a in axes else 1 for a in range(rank)]
    value = number = None
    inside = np.zeros(shape, bool)
    for place in places:
        starts = [p - pads[a][0] for p, a in zip(place, axes, strict=True)]
        positions = [
            (start + strides[a] * np.arange(count)).reshape([-1 if b == a else 1 for b in range(rank)])
            for start, a, count in zip(starts, axes, counts, strict=True)
        ]
        here, linear = np.ones(shape, bool), np.zeros(shape, np.int64)
        for position, length in zip(positions, lengths, strict=True):
            here, linear = here & (position >= 0) & (position < length), linear * length + position
        linear = np.where(here, linear, math.prod(lengths))
        taken = x
        for a, position, length in zip(axes, positions, lengths, strict=True):
            taken = g.Gather(taken, g.const(np.clip(position.ravel(), 0, length - 1)), axis=a)
        candidate = g.Expand(g.const(linear), g.Shape(taken))
        if value is None:
            value, number, inside = taken, candidate, here
            continue
        keeps = select.apply(g, [value, taken])[0]
        keeps = g.And(g.Or(keeps, g.const(~here)), g.const(inside | ~here))
        value, number, inside = g.Where(keeps, value, taken), g.Where(keeps, number, candidate), inside | here
    assert number is not None
    return number
