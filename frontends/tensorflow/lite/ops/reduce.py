"""Reductions, searches, segment sums, and batched matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ...common import shape_values
from ...common.lazy_reshape import transpose
from ...ops.reduce import distinct_axes
from ..rules import dtype_of, emit_tf, tf_rule, tflite_op


def _reduction_rule(operator: str) -> Callable[..., ir.Value]:
    def rule(g: Graph, x: ir.Value, axes: ir.Value, *, keep_dims: bool) -> ir.Value:
        content = shape_values.content(axes)
        if content is not None and content.size > 1:  # repeated axes count once (kernels/internal/reduce.h)
            axes = g.const(np.array(distinct_axes(g, x, content.ravel().tolist()), np.int32))
        return emit_tf(g, operator, [x, axes], {"keep_dims": keep_dims})

    return rule


tflite_op.same(
    _reduction_rule, SUM="Sum", MEAN="Mean", REDUCE_MAX="Max", REDUCE_MIN="Min", REDUCE_PROD="Prod", REDUCE_ANY="Any",
    REDUCE_ALL="All",
)  # fmt: skip
tflite_op.same(
    tf_rule, SEGMENT_SUM="SegmentSum", UNSORTED_SEGMENT_SUM="UnsortedSegmentSum",
    UNSORTED_SEGMENT_PROD="UnsortedSegmentProd", UNSORTED_SEGMENT_MAX="UnsortedSegmentMax",
    UNSORTED_SEGMENT_MIN="UnsortedSegmentMin", TOPK_V2="TopKV2",
)  # fmt: skip


@tflite_op("ARG_MAX")
def arg_max(g: Graph, x: ir.Value, axis: ir.Value, *, output_type: int) -> ir.Value:
    return emit_tf(g, "ArgMax", [x, axis], {"output_type": dtype_of(output_type)})


@tflite_op("ARG_MIN")
def arg_min(g: Graph, x: ir.Value, axis: ir.Value, *, output_type: int) -> ir.Value:
    return emit_tf(g, "ArgMin", [x, axis], {"output_type": dtype_of(output_type)})


@tflite_op("CUMSUM")
def cumsum(g: Graph, x: ir.Value, axis: ir.Value, *, exclusive: bool, reverse: bool) -> ir.Value:
    return emit_tf(g, "Cumsum", [x, axis], {"exclusive": exclusive, "reverse": reverse})


@tflite_op("BUCKETIZE")
def bucketize(g: Graph, x: ir.Value, *, boundaries: Sequence[float]) -> ir.Value:
    return emit_tf(g, "Bucketize", [x], {"boundaries": list(boundaries)})


@tflite_op("UNIQUE")
def unique(g: Graph, x: ir.Value, *, idx_out_type: int) -> list[ir.Value]:
    return emit_tf(g, "Unique", [x], {"out_idx": dtype_of(idx_out_type)})


@tflite_op("BATCH_MATMUL")
def batch_matmul(g: Graph, x: ir.Value, y: ir.Value, *, adj_x: bool, adj_y: bool) -> ir.Value:
    sides = []
    for value, turned in ((x, adj_x), (y, adj_y)):
        rank = g.rank(value)
        perm = [*range(rank - 2), rank - 1, rank - 2]
        sides.append(transpose(g, value, perm) if turned else value)
    return g.MatMul(*sides)
