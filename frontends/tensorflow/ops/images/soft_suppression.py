"""Soft suppression of boxes: scores of boxes that overlap a chosen one are lowered before the next is chosen."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ...common.lazy_reshape import int64
from ...rules import tf_op

tf_op.limit(
    "NonMaxSuppressionV5", "negative scores that are lowered softly are taken in another order than TensorFlow's"
)


def suppress_softly(
    g: Graph, boxes: ir.Value, scores: ir.Value, most: ir.Value, overlap: ir.Value, least: ir.Value, sigma: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return indices, int32 [kept], and scores, [kept], of `boxes`, [count, 4], in the order of selection.

    Each chosen box multiplies the scores of others by exp(-u² / 2σ) for an overlap of u, regardless of `overlap`. With
    a `sigma` of 0 it removes boxes that overlap by more than `overlap` (DoNonMaxSuppressionOp in
    image/non_max_suppression_op.cc).
    """
    dtype, ends = g.dtype(scores), (np.array([n]) for n in (0, 2, 4))
    zero, none = g.const(0, dtype), g.const(-np.inf, dtype)
    start, middle, end = ends
    corners = g.Slice(boxes, start, middle, [1]), g.Slice(boxes, middle, end, [1])
    low, high = g.Min(*corners), g.Max(*corners)
    area = g.ReduceProd(g.Sub(high, low), [1], keepdims=0)
    soft = g.Greater(sigma, zero)
    factor = g.Where(soft, g.Div(g.const(-0.5, dtype), g.Where(soft, sigma, g.const(1, dtype))), zero)
    count = g.Shape(scores)
    places = g.Range(0, g.Squeeze(count, [0]), 1)

    body = g.body("suppression")
    body.input("iteration", ir.DataType.INT64, [])
    body.input("going", ir.DataType.BOOL, [])
    now = body.input("scores", dtype, g.shape(scores))
    best = body.ArgMax(now, axis=0, keepdims=0)
    own_low, own_high, own_area, score = (body.Gather(x, best, axis=0) for x in (low, high, area, now))
    span = body.Max(body.Sub(body.Min(high, own_high), body.Max(low, own_low)), zero)
    common = body.ReduceProd(span, [1], keepdims=0)
    flat = body.Or(body.LessOrEqual(area, zero), body.LessOrEqual(own_area, zero))
    union = body.Where(flat, g.const(1, dtype), body.Sub(body.Add(area, own_area), common))
    share = body.Where(flat, zero, body.Div(common, union))
    weight = body.Exp(body.Mul(factor, body.Mul(share, share)))
    gone = body.Or(body.Equal(places, best), body.Not(body.Or(body.LessOrEqual(share, overlap), soft)))
    gone = body.Or(gone, body.Equal(now, none))
    after = body.Where(gone, none, body.Mul(now, weight))
    body.output(body.Greater(body.ReduceMax(after, [0], keepdims=0), least), "goes_on")
    for value, name in ((after, "lowered"), (body.Cast(best, to=ir.DataType.INT32), "index"), (score, "score")):
        body.output(value, body.unique(name))

    rounds = g.Squeeze(g.Min(g.Reshape(int64(g, most), [1]), count), [0])
    first = g.Greater(g.ReduceMax(g.Concat(scores, g.Reshape(none, [1]), axis=0), [0], keepdims=0), least)
    _, index, kept = g.Loop(rounds, first, scores, body=body, outputs=3)
    return g.facts(index, ir.DataType.INT32, [None]), g.facts(kept, dtype, [None])
