"""Grouped-query attention with a cache and rotary embeddings, as in language models."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from convert.errors import BadInput, Unsupported
from convert.graph import Graph

from ..rules import runtime_op
from .attention import _heads

_AGAIN = "export the model again"


@runtime_op("com.microsoft::GroupQueryAttention")
def group_query_attention(
    g: Graph, query: ir.Value, key: ir.Value | None = None, value: ir.Value | None = None,
    past_key: ir.Value | None = None, past_value: ir.Value | None = None, seqlens_k: ir.Value | None = None,
    total_sequence_length: ir.Value | None = None, cos_cache: ir.Value | None = None,
    sin_cache: ir.Value | None = None, position_ids: ir.Value | None = None, attention_bias: ir.Value | None = None,
    head_sink: ir.Value | None = None, *, num_heads: int, kv_num_heads: int, scale: float = 0.0, softcap: float = 0.0,
    local_window_size: int = -1, do_rotary: int = 0, rotary_interleaved: int = 0, smooth_softmax: int = 0,
    causal: int = 1, qk_output: int = 0, k_quant_type: str = "NONE", v_quant_type: str = "NONE",
) -> list[ir.Value | None]:  # fmt: skip
    """Attention of query [batch, length, heads · size], which may hold queries, keys and values concatenated.

    past_key, past_value: [batch, kv_heads, capacity, size]; the first `seqlens_k` + 1 - length positions of each row
    are filled. ONNX Runtime's specification does not define the cache after its last position, nor the result of a
    query after the end of its row. This rule follows its CPU kernel.
    """
    if seqlens_k is None or total_sequence_length is None:
        raise Unsupported("no seqlens_k or total_sequence_length")
    if qk_output or any(kind not in ("", "NONE") for kind in (k_quant_type, v_quant_type)):
        raise Unsupported("qk_output, or a cache of quantized numbers")
    _check_heads(g, query, key, value, num_heads, kv_num_heads)
    q, k, v = _parts(g, query, key, value, num_heads, kv_num_heads)
    size = g.shape(q)[-1]
    if not isinstance(size, int):
        raise Unsupported("heads of unknown size")
    for past in (past_key, past_value):
        _check_cache(g, past, kv_num_heads, size)
    length = _length(g, q)
    ends = g.Add(g.Cast(g.Reshape(seqlens_k, [-1]), to=ir.DataType.INT64), 1)
    total = g.Cast(g.Reshape(total_sequence_length, np.zeros(0, np.int64)), to=ir.DataType.INT64)
    # In ONNX Runtime, a call with as many queries as positions is the first call, in which rows may be shorter.
    starts = g.Where(g.Equal(length, total), 0, g.Sub(ends, length))
    # positions of queries and new keys, [batch, length]
    places = g.Add(g.Unsqueeze(starts, [1]), g.Range(0, length, 1))
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            raise Unsupported("do_rotary without cos_cache and sin_cache")
        rotated = places if position_ids is None else position_ids
        q, k = (
            g.RotaryEmbedding(x, cos_cache, sin_cache, rotated, interleaved=rotary_interleaved,
                              rotary_embedding_dim=_part(g, cos_cache, size))
            for x in (q, k)
        )  # fmt: skip
    keys, values = _cached(g, k, past_key, starts, total), _cached(g, v, past_value, starts, total)
    shown = _shown(g, places, ends, _length(g, keys), bool(causal), local_window_size)
    scores = g.MatMul(g.Mul(q, g.const(scale or 1 / math.sqrt(size), g.dtype(q))),
                      g.Transpose(_repeated(g, keys, num_heads // kv_num_heads), perm=[0, 1, 3, 2]))  # fmt: skip
    if softcap:
        cap = g.const(softcap, g.dtype(q))
        scores = g.Mul(g.Tanh(g.Div(scores, cap)), cap)
    if attention_bias is not None:
        scores = g.Add(scores, attention_bias)
    lowest = g.const(np.array(np.finfo(g.dtype(q).numpy()).min, g.dtype(q).numpy()), g.dtype(q))
    scores = g.Where(shown, scores, lowest)
    weights = _softmax(g, scores, head_sink, bool(smooth_softmax))
    y = g.MatMul(weights, _repeated(g, values, num_heads // kv_num_heads))
    return [g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, num_heads * size]), keys, values]


def _check_heads(
    g: Graph, query: ir.Value, key: ir.Value | None, value: ir.Value | None, heads: int, kv_heads: int
) -> None:
    """Raise `BadInput` for counts of heads that do not divide each other, or the known sizes of the inputs."""
    if not (isinstance(heads, int) and isinstance(kv_heads, int) and 0 < kv_heads <= heads) or heads % kv_heads:
        raise BadInput(f"GroupQueryAttention of {heads!r} heads, and {kv_heads!r} of keys", hint=_AGAIN)
    packed = key is None or value is None
    for x, count in ((query, heads + 2 * kv_heads if packed else heads), (key, kv_heads), (value, kv_heads)):
        width = None if x is None or x.shape is None else g.shape(x)[-1]
        if isinstance(width, int) and (width % count or not width):
            raise BadInput(f"GroupQueryAttention of {count} heads in {width} numbers", hint=_AGAIN)


def _check_cache(g: Graph, past: ir.Value | None, kv_heads: int, size: int) -> None:
    """Raise `BadInput` for a cache whose known sizes are not [batch, kv_heads, capacity, size]."""
    if past is None or past.shape is None:
        return
    dims = g.shape(past)
    fixed = zip(dims[1::2], (kv_heads, size), strict=False)
    if len(dims) != 4 or any(isinstance(found, int) and found != wanted for found, wanted in fixed):
        raise BadInput(f"GroupQueryAttention has a cache of {list(dims)} for {kv_heads} heads of {size}", hint=_AGAIN)


def _parts(
    g: Graph, query: ir.Value, key: ir.Value | None, value: ir.Value | None, heads: int, kv_heads: int
) -> list[ir.Value]:
    """Return queries, keys and values as [batch, heads, length, size]."""
    if key is not None and value is not None:
        return [_heads(g, query, heads), _heads(g, key, kv_heads), _heads(g, value, kv_heads)]
    hidden = g.shape(query)[-1]
    if not isinstance(hidden, int):
        raise Unsupported("queries, keys and values of unknown size in one tensor")
    size = hidden // (heads + 2 * kv_heads)
    pieces = g.Split(query, np.array([heads * size, kv_heads * size, kv_heads * size]), axis=-1, outputs=3)
    return [_heads(g, x, n) for x, n in zip(pieces, (heads, kv_heads, kv_heads), strict=True)]


def _length(g: Graph, x: ir.Value) -> ir.Value:
    """Return the number of positions of [batch, heads, length, size]."""
    return g.Squeeze(g.Shape(x, start=2, end=3), [0])


def _part(g: Graph, cosines: ir.Value, size: int) -> int:
    """Return how much of a head is rotated; 0 for all of it."""
    half = g.shape(cosines)[-1]
    return 2 * half if isinstance(half, int) and 2 * half != size else 0


def _cached(g: Graph, new: ir.Value, past: ir.Value | None, starts: ir.Value, total: ir.Value) -> ir.Value:
    """Return the cache with new items after the filled positions of each row, and zeros after these."""
    length = _length(g, new)
    capacity = g.const(0) if past is None else _length(g, past)
    both = new if past is None else g.Concat(past, new, axis=2)
    places = g.Unsqueeze(g.Range(0, g.Max(capacity, total), 1), [0])
    begun = g.Unsqueeze(starts, [1])
    behind = g.Add(g.Sub(places, begun), capacity)
    chosen = g.Where(g.Less(places, begun), places, g.Max(g.Min(behind, g.Sub(g.Add(capacity, length), 1)), 0))
    rows = g.Transpose(both, perm=[0, 2, 1, 3])
    found = g.GatherND(rows, g.Unsqueeze(chosen, [2]), batch_dims=1)
    used = g.Unsqueeze(g.Less(places, g.Add(begun, length)), [2, 3])
    return g.Transpose(g.Where(used, found, g.const(0.0, g.dtype(new))), perm=[0, 2, 1, 3])


def _shown(g: Graph, places: ir.Value, ends: ir.Value, capacity: ir.Value, causal: bool, window: int) -> ir.Value:
    """Return which keys a query sees, [batch, 1, queries, keys]: earlier ones, at most `window` including its own."""
    keys = g.Unsqueeze(g.Range(0, capacity, 1), [0, 1])
    shown, own = g.Less(keys, g.Unsqueeze(ends, [1, 2])), g.Unsqueeze(places, [2])
    if causal:
        shown = g.And(shown, g.LessOrEqual(keys, own))
    if causal and window >= 0:
        shown = g.And(shown, g.Greater(keys, g.Sub(own, window)))
    return g.Unsqueeze(shown, [1])


def _repeated(g: Graph, x: ir.Value, times: int) -> ir.Value:
    """Repeat each head as often as there are query heads for it."""
    if times == 1:
        return x
    dims = g.dims(x)
    batch, heads, rest = g.Slice(dims, [0], [1], [0]), g.Slice(dims, [1], [2], [0]), g.Slice(dims, [2], [4], [0])
    wide = g.Expand(g.Unsqueeze(x, [2]), g.Concat(batch, heads, [times], rest, axis=0))
    return g.Reshape(wide, g.Concat(batch, g.Mul(heads, times), rest, axis=0))


def _softmax(g: Graph, scores: ir.Value, sink: ir.Value | None, smooth: bool) -> ir.Value:
    """Return the softmax over the keys and one additional score, `sink` or 0, which takes a share of the sum and has no
    value.
    """
    if sink is None and not smooth:
        return g.Softmax(scores, axis=-1)
    given = g.const(0.0, g.dtype(scores)) if sink is None else g.Reshape(sink, [1, -1, 1, 1])
    more = g.Expand(given, g.Concat(g.Slice(g.dims(scores), [0], [3], [0]), [1], axis=0))
    weights = g.Softmax(g.Concat(scores, more, axis=-1), axis=-1)
    return g.Slice(weights, [0], [-1], [3])
