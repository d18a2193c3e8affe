"""Crops boxes from images and resizes them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...common import shape_values
from ...common.lazy_reshape import cast, int64
from ...rules import tf_op


@tf_op("CropAndResize")
def crop_and_resize(
    g: Graph,
    image: ir.Value,
    boxes: ir.Value,
    box_ind: ir.Value,
    crop_size: ir.Value,
    *,
    method: str,
    extrapolation_value: float,
) -> ir.Value:
    """CropAndResize samples at y1·(h - 1) + i·(y2 - y1)·(h - 1) / (rows - 1), and likewise for x
    (crop_and_resize_op.cc).
    """
    if method not in ("bilinear", "nearest"):
        raise Unsupported(f"method={method!r} is not handled")
    rows, columns = _crop_counts(g, crop_size)
    x = cast(g, image, ir.DataType.FLOAT)
    y1, x1, y2, x2 = g.Split(boxes, axis=1, num_outputs=4, outputs=4)
    limits = [_last_position(g, x, axis) for axis in (1, 2)]
    vertical = _sample_positions(g, y1, y2, limits[0], rows)
    horizontal = _sample_positions(g, x1, x2, limits[1], columns)
    inside = g.And(
        g.Unsqueeze(_is_inside(g, vertical, limits[0]), [2]), g.Unsqueeze(_is_inside(g, horizontal, limits[1]), [1])
    )
    if method == "nearest":
        # TensorFlow rounds halves away from zero.
        row, column = (g.Floor(g.Add(place, g.const(0.5, ir.DataType.FLOAT))) for place in (vertical, horizontal))
        found = _gather_pixels(g, x, box_ind, row, column, limits)
    else:
        top, left = g.Floor(vertical), g.Floor(horizontal)
        bottom, right = g.Ceil(vertical), g.Ceil(horizontal)
        down = g.Unsqueeze(g.Sub(vertical, top), [2, 3])
        across = g.Unsqueeze(g.Sub(horizontal, left), [1, 3])
        lines = []
        for row in (top, bottom):
            a, b = (_gather_pixels(g, x, box_ind, row, side, limits) for side in (left, right))
            lines.append(_blend(g, a, b, across))
        found = _blend(g, lines[0], lines[1], down)
    return g.Where(g.Unsqueeze(inside, [3]), found, g.const(extrapolation_value, ir.DataType.FLOAT))


def _last_position(g: Graph, x: ir.Value, axis: int) -> ir.Value:
    size = g.shape(x)[axis]
    if isinstance(size, int):
        return g.const(float(size - 1), ir.DataType.FLOAT)
    whole = g.Cast(g.Shape(x, start=axis, end=axis + 1), to=ir.DataType.FLOAT)
    return g.Sub(whole, g.const(1.0, ir.DataType.FLOAT))


def _crop_counts(g: Graph, crop_size: ir.Value) -> list[int] | list[ir.Value]:
    """Return rows and columns as integers, or as scalars if they are known at run time only."""
    if shape_values.is_known(crop_size):
        return shape_values.ints(crop_size, "crop_size")
    return [g.Gather(int64(g, crop_size), np.int64(i)) for i in range(2)]


def _sample_positions(g: Graph, first: ir.Value, last: ir.Value, limit: ir.Value, count: int | ir.Value) -> ir.Value:
    """Return positions [boxes, count] along one axis, from edges [boxes, 1]."""
    middle = g.Mul(g.Mul(g.Add(first, last), g.const(0.5, ir.DataType.FLOAT)), limit)
    if isinstance(count, ir.Value):
        gaps = g.Cast(g.Max(g.Sub(count, np.int64(1)), np.int64(1)), to=ir.DataType.FLOAT)
        places = g.Cast(g.Range(0, count, 1), to=ir.DataType.FLOAT)
        step = g.Div(g.Mul(g.Sub(last, first), limit), gaps)
        return g.Where(g.Equal(count, np.int64(1)), middle, g.Add(g.Mul(first, limit), g.Mul(step, places)))
    if count == 1:
        return middle
    step = g.Div(g.Mul(g.Sub(last, first), limit), g.const(float(count - 1), ir.DataType.FLOAT))
    return g.Add(g.Mul(first, limit), g.Mul(step, np.arange(count, dtype=np.float32)))


def _is_inside(g: Graph, places: ir.Value, limit: ir.Value) -> ir.Value:
    return g.And(g.GreaterOrEqual(places, g.const(0.0, ir.DataType.FLOAT)), g.LessOrEqual(places, limit))


def _gather_pixels(
    g: Graph, x: ir.Value, box_ind: ir.Value, vertical: ir.Value, horizontal: ir.Value, limits: list[ir.Value]
) -> ir.Value:
    """Return x[box_ind, vertical, horizontal] as [boxes, rows, columns, channels]; indices are clamped to the edge."""
    zero = g.const(0.0, ir.DataType.FLOAT)
    v, h = (
        g.Cast(g.Max(g.Min(p, limit), zero), to=ir.DataType.INT64)
        for p, limit in zip((vertical, horizontal), limits, strict=True)
    )
    rows, columns = g.shape(v)[1], g.shape(h)[1]
    counts = [
        g.const(np.array([n])) if isinstance(n, int) else g.Shape(p, start=1, end=2)
        for p, n in ((v, rows), (h, columns))
    ]
    size = g.Concat(g.Shape(v, start=0, end=1), *counts, [1], axis=0)
    parts = [g.Unsqueeze(int64(g, box_ind), [1, 2, 3]), g.Unsqueeze(v, [2, 3]), g.Unsqueeze(h, [1, 3])]
    places = [g.facts(g.Expand(p, size), shape=[g.shape(v)[0], rows, columns, 1]) for p in parts]
    found = g.GatherND(x, g.Concat(*places, axis=3))
    return g.facts(found, shape=[g.shape(v)[0], rows, columns, g.shape(x)[3]])


def _blend(g: Graph, a: ir.Value, b: ir.Value, weight: ir.Value) -> ir.Value:
    return g.Add(a, g.Mul(g.Sub(b, a), weight))
