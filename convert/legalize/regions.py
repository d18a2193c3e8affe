"""RoiAlign and MaxRoiPool written out: the bins of a region along each axis, then means or maxima over both axes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.legalize.sampling import rows_of, size_of

_FLOAT = ir.DataType.FLOAT


@dataclass(frozen=True)
class _Samples:
    """The samples of each bin along one axis, [regions, bins, samples].

    place: their coordinates. inside: whether they are inside the image. counted: whether the bin has them; None if
    each bin has all. last: the last coordinate of the image.
    """

    place: ir.Value
    inside: ir.Value
    counted: ir.Value | None
    last: ir.Value


def roi_align(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """RoiAlign: the mean of a bin's samples by a matrix for each axis, or the maximum of their weighted neighbours."""
    x, rois, images = node.inputs
    assert x is not None
    assert images is not None
    a, dtype = node.attributes, g.dtype(x)
    mode = a.get_string("mode", "avg")
    half = a.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    if mode not in ("avg", "max"):
        raise Unsupported(f"RoiAlign with mode {mode!r}")
    scaled = g.Sub(g.Mul(g.Cast(rois, to=_FLOAT), a.get_float("spatial_scale", 1.0)), 0.5 if half else 0.0)
    corners = [g.Gather(scaled, np.int64(i), axis=1) for i in range(4)]
    ratio, sizes = a.get_int("sampling_ratio", 0), [size_of(g, x, axis) for axis in (2, 3)]
    bins = [a.get_int("output_height", 1), a.get_int("output_width", 1)]
    rows, columns = (
        _samples(g, corners[1 - i], corners[3 - i], bins[i], sizes[i], ratio, half) for i in range(2)
    )  # fmt: skip
    if mode == "max":
        return [_largest(g, x, images, rows, columns)]
    down, across = (_mean_matrix(g, s, n) for s, n in ((rows, sizes[0]), (columns, sizes[1])))
    down, across = (m if dtype == _FLOAT else g.Cast(m, to=dtype) for m in (down, across))
    y = g.MatMul(g.Unsqueeze(down, [1]), g.Gather(x, images, axis=0))  # [regions, channels, rows of bins, width]
    return [g.MatMul(y, g.Unsqueeze(g.Transpose(across, perm=[0, 2, 1]), [1]))]


def _samples(
    g: Graph, start: ir.Value, end: ir.Value, bins: int, size: int | ir.Value, ratio: int, half: bool
) -> _Samples:
    """Return the samples between `start` and `end`, [regions] each.

    With an adaptive ratio (0), a bin has as many samples as its region needs; the others are masked.
    """
    extent = g.Sub(end, start) if half else g.Max(g.Sub(end, start), 1.0)
    each = g.Div(extent, float(bins))
    number: np.ndarray | ir.Value = np.arange(ratio, dtype=np.float32)
    own, counted = np.array(ratio, np.float32), None
    if ratio <= 0:
        needed = g.Max(g.Ceil(each), 0.0)
        most = g.Cast(g.Max(g.ReduceMax(needed, keepdims=0), 1.0), to=ir.DataType.INT64)
        number = g.Cast(g.Range(np.int64(0), most, np.int64(1)), to=_FLOAT)
        column = g.Unsqueeze(needed, [1])
        counted = g.Unsqueeze(g.Less(g.Unsqueeze(number, [0]), column), [1])  # [regions, 1, samples]
        own = g.Max(column, 1.0)
    fraction = g.Div(g.Add(number, 0.5), own)  # [samples] or [regions, samples]
    fraction = fraction if ratio > 0 else g.Unsqueeze(fraction, [1])
    place = g.Add(np.arange(bins, dtype=np.float32).reshape(bins, 1), fraction)
    place = g.Add(g.Unsqueeze(start, [1, 2]), g.Mul(place, g.Unsqueeze(each, [1, 2])))
    last = g.const(float(size - 1)) if isinstance(size, int) else g.Sub(g.Cast(size, to=_FLOAT), 1.0)
    inside = g.And(g.GreaterOrEqual(place, -1.0), g.LessOrEqual(place, g.Add(last, 1.0)))
    inside = inside if counted is None else g.And(inside, counted)
    return _Samples(g.Max(g.Min(place, last), 0.0), inside, counted, last)


def _counted_to(g: Graph, size: int | ir.Value) -> ir.Value:
    """Return 0, 1, … size - 1 as floats."""
    if isinstance(size, int):
        return g.const(np.arange(size, dtype=np.float32))
    return g.Cast(g.Range(np.int64(0), size, np.int64(1)), to=_FLOAT)


def _mean_matrix(g: Graph, samples: _Samples, size: int | ir.Value) -> ir.Value:
    """Return the weight of each element in each bin along one axis: [regions, bins, size]."""
    share = g.Max(g.Sub(1.0, g.Abs(g.Sub(g.Unsqueeze(samples.place, [3]), _counted_to(g, size)))), 0.0)
    total = g.ReduceSum(g.Where(g.Unsqueeze(samples.inside, [3]), share, 0.0), [2], keepdims=0)
    if samples.counted is None:
        count: ir.Value | float = float(g.shape(samples.place)[2] or 1)
    else:
        count = g.Max(g.ReduceSum(g.Cast(samples.counted, to=_FLOAT), [2], keepdims=1), 1.0)
    mean: ir.Value = g.Div(total, count)
    return mean


