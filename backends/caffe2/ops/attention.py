"""The rule for ONNX's Attention: two batched products around a softmax."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..common.loops import SubgraphEmitter
from ..common.padding import pad_constant
from ..common.shapes import broadcast, dim, full_like, zeros_like
from ..net import Net
from ..rules import onnx_op


@onnx_op("Attention")
def attention(
    net: Net,
    q: Blob,
    k: Blob,
    v: Blob,
    mask: Blob | None,
    past_key: Blob | None,
    past_value: Blob | None,
    nonpad_kv_seqlen: Blob | None = None,
    *,
    is_causal: int,
    kv_num_heads: int | None,
    q_num_heads: int | None,
    qk_matmul_output_mode: int,
    scale: float | None,
    softcap: float,
    softmax_precision: int | None,
    left_window_size: int = -1,
    right_window_size: int = -1,
) -> list[Blob]:
    """softmax(scale·Q·Kᵀ + mask)·V for [batch, heads, length, size], or [batch, length, heads·size] with head counts.

    The fourth output has the scores that `qk_matmul_output_mode` selects: raw, capped, masked or as probabilities.
    """
    _check_precision(softmax_precision)
    packed = net.rank(q) == 3
    query, key, value = (widen(net, x, FLOAT) for x in (q, k, v))
    if packed:
        assert q_num_heads is not None
        assert kv_num_heads is not None
        query = _split_heads(net, query, q_num_heads)
        key, value = (_split_heads(net, x, kv_num_heads) for x in (key, value))
    offset = None if past_key is None else dim(net, past_key, 2)
    if past_key is None and nonpad_kv_seqlen is not None:
        offset = net.Sub(_lengths_column(net, nonpad_kv_seqlen), dim(net, query, 2))
    key, value = (_append_to_past(net, past, x) for past, x in ((past_key, key), (past_value, value)))
    present = [cast(net, x, y.dtype) for x, y in ((key, k), (value, v))]
    key, value = (_repeat_heads(net, x, query) for x in (key, value))
    scores = _attention_scores(net, query, key, scale)
    shown = [scores]
    if softcap:
        scores = net.Mul(net.Tanh(net.Div(scores, net.const(softcap))), net.const(softcap))
    shown.append(scores)
    allowed = _allowed_mask(net, query, key, offset, nonpad_kv_seqlen, is_causal, left_window_size, right_window_size)
    for bias in _score_bias(net, key, mask, allowed, nonpad_kv_seqlen is None):
        scores = net.Add(scores, bias)
    shown.append(scores)
    weights = net.Softmax(scores, axis=3)
    if mask is not None or nonpad_kv_seqlen is not None or max(left_window_size, right_window_size) >= 0:
        weights = _zero_empty_rows(net, weights, scores)
    shown.append(weights)
    y = net.BatchMatMul(weights, value)
    if packed:
        y = net.Reshape(net.Transpose(y, axes=[0, 2, 1, 3]), shape=[0, 0, -1], outputs=2)[0]
    return [cast(net, y, q.dtype), *present, cast(net, shown[qk_matmul_output_mode], q.dtype)]


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


_PRECISION = onnx_op.limit("Attention", "softmax_precision: Caffe2's Softmax is in float32")


def _attention_scores(net: Net, query: Blob, key: Blob, scale: float | None) -> Blob:
    size = net.shape(query)[3]
    if scale is None and not isinstance(size, int):
        raise Unsupported("no scale, and a head size that is not fixed")
    factor = net.const(scale if scale is not None else 1 / math.sqrt(int(str(size))))
    scores = net.BatchMatMul(net.Mul(query, factor), key, trans_b=1)
    return net.facts(scores, FLOAT[0], (*net.shape(query)[:3], net.shape(key)[2]))


def _split_heads(net: Net, x: Blob, count: int) -> Blob:
    """Return [batch, length, heads·size] as [batch, heads, length, size]."""
    batch, length, width = net.shape(x)
    size = width // count if isinstance(width, int) else None
    apart = net.Reshape(x, shape=[0, 0, count, -1], outputs=2)[0]
    return net.facts(net.Transpose(apart, axes=[0, 2, 1, 3]), shape=(batch, count, length, size))


def _append_to_past(net: Net, past: Blob | None, x: Blob) -> Blob:
    if past is None:
        return x
    batch, heads, length, size = net.shape(x)
    before = net.shape(past)[2]
    total = before + length if isinstance(before, int) and isinstance(length, int) else None
    joined = net.Concat(widen(net, past, FLOAT), x, axis=2, outputs=2)[0]
    return net.facts(joined, shape=(batch, heads, total, size))


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


def _lengths_column(net: Net, lengths: Blob) -> Blob:
    """Return [batch] as int64 [batch, 1, 1, 1]."""
    wide = cast(net, lengths, ir.DataType.INT64)
    return net.facts(net.ExpandDims(wide, dims=[1, 2, 3]), ir.DataType.INT64, (*net.shape(lengths), 1, 1, 1))


def _allowed_mask(
    net: Net, query: Blob, key: Blob, offset: Blob | None, lengths: Blob | None, causal: int, left: int, right: int
) -> Blob | None:
    """Return which keys a query may attend to by their positions, as booleans; None if all."""
    columns = net.ExpandDims(net.Range(dim(net, key, 2)), dims=[0])
    found: list[Blob] = []
    if causal or left >= 0 or right >= 0:
        rows = net.ExpandDims(net.Range(dim(net, query, 2)), dims=[1])
        places = rows if offset is None else net.Add(rows, offset)
        if causal:
            found.append(net.GE(places, columns))
        if left >= 0:
            found.append(net.LE(net.Sub(places, columns), net.const(np.array(left))))
        if right >= 0:
            found.append(net.LE(net.Sub(columns, places), net.const(np.array(right))))
    if lengths is not None:
        found.append(net.LT(columns, _lengths_column(net, lengths)))
    return reduce(net.And, found) if found else None


def _score_bias(net: Net, key: Blob, mask: Blob | None, allowed: Blob | None, broadcasts: bool) -> list[Blob]:
    """Return the terms that are added to the scores: a numeric mask, and 0 or −inf for boolean ones.

    broadcasts: a mask for a single key applies to all keys, as in Attention-23.
    """
    biases = [] if allowed is None else [_mask_bias(net, allowed)]
    if mask is None:
        return biases
    bias = _mask_bias(net, mask) if mask.dtype == ir.DataType.BOOL else widen(net, mask, FLOAT)
    bias = net.facts(bias, shape=mask.shape)
    own, wanted = net.shape(mask)[-1], net.shape(key)[2]
    if isinstance(own, int) and isinstance(wanted, int) and own < wanted and not (own == 1 and broadcasts):
        # Keys beyond the end of a shorter mask are masked.
        bias = pad_constant(net, bias, [0] * (2 * net.rank(mask) - 1) + [wanted - own], -np.inf)
    return [*biases, bias]


def _zero_empty_rows(net: Net, weights: Blob, scores: Blob) -> Blob:
    """Return zeros for each query that may not attend to any key; the softmax of its scores is NaN."""
    largest = net.op("ReduceMax", [scores], axes=[3], keepdims=1)
    some = net.NE(largest, net.const(-np.inf, ir.DataType.FLOAT))
    if scores.shape is not None:
        net.facts(some, shape=(*scores.shape[:3], 1))
    net.facts(weights, FLOAT[0], scores.shape)
    return net.facts(net.Where(*broadcast(net, some, weights, zeros_like(net, weights))), FLOAT[0], scores.shape)


def _mask_bias(net: Net, allowed: Blob) -> Blob:
    return net.Where(allowed, zeros_like(net, allowed, ir.DataType.FLOAT), full_like(net, allowed, -np.inf, FLOAT[0]))
