"""Attention whose scores and probabilities are changed by subgraphs (FlexAttention)."""

from __future__ import annotations

import math

import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..common.loops import SubgraphEmitter
from ..net import Net
from ..rules import onnx_op


@onnx_op("ai.onnx.preview::FlexAttention")
def flex_attention(
    net: Net,
    q: Blob,
    k: Blob,
    v: Blob,
    *,
    prob_mod: SubgraphEmitter | None,
    scale: float | None,
    score_mod: SubgraphEmitter | None,
    softmax_precision: int | None,
) -> Blob:
    """Attention whose scores and probabilities are modified by subgraphs of the model."""
    _check_precision(softmax_precision)
    query, key, value = (widen(net, x, FLOAT) for x in (q, k, v))
    scores = _attention_scores(net, query, _repeat_heads(net, key, query), scale)
    shape = scores.shape
    if score_mod is not None:
        scores = cast(net, score_mod(net, scores)[0], FLOAT[0])
    weights = net.facts(net.Softmax(scores, axis=3), FLOAT[0], shape)
    if prob_mod is not None:
        weights = cast(net, prob_mod(net, weights)[0], FLOAT[0])
    return cast(net, net.BatchMatMul(weights, _repeat_heads(net, value, query)), q.dtype)


def _check_precision(precision: int | None) -> None:
    if precision not in (None, 0, ir.DataType.FLOAT, ir.DataType.FLOAT16):
        raise Unsupported(_PRECISION)


_PRECISION = onnx_op.limit("ai.onnx.preview::FlexAttention", "softmax_precision: Caffe2's Softmax is in float32")


def _attention_scores(net: Net, query: Blob, key: Blob, scale: float | None) -> Blob:
    size = net.shape(query)[3]
    if scale is None and not isinstance(size, int):
        raise Unsupported("no scale, and a head size that is not fixed")
    factor = net.const(scale if scale is not None else 1 / math.sqrt(int(str(size))))
    scores = net.BatchMatMul(net.Mul(query, factor), key, trans_b=1)
    return net.facts(scores, FLOAT[0], (*net.shape(query)[:3], net.shape(key)[2]))


def _repeat_heads(net: Net, x: Blob, query: Blob) -> Blob:
    """Repeat each head as often as there are query heads for it (grouped queries)."""
    batch, heads, length, size = net.shape(x)
    wanted = net.shape(query)[1]
    if heads == wanted:
        return x
    if not isinstance(heads, int) or not isinstance(wanted, int) or not isinstance(size, int):
        raise Unsupported("grouped queries with a number or size of heads that is not fixed")
    tiled = net.Tile(net.ExpandDims(x, dims=[2]), tiles=wanted // heads, axis=2)
    return net.facts(net.Reshape(tiled, shape=[0, wanted, -1, size], outputs=2)[0], shape=(batch, wanted, length, size))