def _neighbors(g: Graph, samples: _Samples) -> list[tuple[ir.Value, ir.Value]]:
    """Return index and weight of both neighbours of each sample."""
    low = g.Floor(samples.place)
    upper = g.Sub(samples.place, low)
    places = [g.Cast(p, to=ir.DataType.INT64) for p in (low, g.Min(g.Add(low, 1.0), samples.last))]
    weights = [g.Where(samples.inside, w, 0.0) for w in (g.Sub(1.0, upper), upper)]
    return list(zip(places, weights, strict=True))


def _largest(g: Graph, x: ir.Value, images: ir.Value, rows: _Samples, columns: _Samples) -> ir.Value:
    """Return the maximum over all weighted neighbours of a bin's samples, as ONNX's reference and onnxruntime do."""
    image, dtype = rows_of(g, x), g.dtype(x)
    lowest, best, counted = g.const(float(np.finfo(dtype.numpy()).min), dtype), None, None
    if rows.counted is not None and columns.counted is not None:
        counted = g.And(g.Unsqueeze(rows.counted, [2, 4, 5]), g.Unsqueeze(columns.counted, [1, 3, 5]))
    for (py, wy), (px, wx) in itertools.product(_neighbors(g, rows), _neighbors(g, columns)):
        # [regions, rows of bins, columns of bins, samples, samples, channels]
        index = g.Add(g.Mul(g.Unsqueeze(py, [2, 4]), image.sizes[1]), g.Unsqueeze(px, [1, 3]))
        if image.first is not None:
            index = g.Add(index, g.Unsqueeze(g.Gather(image.first, images, axis=0), [1, 2, 3, 4]))
        weight = g.Mul(g.Unsqueeze(wy, [2, 4, 5]), g.Unsqueeze(wx, [1, 3, 5]))
        value = g.Mul(g.Gather(image.content, index, axis=0), weight if dtype == _FLOAT else g.Cast(weight, to=dtype))
        value = value if counted is None else g.Where(counted, value, lowest)
        value = g.ReduceMax(value, [3, 4], keepdims=0)
        best = value if best is None else g.Max(best, value)
    return g.Transpose(best, perm=[0, 3, 1, 2])


def max_roi_pool(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """MaxRoiPool: the maximum of a bin's elements along the columns, then the rows; 0 for an empty bin."""
    x, rois = node.inputs
    assert x is not None
    dtype, a = g.dtype(x), node.attributes
    scaled = g.Mul(rois, g.const(a.get_float("spatial_scale", 1.0), dtype))
    # Rows of `rois` are batch index, x1, y1, x2, y2; ties are rounded away from zero.
    rounded = g.Mul(g.Sign(scaled), g.Floor(g.Add(g.Abs(scaled), g.const(0.5, dtype))))
    corners = [g.Cast(g.Gather(rounded, np.int64(i), axis=1), to=_FLOAT) for i in range(1, 5)]
    down, across = (
        _inside(g, corners[1 - i], corners[3 - i], bins, size_of(g, x, 2 + i))
        for i, bins in enumerate(a.get_ints("pooled_shape"))
    )
    lowest = g.const(float(np.finfo(dtype.numpy()).min), dtype)
    images = g.Gather(x, g.Cast(g.Gather(rois, np.int64(0), axis=1), to=ir.DataType.INT64), axis=0)
    # [regions, channels, height, columns of bins, width], then [regions, channels, rows of bins, height, columns]
    y = g.Where(g.Unsqueeze(across, [1, 2]), g.Unsqueeze(images, [3]), lowest)
    y = g.Unsqueeze(g.ReduceMax(y, [4], keepdims=0), [2])
    y = g.ReduceMax(g.Where(g.Unsqueeze(down, [1, 4]), y, lowest), [3], keepdims=0)
    rows, columns = (g.ReduceMax(g.Cast(m, to=_FLOAT), [2], keepdims=0) for m in (down, across))
    filled = g.Greater(g.Mul(g.Unsqueeze(rows, [1, 3]), g.Unsqueeze(columns, [1, 2])), 0.0)
    return [g.Where(filled, y, g.const(0.0, dtype))]


def _inside(g: Graph, start: ir.Value, end: ir.Value, bins: int, size: int | ir.Value) -> ir.Value:
    """Return which elements along one axis are in each bin of each region: booleans [regions, bins, size]."""
    each = g.Unsqueeze(g.Div(g.Max(g.Add(g.Sub(end, start), 1.0), 1.0), float(bins)), [1])
    number, first = np.arange(bins, dtype=np.float32), g.Unsqueeze(start, [1])
    begin = g.Add(first, g.Floor(g.Mul(each, number)))
    after = g.Add(first, g.Ceil(g.Mul(each, number + 1)))
    place = _counted_to(g, size)
    inside: ir.Value = g.And(g.GreaterOrEqual(place, g.Unsqueeze(begin, [2])), g.Less(place, g.Unsqueeze(after, [2])))
    return inside
