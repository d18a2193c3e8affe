"""Normalizations with fused additions, and the embeddings before them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import runtime_op

Results = list[ir.Value | None]


@runtime_op("com.microsoft::LayerNormalization")
def layer_normalization(
    g: Graph, x: ir.Value, scale: ir.Value, bias: ir.Value | None = None, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Results:  # fmt: skip
    """ONNX's LayerNormalization in a file of an opset that lacks it."""
    return list(g.LayerNormalization(x, scale, bias, axis=axis, epsilon=epsilon, stash_type=stash_type, outputs=3))


@runtime_op("com.microsoft::GroupNormalization")
def group_normalization(
    g: Graph, x: ir.Value, scale: ir.Value, bias: ir.Value, *, num_groups: int, epsilon: float = 1e-5
) -> ir.Value:
    """GroupNormalization of opsets 18 to 20, with scale and bias per group; ONNX's checker rejects files with it
    today.
    """
    each = g.Div(g.Slice(g.dims(x), [1], [2], [0]), np.array([num_groups]))
    wide = g.Concat(np.array([num_groups]), each, axis=0)

    def by_channel(values: ir.Value) -> ir.Value:
        return g.Reshape(g.Expand(g.Reshape(values, np.array([-1, 1])), wide), np.array([-1]))

    y = g.GroupNormalization(x, by_channel(scale), by_channel(bias), num_groups=num_groups, epsilon=epsilon)
    return g.facts(y, g.dtype(x), g.shape(x))


@runtime_op("com.microsoft::SimplifiedLayerNormalization")
def simplified_layer_normalization(
    g: Graph, x: ir.Value, scale: ir.Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Results:
    return [g.RMSNormalization(x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type), None]


@runtime_op("com.microsoft::SkipLayerNormalization")
def skip_layer_normalization(
    g: Graph, x: ir.Value, skip: ir.Value, gamma: ir.Value, beta: ir.Value | None = None, bias: ir.Value | None = None,
    *, epsilon: float = 1e-12,
) -> Results:  # fmt: skip
    """SkipLayerNormalization; the sum is an output too."""
    total = _total(g, x, skip, bias)
    y, mean, inverse = g.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon, outputs=3)
    return [y, mean, inverse, total]


@runtime_op("com.microsoft::SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(
    g: Graph, x: ir.Value, skip: ir.Value, gamma: ir.Value, bias: ir.Value | None = None, *, epsilon: float = 1e-12
) -> Results:
    total = _total(g, x, skip, bias)
    return [g.RMSNormalization(total, gamma, axis=-1, epsilon=epsilon), None, None, total]


def _total(g: Graph, x: ir.Value, skip: ir.Value, bias: ir.Value | None) -> ir.Value:
    total = g.Add(x, skip)
    return total if bias is None else g.Add(total, bias)


@runtime_op("com.microsoft::EmbedLayerNormalization")
def embed_layer_normalization(
    g: Graph, ids: ir.Value, segments: ir.Value | None, words: ir.Value, positions: ir.Value,
    segment_table: ir.Value | None, gamma: ir.Value, beta: ir.Value, mask: ir.Value | None = None,
    position_ids: ir.Value | None = None, *, epsilon: float = 1e-12, mask_index_type: int = 0,
) -> Results:  # fmt: skip
    """Sum of word, position and segment embeddings, and how many positions of each row the mask shows, or zeros.

    mask_index_type: for inference only.
    """
    if position_ids is None:
        dims = g.dims(ids)
        position_ids = g.Range(np.int64(0), g.Gather(dims, np.int64(1), axis=0), np.int64(1))
    total = g.Add(g.Gather(words, ids, axis=0), g.Gather(positions, position_ids, axis=0))
    if segment_table is not None:
        if segments is None:
            raise Unsupported("a table of segments without segments")
        total = g.Add(total, g.Gather(segment_table, segments, axis=0))
    y = g.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon)
    if mask is not None:
        counted = g.ReduceSum(g.Cast(mask, to=ir.DataType.INT32), np.array([1]), keepdims=0)
    else:
        counted = g.Expand(g.const(0, ir.DataType.INT32), g.Slice(g.dims(ids), [0], [1], [0]))
    return [y, counted, total]
