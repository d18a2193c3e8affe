"""Suppresses boxes of many classes at once, and sorts the best of all classes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...common import shape_values
from ...common.lazy_reshape import int64
from ...rules import tf_op

_INT64 = ir.DataType.INT64


@tf_op("CombinedNonMaxSuppression")
def combined_non_max_suppression(
    g: Graph, boxes: ir.Value, scores: ir.Value, max_output_size_per_class: ir.Value, max_total_size: ir.Value,
    iou_threshold: ir.Value, score_threshold: ir.Value, *, pad_per_class: bool, clip_boxes: bool,
) -> list[ir.Value]:  # fmt: skip
    """Return boxes, scores, classes and counts: [batch, size, 4], [batch, size] twice, [batch].

    `boxes` are [batch, boxes, 1 or classes, 4], `scores` [batch, boxes, classes] (combined_non_max_suppression in
    image/non_max_suppression_op.cc).
    """
    classes, shared = g.shape(scores)[2], g.shape(boxes)[2]
    if not isinstance(classes, int) or not isinstance(shared, int):
        raise Unsupported("an unknown number of classes")
    each = shape_values.integer(max_output_size_per_class, "max_output_size_per_class")
    size = shape_values.integer(max_total_size, "max_total_size")
    size = min(size, each * classes) if pad_per_class else size
    by_class = g.Transpose(scores, perm=[0, 2, 1])
    limits = (each, iou_threshold, score_threshold)
    kept = _selected_mask(g, boxes, by_class, limits, classes if shared > 1 else 1)
    least = np.array(np.finfo(g.dtype(scores).numpy()).min, g.dtype(scores).numpy())
    flat = g.Reshape(g.Where(kept, by_class, least), g.Concat(g.Shape(scores, start=0, end=1), [-1], axis=0))
    found, place = _top_scores(g, flat, size)
    there = g.Greater(found, least)
    count = g.Shape(scores, start=1, end=2)
    each_class, box = g.Div(place, count), g.Mod(place, count)
    if shared > 1:
        boxes, box = g.Transpose(boxes, perm=[0, 2, 1, 3]), place
    whole = g.Reshape(boxes, g.Concat(g.Shape(scores, start=0, end=1), [-1, 4], axis=0))
    chosen = g.GatherND(whole, g.Unsqueeze(box, [2]), batch_dims=1)
    if clip_boxes:
        chosen = g.Clip(chosen, np.array(0, least.dtype), np.array(1, least.dtype))
    zero = np.array(0, least.dtype)
    lead = g.shape(scores)[0]
    numbers = g.Cast(g.ReduceSum(g.Cast(there, to=_INT64), [1], keepdims=0), to=ir.DataType.INT32)
    results = [
        _pad_to_size(g, g.Where(g.Unsqueeze(there, [2]), chosen, zero), size),
        _pad_to_size(g, g.Where(there, found, zero), size),
        _pad_to_size(g, g.Where(there, g.Cast(each_class, to=g.dtype(scores)), zero), size),
    ]
    shapes = [[lead, size, 4], [lead, size], [lead, size]]
    facts = [g.facts(r, g.dtype(scores), shape) for r, shape in zip(results, shapes, strict=True)]
    return [*facts, g.facts(numbers, shape=[lead])]


def _selected_mask(g: Graph, boxes: ir.Value, scores: ir.Value, limits: tuple, groups: int) -> ir.Value:
    """Return which `scores`, [batch, classes, boxes], are kept; classes with their own boxes count as separate
    images.
    """
    each, overlap, least = limits
    shape = g.Shape(scores)
    if groups > 1:
        boxes = g.Transpose(boxes, perm=[0, 2, 1, 3])
        single = g.Concat([-1, 1], g.Shape(scores, start=2, end=3), axis=0)
        scores = g.Reshape(scores, single)
    count = g.Shape(scores, start=2, end=3)
    found = g.NonMaxSuppression(
        g.Reshape(boxes, g.Concat([-1], count, [4], axis=0)),
        scores,
        np.array([each], np.int64),
        g.Reshape(overlap, [1]),
        g.Reshape(least, [1]),
    )
    nothing = g.Expand(g.const(np.array(False)), g.Shape(scores))
    marks = g.Expand(g.const(np.array(True)), g.Shape(found, start=0, end=1))
    return g.Reshape(g.ScatterND(nothing, found, marks), shape)


def _top_scores(g: Graph, flat: ir.Value, size: int) -> tuple[ir.Value, ir.Value]:
    """Return the `size` best scores of each image and their indices, or as many as there are."""
    number = g.Min(g.Shape(flat, start=1, end=2), np.array([size], np.int64))
    found, place = g.TopK(flat, number, axis=1, outputs=2)
    return found, int64(g, place)


def _pad_to_size(g: Graph, x: ir.Value, size: int) -> ir.Value:
    """Return `x` zero-padded along its second dim to `size`."""
    rest = np.zeros(g.rank(x) - 2, np.int64)
    lacking = g.Sub(np.array([size], np.int64), g.Shape(x, start=1, end=2))
    before = np.zeros(g.rank(x), np.int64)
    return g.Pad(x, g.Concat(before, np.zeros(1, np.int64), lacking, rest, axis=0))
