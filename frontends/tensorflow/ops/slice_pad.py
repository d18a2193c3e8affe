"""Slices and pads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph
from convert.graph.values import known_dims

from ..common import shape_values
from ..common.lazy_reshape import LAST_KEY, int64, slice_weight
from ..common.strided_slice import subscript
from ..rules import tf_op
from .array import reverse_along

_MAX = np.iinfo(np.int64).max
_MIN = np.iinfo(np.int64).min


@tf_op("StridedSlice")
def strided_slice(
    g: Graph,
    input: ir.Value,
    begin: ir.Value,
    end: ir.Value,
    strides: ir.Value,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> ir.Value:
    masks = {
        "begin_mask": begin_mask,
        "end_mask": end_mask,
        "ellipsis_mask": ellipsis_mask,
        "new_axis_mask": new_axis_mask,
        "shrink_axis_mask": shrink_axis_mask,
    }
    steps = _index_elements(g, strides, _subscript_length(g, strides))
    first = shape_values.content(begin)
    if LAST_KEY in input.meta and first is not None and first.tolist() == [-1] and shrink_axis_mask == 1:
        return input.meta[LAST_KEY]
    items = subscript(_index_elements(g, begin, len(steps)), _index_elements(g, end, len(steps)), steps, masks)
    return _apply_subscript(g, input, items)


def _subscript_length(g: Graph, strides: ir.Value) -> int:
    """Return the number of entries of a subscript, which is always static in TensorFlow."""
    content = shape_values.content(strides)
    (length,) = g.shape(strides) if content is None else content.shape
    if not isinstance(length, int):
        raise Unsupported("a number of strides that depends on data")
    return length


def _index_elements(g: Graph, value: ir.Value, count: int) -> list[Any]:
    """Return the elements of an index vector: known ints, else values of shape [1]."""
    content = shape_values.content(value)
    items = content.tolist() if content is not None else [None] * count
    wide = None
    for i, item in enumerate(items):
        if not isinstance(item, int):
            wide = wide or int64(g, value)
            items[i] = g.Slice(wide, [i], [i + 1], [0])
    return items


def _apply_subscript(g: Graph, x: ir.Value, items: Sequence[Any]) -> ir.Value:
    """Return x[items]: slices first, then single indices from the last to the first, then new axes."""
    if x.const_value is not None and x.dtype != ir.DataType.STRING and not any(map(_is_dynamic, items)):
        return slice_weight(g, x, tuple(items))
    used = sum(item is not None and item is not Ellipsis for item in items)
    if Ellipsis in [i for i in items if i is Ellipsis]:
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items = [*items[:at], *[slice(None)] * (g.rank(x) - used), *items[at + 1 :]]
    slices: dict[int, slice] = {}
    picks: list[tuple[int, Any]] = []
    new: list[int] = []
    axis = place = 0
    for item in items:
        if item is None:
            new.append(place)
            place += 1
        elif isinstance(item, slice):
            if not (item.start is None and item.stop is None and item.step in (None, 1)):
                slices[axis] = item
            axis, place = axis + 1, place + 1
        else:
            picks.append((axis, item))
            axis += 1
    x = _emit_slice(g, x, slices)
    for along, index in reversed(picks):
        index = g.Squeeze(index, [0]) if isinstance(index, ir.Value) else g.const(np.array(index, np.int64))
        x = g.Gather(x, index, axis=along)
    return g.Unsqueeze(x, np.array(new, np.int64)) if new else x


def _is_dynamic(item: Any) -> bool:
    ends = (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)
    return any(isinstance(end, ir.Value) for end in ends)


def _emit_slice(g: Graph, x: ir.Value, slices: Mapping[int, slice]) -> ir.Value:
    if not slices:
        return x
    early = {axis: item for axis, item in slices.items() if _may_start_before_all(item)}
    if early:
        cuts = {axis: _split_backward_slice(g, item) for axis, item in early.items()}
        bounds = _concat_vector(g, [end for end, _ in cuts.values()])
        x = g.Slice(x, np.zeros(len(cuts), np.int64), bounds, np.array(list(cuts), np.int64))
        slices = {axis: cuts[axis][1] if axis in cuts else item for axis, item in slices.items()}
    starts, ends = [], []
    for item in slices.values():
        first, last = _default_bounds(g, item.step)
        starts.append(first if item.start is None else item.start)
        ends.append(last if item.stop is None else item.stop)
    steps = [1 if item.step is None else item.step for item in slices.values()]
    axes = np.array(list(slices), np.int64)
    unit = all(isinstance(s, int) and s == 1 for s in steps)
    out = g.Slice(
        x, _concat_vector(g, starts), _concat_vector(g, ends), axes, None if unit else _concat_vector(g, steps)
    )
    # ONNX's inference loses all dims if an end is computed.
    found = g.shape(out) if out.shape is not None else [None] * g.rank(x)
    return g.facts(
        out, shape=[d if k in slices else whole for k, (d, whole) in enumerate(zip(found, g.shape(x), strict=True))]
    )


def _may_start_before_all(item: slice) -> bool:
    """Return whether a backward slice may start before the first element.

    ONNX then includes the first element; TensorFlow returns none.
    """
    forward = item.step is None or (isinstance(item.step, int) and item.step > 0)
    return not forward and (isinstance(item.start, ir.Value) or (item.start is not None and item.start < -1))


def _split_backward_slice(g: Graph, item: slice) -> tuple[Any, slice]:
    """Return `end`, one after the start of a backward slice, and the backward slice of the elements before `end`."""
    start, stop, step = item.start, item.stop, item.step
    if not _is_dynamic(item):
        moved = min(stop - start - 1, -1) if stop is not None and stop < 0 else stop
        return start + 1, slice(None, moved, step)
    start, step = (v if isinstance(v, ir.Value) else np.array([v], np.int64) for v in (start, step))
    early = g.And(g.Less(step, np.array([0], np.int64)), g.Less(start, np.array([-1], np.int64)))
    if stop is not None:
        stop = stop if isinstance(stop, ir.Value) else g.const(np.array([stop], np.int64))
        moved = g.Min(g.Sub(stop, g.Add(start, np.array([1], np.int64))), np.array([-1], np.int64))
        stop = g.Where(g.And(early, g.Less(stop, np.array([0], np.int64))), moved, stop)
    end = g.Where(early, g.Add(start, np.array([1], np.int64)), np.array([_MAX], np.int64))
    return end, slice(g.Where(early, np.array([_MAX], np.int64), start), stop, item.step)


def _default_bounds(g: Graph, step: Any) -> tuple[Any, Any]:
    """Return the default begin and end of a slice, exchanged for negative steps."""
    if not isinstance(step, ir.Value):
        return (_MAX, _MIN) if step is not None and step < 0 else (0, _MAX)
    back = g.Less(step, np.array([0], np.int64))
    return g.Where(back, np.array([_MAX]), np.array([0])), g.Where(back, np.array([_MIN]), np.array([_MAX]))


def _concat_vector(g: Graph, items: Sequence[Any]) -> ir.Value:
    if all(isinstance(i, int) for i in items):
        return g.const(np.array(items, np.int64))
    return g.Concat(*(i if isinstance(i, ir.Value) else g.const(np.array([i], np.int64)) for i in items), axis=0)


@tf_op("Slice")
def slice_(g: Graph, input: ir.Value, begin: ir.Value, size: ir.Value) -> ir.Value:
    first, count = shape_values.content(begin), shape_values.content(size)
    if first is not None and count is not None and all(isinstance(i, int) for i in (*first, *count)):
        # ONNX counts negative numbers from the end, and clamps numbers after the end.
        if min(first, default=0) < 0 or min(count, default=0) < -1 or _is_beyond(known_dims(input), first, count):
            raise Unsupported(f"begin={first.tolist()} and size={count.tolist()}, which TensorFlow refuses")
        ends = [_MAX if n == -1 else b + n for b, n in zip(first, count, strict=True)]
        return _emit_slice(
            g, input, {i: slice(b, e) for i, (b, e) in enumerate(zip(first, ends, strict=True)) if (b, e) != (0, _MAX)}
        )
    starts, sizes = int64(g, begin), int64(g, size)
    open_ended = g.Equal(sizes, g.const(np.array(-1, np.int64)))
    ends = g.Where(open_ended, g.const(np.array(_MAX, np.int64)), g.Add(starts, sizes))
    y = g.Slice(input, starts, ends, np.arange(g.rank(input), dtype=np.int64))
    if count is not None:
        g.facts(y, shape=[d if d == n or n == -1 else n for d, n in zip(g.shape(y), count, strict=True)])
    return y


def _is_beyond(dims: Sequence[Dim] | None, first: np.ndarray, count: np.ndarray) -> bool:
    """Return whether a slice begins or ends after the end of a dim of known length."""
    if dims is None or len(dims) != len(count):
        return dims is not None
    ends = [b + max(n, 0) for b, n in zip(first, count, strict=True)]
    return any(isinstance(length, int) and end > length for length, end in zip(dims, ends, strict=True))


@tf_op("Pad")
def pad(g: Graph, input: ir.Value, paddings: ir.Value) -> ir.Value:
    return _emit_pad(g, input, paddings, None)


@tf_op("PadV2")
def pad_v2(g: Graph, input: ir.Value, paddings: ir.Value, constant_values: ir.Value) -> ir.Value:
    return _emit_pad(g, input, paddings, constant_values)


def _emit_pad(g: Graph, x: ir.Value, paddings: ir.Value, value: ir.Value | None) -> ir.Value:
    content = shape_values.content(paddings)
    if content is not None and all(isinstance(p, int) for p in content.ravel()):
        pads = content.astype(np.int64)
        if pads.size and pads.min() < 0:  # ONNX crops by negative pads
            raise Unsupported(f"paddings={pads.tolist()}, which TensorFlow refuses")
        # Pads for all dims instead of `axes`: onnxruntime 1.31 moves a Transpose past a Pad with axes incorrectly.
        return g.Pad(x, pads.T.ravel(), value) if pads.any() else x
    return g.Pad(x, g.Reshape(g.Transpose(int64(g, paddings), perm=[1, 0]), [-1]), value)


@tf_op("MirrorPad")
def mirror_pad(g: Graph, input: ir.Value, paddings: ir.Value, *, mode: str) -> ir.Value:
    if mode not in ("REFLECT", "SYMMETRIC"):
        raise Unsupported(f"mode={mode!r} is not handled")
    if not shape_values.is_known(paddings):
        return _mirror_computed_paddings(g, input, int64(g, paddings), mode)
    pairs = np.reshape(shape_values.ints(paddings, "paddings"), (-1, 2))
    if mode == "REFLECT":
        return g.Pad(input, pairs.T.ravel().astype(np.int64), mode="reflect") if pairs.any() else input
    for axis, (before, after) in enumerate(pairs.tolist()):
        parts = [input]
        if before:
            parts.insert(0, reverse_along(g, g.Slice(input, [0], [before], [axis]), [axis]))
        if after:
            parts.append(reverse_along(g, g.Slice(input, [-after], [_MAX], [axis]), [axis]))
        input = g.Concat(*parts, axis=axis) if len(parts) > 1 else input
    return input


def _mirror_computed_paddings(g: Graph, input: ir.Value, paddings: ir.Value, mode: str) -> ir.Value:
    """Pad with mirrored edges for `paddings`, [rank, 2], known at run time only."""
    rank = g.rank(input)
    # A reflection does not repeat the edge element.
    edge = 1 if mode == "REFLECT" else 0
    for axis in range(rank):
        before = g.Gather(g.Gather(paddings, axis), [0])
        after = g.Gather(g.Gather(paddings, axis), [1])
        length = g.Shape(input, start=axis, end=axis + 1)
        head = g.Slice(input, [edge], g.Add(before, [edge]), [axis])
        tail = g.Slice(input, g.Sub(length, g.Add(after, [edge])), g.Sub(length, [edge]), [axis])
        input = g.Concat(reverse_along(g, head, [axis]), input, reverse_along(g, tail, [axis]), axis=axis)
    return input
