"""The rule for ONNX's Attention: two batched products around a softmax."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..dtypes import FLOAT, cast, widen
from ..net import Blob, Net
from ..rules import onnx
from ..shapes import dim, full_like, zeros_like


@onnx("Attention")
def attention(
    net: Net,
    q: Blob,
    k: Blob,
    v: Blob,
    mask: Blob | None,
    past_key: Blob | None,
    past_value: Blob | None,
    *,
    is_causal: int,
    kv_num_heads: int | None,
    q_num_heads: int | None,
    qk_matmul_output_mode: int,
    scale: float | None,
    softcap: float,
    softmax_precision: int | None,
) -> list[Blob]:
    """softmax(scale·Q·Kᵀ + mask)·V of [batch, heads, length, size], or of [batch, length, heads·size] with head counts.

    `qk_matmul_output_mode` concerns an output that is not made.
    """
    if softmax_precision not in (None, 0, ir.DataType.FLOAT):
        raise Unsupported(f"softmax_precision={softmax_precision}: Caffe2's Softmax is in float32")
    packed = net.rank(q) == 3
    query, key, value = (widen(net, x, FLOAT) for x in (q, k, v))
    if packed:
        assert q_num_heads is not None
        assert kv_num_heads is not None
        query = _heads(net, query, q_num_heads)
        key, value = (_heads(net, x, kv_num_heads) for x in (key, value))
    key, value = (_after(net, past, x) for past, x in ((past_key, key), (past_value, value)))
    present = [cast(net, x, y.dtype) for x, y in ((key, k), (value, v))]
    key, value = (_repeated(net, x, query) for x in (key, value))
    size = net.shape(query)[3]
    if scale is None and not isinstance(size, int):
        raise Unsupported("no scale, and a head size that is not fixed")
    factor = net.const(scale if scale is not None else 1 / math.sqrt(int(str(size))))
    scores = net.BatchMatMul(net.Mul(query, factor), key, trans_b=1)
    for bias in _biases(net, query, key, mask, is_causal, past_key):
        scores = net.Add(scores, bias)
    if softcap:
        scores = net.Mul(net.Tanh(net.Div(scores, net.const(softcap))), net.const(softcap))
    y = net.BatchMatMul(net.Softmax(scores, axis=3), value)
    if packed:
        y = net.Reshape(net.Transpose(y, axes=[0, 2, 1, 3]), shape=[0, 0, -1], outputs=2)[0]
    return [cast(net, y, q.dtype), *present]


def _heads(net: Net, x: Blob, count: int) -> Blob:
    """[batch, length, heads·size] as [batch, heads, length, size]."""
    batch, length, width = net.shape(x)
    size = width // count if isinstance(width, int) else None
    apart = net.Reshape(x, shape=[0, 0, count, -1], outputs=2)[0]
    return net.facts(net.Transpose(apart, axes=[0, 2, 1, 3]), shape=(batch, count, length, size))


def _after(net: Net, past: Blob | None, x: Blob) -> Blob:
    if past is None:
        return x
    batch, heads, _, size = net.shape(x)
    joined = net.Concat(widen(net, past, FLOAT), x, axis=2, outputs=2)[0]
    return net.facts(joined, shape=(batch, heads, None, size))


def _repeated(net: Net, x: Blob, query: Blob) -> Blob:
    """Each head as often as there are query heads to one (grouped queries)."""
    batch, heads, length, size = net.shape(x)
    wanted = net.shape(query)[1]
    if heads == wanted:
        return x
    if not isinstance(heads, int) or not isinstance(wanted, int) or not isinstance(size, int):
        raise Unsupported("grouped queries with a number or size of heads that is not fixed")
    tiled = net.Tile(net.ExpandDims(x, dims=[2]), tiles=wanted // heads, axis=2)
    return net.facts(net.Reshape(tiled, shape=[0, wanted, -1, size], outputs=2)[0], shape=(batch, wanted, length, size))


def _biases(net: Net, query: Blob, key: Blob, mask: Blob | None, is_causal: int, past: Blob | None) -> list[Blob]:
    """What is added to the scores: 0 or −inf for masks of booleans and for what is to come."""
    biases = []
    if is_causal:
        if past is not None:
            raise Unsupported("is_causal=1 together with past_key")
        rows = net.ExpandDims(net.Range(_length(net, query)), dims=[1])
        columns = net.ExpandDims(net.Range(_length(net, key)), dims=[0])
        biases.append(_bias(net, net.GE(rows, columns)))
    if mask is not None:
        biases.append(_bias(net, mask) if mask.dtype == ir.DataType.BOOL else widen(net, mask, FLOAT))
    return biases


def _length(net: Net, x: Blob) -> Blob:
    return dim(net, x, 2)


def _bias(net: Net, allowed: Blob) -> Blob:
    return net.Where(allowed, zeros_like(net, allowed, ir.DataType.FLOAT), full_like(net, allowed, -np.inf, FLOAT[0]))
