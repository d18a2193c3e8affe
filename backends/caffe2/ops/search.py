"""Rules with data-dependent results: masks, unique elements, box suppression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..common.dtypes import COMPARED, FLOAT, cast, widen
from ..common.indexing import fixed_dims, flatten_to_vector, strides_of
from ..common.padding import slice_axis
from ..common.shapes import Axis, dim, full_like, reshape, reshape_fixed, transpose, zeros_like
from ..net import Net, Op
from ..rules import onnx_op


@onnx_op("Compress")
def compress(net: Net, x: Blob, condition: Blob, *, axis: int | None) -> Blob:
    """Compress-11: the slices along `axis` (or the elements) where the condition holds; the condition may be shorter
    than the axis.
    """
    if axis is None:
        moved, order = flatten_to_vector(net, x), [0]
    else:
        along, rank = net.axis(x, axis), net.rank(x)
        order = [along, *(i for i in range(rank) if i != along)]
        moved = transpose(net, x, order)
    length, size = net.shape(condition)[0], net.shape(moved)[0]
    if length != size:
        if isinstance(length, int):
            moved = slice_axis(net, moved, 0, 0, length)
        else:
            moved = net.facts(net.Gather(moved, net.Range(dim(net, condition, 0))), shape=(None, *net.shape(moved)[1:]))
    kept = net.facts(net.BooleanMask(moved, condition), x.dtype, (None, *net.shape(moved)[1:]))
    return transpose(net, kept, np.argsort(order).tolist())


@onnx_op("NonZero")
def non_zero(net: Net, x: Blob) -> Blob:
    """NonZero-13: the coordinates of each non-zero element, from its flat index."""
    shape = fixed_dims(net, x, "NonZero")
    wide = flatten_to_vector(net, widen(net, x, COMPARED))
    mask = wide if wide.dtype == ir.DataType.BOOL else net.NE(wide, net.const(np.zeros(1, wide.dtype.numpy())))
    size = int(np.prod(shape))
    places = net.BooleanMask(net.const(np.arange(size, dtype=np.int64)), mask)
    net.facts(places, ir.DataType.INT64, (None,))
    if not shape:
        raise Unsupported("NonZero of a scalar")
    rows: list[Blob] = []
    for stride, count in zip(strides_of(shape), shape, strict=True):
        coordinate = net.Div(places, net.const(np.array(stride))) if stride != 1 else places
        if rows:
            whole = net.Mul(net.Div(coordinate, net.const(np.array(count))), net.const(np.array(count)))
            coordinate = net.Sub(coordinate, whole)
        rows.append(net.facts(net.ExpandDims(coordinate, dims=[0]), ir.DataType.INT64, (1, None)))
    return rows[0] if len(rows) == 1 else net.op("Concat", rows, axis=0, outputs=2)[0]


@onnx_op("ReverseSequence")
def reverse_sequence(net: Net, x: Blob, lengths: Blob, *, batch_axis: int, time_axis: int) -> Blob:
    """ReverseSequence-10 by ReversePackedSegs, which takes [time, batch, size]."""
    order = [time_axis, batch_axis, *range(2, net.rank(x))]
    moved = transpose(net, x, order)
    shape = net.shape(moved)
    if len(shape) != 3:
        sizes = [d for d in shape[2:] if isinstance(d, int)]
        if len(sizes) < len(shape) - 2:
            raise Unsupported("sequences of tensors whose sizes are not fixed")
        moved = reshape(net, moved, [Axis(0), Axis(1), int(np.prod(sizes))])
    y = net.ReversePackedSegs(moved, cast(net, lengths, ir.DataType.INT32))
    y = net.facts(y, x.dtype, net.shape(moved))
    y = y if len(shape) == 3 else reshape(net, y, [Axis(0), Axis(1), *sizes])
    return transpose(net, y, order)


@onnx_op("Unique")
def unique(net: Net, x: Blob, *, axis: int | None, sorted: int) -> list[Blob]:
    """Unique-11: compare all pairs of slices; n² comparisons give first indices, ranks and counts."""
    shape = fixed_dims(net, x, "Unique")
    along = None if axis is None else net.axis(x, axis)
    order = [0] if along is None else [along, *(i for i in range(len(shape)) if i != along)]
    moved = flatten_to_vector(net, x) if along is None else transpose(net, x, order)
    count = int(np.prod(shape)) if along is None else shape[along]
    table = reshape_fixed(net, widen(net, moved, COMPARED), [count, -1 if not count else int(np.prod(shape)) // count])
    if count * count * net.shape(table)[1] > 1 << 26:  # type: ignore[operator]
        raise Unsupported(f"Unique of {count} elements: each is compared with each")
    same, less = _compare_rows(net, table)
    whole = cast(net, same, ir.DataType.INT64)
    first = net.facts(net.ArgMax(whole, axis=1, keepdims=0), ir.DataType.INT64, (count,))
    places = net.const(np.arange(count, dtype=np.int64))
    is_first = net.facts(net.EQ(first, places), shape=(count,))
    before = less if sorted else _is_before_first(net, first, count)
    counted = net.Mul(cast(net, before, ir.DataType.INT64), cast(net, is_first, ir.DataType.INT64))
    inverse = net.facts(net.op("ReduceSum", [net.facts(counted, shape=(count, count))], axes=[1], keepdims=0),
                        ir.DataType.INT64, (count,))  # fmt: skip
    found = net.facts(net.BooleanMask(places, is_first), ir.DataType.INT64, (None,))
    indices = net.facts(net.Copy(found), ir.DataType.INT64, (None,))
    net.ops.append(Op("ScatterAssign", [indices, net.Gather(inverse, found), found], [indices], {}))
    y = net.facts(net.Gather(moved, indices), x.dtype, (None, *net.shape(moved)[1:]))
    number = net.facts(net.op("ReduceSum", [whole], axes=[1], keepdims=0), ir.DataType.INT64, (count,))
    return [transpose(net, y, np.argsort(order).tolist()), indices, inverse, net.Gather(number, indices)]


def _compare_rows(net: Net, table: Blob) -> tuple[Blob, Blob]:
    """Return for rows i and j whether they are equal, and whether j sorts before i. NaNs equal each other and sort
    last.
    """
    count, width = (int(str(d)) for d in net.shape(table))
    numbers = cast(net, table, ir.DataType.INT32) if table.dtype == ir.DataType.BOOL else table
    here, other = reshape_fixed(net, numbers, [count, 1, width]), reshape_fixed(net, numbers, [1, count, width])
    less, more = net.LT(other, here), net.GT(other, here)
    if table.dtype.is_floating_point():
        here_none, other_none = net.NE(here, here), net.NE(other, other)
        less = net.Or(less, net.And(net.Not(other_none), here_none))
        more = net.Or(more, net.And(other_none, net.Not(here_none)))
    integer = ir.DataType.INT32
    sign = net.facts(net.Sub(cast(net, more, integer), cast(net, less, integer)), integer, (count, count, width))
    if width > 1:  # the first differing element decides
        apart = net.Mul(sign, sign)
        cell = net.facts(net.ArgMax(apart, axis=2, keepdims=1), ir.DataType.INT64, (count, count, 1))
        chosen = net.EQ(cell, net.const(np.arange(width, dtype=np.int64)))
        sign = net.Mul(sign, cast(net, net.facts(chosen, shape=(count, count, width)), integer))
    total = net.op("ReduceSum", [net.facts(sign, integer, (count, count, width))], axes=[2], keepdims=0)
    net.facts(total, integer, (count, count))
    zero = net.const(np.zeros((), np.int32))
    return net.EQ(total, zero), net.LT(total, zero)


def _is_before_first(net: Net, first: Blob, count: int) -> Blob:
    """Return for i and j whether j is before the first index with the value of i."""
    column = net.facts(net.ExpandDims(first, dims=[1]), ir.DataType.INT64, (count, 1))
    return net.LT(net.const(np.arange(count, dtype=np.int64).reshape(1, count)), column)


@onnx_op("NonMaxSuppression")
def non_max_suppression(
    net: Net,
    boxes: Blob,
    scores: Blob,
    max_output_boxes_per_class: Blob | None,
    iou_threshold: Blob | None,
    score_threshold: Blob | None,
    *,
    center_point_box: int,
) -> Blob:
    """NonMaxSuppression-11 for all batches and classes at once: take the best box, drop what overlaps it, repeat."""
    batch, classes, count = fixed_dims(net, scores, "NonMaxSuppression")
    if max_output_boxes_per_class is None:
        return net.const(np.zeros([0, 3], np.int64))
    limit = net.static(max_output_boxes_per_class)
    steps = count if limit is None else min(count, int(limit.ravel()[0]))
    if steps > _STEPS:
        raise Unsupported(f"NonMaxSuppression with up to {steps} boxes for each class ({_STEPS} at most)")
    if steps <= 0:
        return net.const(np.zeros([0, 3], np.int64))
    shape = (batch, classes, count)
    ratios = _box_overlaps(net, boxes, center_point_box, batch, count)
    worst = full_like(net, scores, -np.inf, FLOAT[0])
    left = scores if score_threshold is None else _select(net, net.GT(scores, score_threshold), scores, worst, shape)
    threshold = net.const(0.0) if iou_threshold is None else iou_threshold
    places, taken = [], []
    for i in range(steps):
        best = net.facts(net.ArgMax(left, axis=2, keepdims=1), ir.DataType.INT64, (batch, classes, 1))
        value = net.op("ReduceMax", [left], axes=[2], keepdims=1)
        valid = net.facts(net.GT(value, net.const(-np.inf, ir.DataType.FLOAT)), shape=(batch, classes, 1))
        if limit is None:
            valid = net.And(valid, net.GT(max_output_boxes_per_class, net.const(np.array(i))))
        chosen = net.EQ(best, net.const(np.arange(count, dtype=np.int64)))
        row = net.BatchMatMul(cast(net, net.facts(chosen, shape=shape), FLOAT[0]), ratios)
        gone = net.Or(chosen, net.GT(row, threshold))
        left = _select(net, gone, worst, left, shape)
        places.append(best)
        taken.append(valid)
    return _index_triples(net, places, taken, batch, classes)


_STEPS = 512


def _select(net: Net, condition: Blob, a: Blob, b: Blob, shape: Sequence[int]) -> Blob:
    return net.facts(net.Where(net.facts(condition, shape=shape), a, b), FLOAT[0], shape)


def _index_triples(net: Net, places: list[Blob], taken: list[Blob], batch: int, classes: int) -> Blob:
    """Return [batch, class, box] of the selected boxes, sorted by batch and class."""
    steps = len(places)
    index, mask = (p[0] if steps == 1 else net.op("Concat", p, axis=2, outputs=2)[0] for p in (places, taken))
    grid = np.indices([batch, classes, steps])
    column = reshape_fixed(net, net.facts(index, shape=(batch, classes, steps)), [batch * classes * steps, 1])
    rows = net.op("Concat", [*(net.const(grid[i].reshape(-1, 1).astype(np.int64)) for i in (0, 1)), column],
                  axis=1, outputs=2)[0]  # fmt: skip
    kept = reshape_fixed(net, net.facts(mask, ir.DataType.BOOL, (batch, classes, steps)), [batch * classes * steps])
    return net.facts(net.BooleanMask(rows, kept), ir.DataType.INT64, (None, 3))


def _box_overlaps(net: Net, boxes: Blob, centred: int, batch: int, count: int) -> Blob:
    """Return intersection over union of all pairs of boxes: [batch, boxes, boxes]."""
    a, b, c, d = (slice_axis(net, boxes, 2, i, i + 1) for i in range(4))
    if centred:  # x, y, width, height
        half = net.const(0.5)
        low = [net.Sub(p, net.Mul(s, half)) for p, s in ((a, c), (b, d))]
        high = [net.Add(p, net.Mul(s, half)) for p, s in ((a, c), (b, d))]
    else:  # two corners in any order
        low, high = ([net.op(f, [p, q]) for p, q in ((a, c), (b, d))] for f in ("Min", "Max"))
    sides, area = [], None
    for first, last in zip(low, high, strict=True):
        first, last = (net.facts(v, FLOAT[0], (batch, count, 1)) for v in (first, last))
        square = net.const(np.array([batch, count, count], np.int64))
        rows = [net.Expand(v, square) for v in (first, last)]
        columns = [net.Expand(net.Transpose(v, axes=[0, 2, 1]), square) for v in (first, last)]
        inner = net.Sub(net.Min(rows[1], columns[1]), net.Max(rows[0], columns[0]))
        sides.append(net.Relu(inner))
        length = net.Sub(last, first)
        area = length if area is None else net.Mul(area, length)
    common = net.Mul(*sides)
    assert area is not None
    union = net.Sub(net.Add(area, net.Transpose(area, axes=[0, 2, 1])), common)
    ratio = net.facts(net.Div(common, union), FLOAT[0], (batch, count, count))
    # Two empty boxes have an overlap of 0 / 0.
    return _select(net, net.EQ(ratio, ratio), ratio, zeros_like(net, ratio), (batch, count, count))
