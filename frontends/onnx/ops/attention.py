"""Attention with projections, caches, masks and rotary embeddings."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import runtime_op
from .quantized import matmul_integer_to_float

Results = list[ir.Value | None]


@runtime_op("com.microsoft::Attention")
def attention(
    g: Graph, x: ir.Value, weights: ir.Value, bias: ir.Value | None = None, mask: ir.Value | None = None,
    past: ir.Value | None = None, added: ir.Value | None = None, past_length: ir.Value | None = None, *,
    num_heads: int, mask_filter_value: float = -10000.0, scale: float = 0.0, unidirectional: int = 0,
    qkv_hidden_sizes: list[int] | None = None, do_rotary: int = 0, past_present_share_buffer: int = 0,
) -> Results:  # fmt: skip
    """Attention of x [batch, length, hidden]; the weights of queries, keys and values are concatenated.

    past: earlier keys and values, [2, batch, heads, length, size].
    """
    if do_rotary or past_present_share_buffer or past_length is not None:
        raise Unsupported("do_rotary, or a buffer that past and present share")
    projected = g.MatMul(x, weights)
    projected = projected if bias is None else g.Add(projected, bias)
    sizes = _sizes(g, weights, qkv_hidden_sizes)
    return _of_projected(g, projected, sizes, num_heads, mask, past, added, mask_filter_value, scale, unidirectional)


@runtime_op("com.microsoft::QAttention")
def qattention(
    g: Graph, x: ir.Value, weights: ir.Value, bias: ir.Value, x_scale: ir.Value, w_scale: ir.Value,
    mask: ir.Value | None = None, x_zero: ir.Value | None = None, w_zero: ir.Value | None = None,
    past: ir.Value | None = None, *, num_heads: int, mask_filter_value: float = -10000.0, scale: float = 0.0,
    unidirectional: int = 0, do_rotary: int = 0, past_present_share_buffer: int = 0,
) -> Results:  # fmt: skip
    """Attention whose projection is a product of 8-bit integers."""
    if do_rotary or past_present_share_buffer:
        raise Unsupported("do_rotary, or a buffer that past and present share")
    projected = matmul_integer_to_float(g, x, weights, x_scale, w_scale, x_zero, w_zero, bias)
    sizes = _sizes(g, weights, None)
    return _of_projected(g, projected, sizes, num_heads, mask, past, None, mask_filter_value, scale, unidirectional)


def _sizes(g: Graph, weights: ir.Value, given: list[int] | None) -> list[int]:
    """Return the widths of queries, keys and values in the concatenated projection."""
    total = g.shape(weights)[-1]
    if given is None and not isinstance(total, int):
        raise Unsupported("weights of unknown size")
    return given or [int(total or 0) // 3] * 3


def _of_projected(
    g: Graph, projected: ir.Value, sizes: list[int], num_heads: int, mask: ir.Value | None, past: ir.Value | None,
    added: ir.Value | None, low: float, scale: float, causal: int,
) -> Results:  # fmt: skip
    """Return the attention of concatenated queries, keys and values, and all keys and values including the past."""
    q, k, v = (_heads(g, part, num_heads) for part in g.Split(projected, np.array(sizes), axis=-1, outputs=3))
    before = None if past is None else [g.Gather(past, np.int64(i), axis=0) for i in (0, 1)]
    if before is not None:
        k, v = g.Concat(before[0], k, axis=2), g.Concat(before[1], v, axis=2)
    hidden = _hidden(g, mask, q, k, low, bool(causal))
    y = _attended(g, q, k, v, hidden, added, scale or 1 / math.sqrt(sizes[0] // num_heads))
    present = g.Concat(g.Unsqueeze(k, [0]), g.Unsqueeze(v, [0]), axis=0) if before is not None else None
    return [y, present]


@runtime_op("com.microsoft::MultiHeadAttention")
def multi_head_attention(
    g: Graph, query: ir.Value, key: ir.Value | None = None, value: ir.Value | None = None,
    bias: ir.Value | None = None, mask: ir.Value | None = None, added: ir.Value | None = None,
    past_key: ir.Value | None = None, past_value: ir.Value | None = None, *, num_heads: int,
    mask_filter_value: float = -10000.0, scale: float = 0.0, unidirectional: int = 0,
) -> Results:  # fmt: skip
    """Attention of projected tensors [batch, length, hidden]. Keys and values may be [batch, heads, length, size]; past
    keys and values always are.

    Tensors packed into one are refused, because ONNX Runtime has no CPU kernel for them.
    """
    q, k, v = _parts(g, query, key, value, bias, num_heads)
    size = g.shape(q)[-1]
    if not isinstance(size, int):
        raise Unsupported("heads of unknown size")
    present: Results = [k, v]
    if past_key is not None and past_value is not None:
        k, v = g.Concat(past_key, k, axis=2), g.Concat(past_value, v, axis=2)
        present = [k, v]
    hidden = _hidden(g, mask, q, k, mask_filter_value, bool(unidirectional))
    return [_attended(g, q, k, v, hidden, added, scale or 1 / math.sqrt(size)), *present]


def _parts(
    g: Graph, query: ir.Value, key: ir.Value | None, value: ir.Value | None, bias: ir.Value | None, heads: int
) -> list[ir.Value]:
    """Return queries, keys and values as [batch, heads, length, size], with their biases added."""
    if key is None or value is None or g.rank(query) != 3:
        raise Unsupported("queries, keys and values in one tensor")
    made = [x if g.rank(x) == 4 else _heads(g, x, heads) for x in (query, key, value)]
    if bias is None:
        return made
    widths = [g.shape(x)[-1] for x in made]
    if not all(isinstance(n, int) for n in widths):
        raise Unsupported("a bias of heads of unknown size")
    parts = g.Split(bias, np.array([heads * int(n or 0) for n in widths]), axis=0, outputs=3)
    shapes = [np.array([heads, 1, n]) for n in widths]
    return [g.Add(x, g.Reshape(b, shape)) for x, b, shape in zip(made, parts, shapes, strict=True)]


def _heads(g: Graph, x: ir.Value, heads: int) -> ir.Value:
    """Reshape [batch, length, heads · size] to [batch, heads, length, size]."""
    return g.Transpose(g.Reshape(x, np.array([0, 0, heads, -1])), perm=[0, 2, 1, 3])


def _attended(
    g: Graph, q: ir.Value, k: ir.Value, v: ir.Value, hidden: ir.Value | None, added: ir.Value | None, scale: float
) -> ir.Value:
    """Return softmax(q · kᵀ · scale + hidden + added) · v as [batch, length, heads · size]."""
    mask = hidden if added is None else added if hidden is None else g.Add(added, hidden)
    y = g.Attention(q, k, v, mask, scale=scale)
    return g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), np.array([0, 0, -1]))


def _hidden(g: Graph, mask: ir.Value | None, q: ir.Value, k: ir.Value, low: float, causal: bool) -> ir.Value | None:
    """Return the terms that hide keys from queries, for scores [batch, heads, queries, keys]; None if there are none.

    ONNX Runtime adds `mask_filter_value` for keys that the mask hides, and the lowest number for later keys. So a query
    that sees no key attends to earlier keys instead of returning zeros.
    """
    dtype = g.dtype(q)
    zero = g.const(0.0, dtype)
    found = None if mask is None else g.Where(_shown(g, mask, k), zero, g.const(low, dtype))
    if not causal:
        return found
    queries, keys = (g.Gather(g.dims(x), np.int64(2), axis=0) for x in (q, k))
    last = g.Add(g.Range(np.int64(0), queries, np.int64(1)), g.Sub(keys, queries))
    seen = g.LessOrEqual(g.Unsqueeze(g.Range(np.int64(0), keys, np.int64(1)), [0]), g.Unsqueeze(last, [1]))
    lowest = g.const(np.array(np.finfo(dtype.numpy()).min, dtype.numpy()), dtype)
    return g.Where(g.Unsqueeze(seen, [0, 1]), zero if found is None else found, lowest)


def _shown(g: Graph, mask: ir.Value, k: ir.Value) -> ir.Value:
    """Return which keys a mask shows, broadcastable to [batch, heads, queries, keys].

    The mask has a number per key ([batch, keys], [batch, queries, keys]), or ends ([batch]), or ends followed by starts
    ([2 · batch]) of the visible range.
    """
    rank, zero = g.rank(mask), g.const(0, g.dtype(mask))
    if rank == 2:
        return g.Unsqueeze(g.Greater(mask, zero), [1, 2])
    if rank == 3:
        return g.Unsqueeze(g.Greater(mask, zero), [1])
    sizes = g.shape(mask)[0], g.shape(k)[0]
    if rank != 1 or None in sizes or (sizes[0] != sizes[1] and not all(isinstance(n, int) for n in sizes)):
        raise Unsupported(f"a mask of rank {rank}, or one of ends of unknown number")
    numbers = g.Cast(g.Range(np.int64(0), g.Gather(g.dims(k), np.int64(2), axis=0), np.int64(1)), to=g.dtype(mask))
    if sizes[0] == sizes[1]:
        return g.Unsqueeze(g.Less(g.Unsqueeze(numbers, [0]), g.Unsqueeze(mask, [1])), [1, 2])
    batch = int(sizes[1] or 0)
    if sizes[0] != 2 * batch:
        raise Unsupported("a mask of packed rows")
    ends, starts = (g.Unsqueeze(g.Slice(mask, [a], [a + batch], [0]), [1]) for a in (0, batch))
    numbers = g.Unsqueeze(numbers, [0])
    return g.Unsqueeze(g.And(g.Less(numbers, ends), g.GreaterOrEqual(numbers, starts)), [1, 2])


@runtime_op("com.microsoft::RotaryEmbedding")
def rotary_embedding(
    g: Graph, x: ir.Value, position_ids: ir.Value, cosines: ir.Value, sines: ir.Value, *, interleaved: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0, is_packed_batching: int = 0, scale: float = 1.0,
) -> ir.Value:  # fmt: skip
    """RotaryEmbedding. position_ids: a number per position [batch, length], or that of the first position [1]."""
    if is_packed_batching or scale != 1:
        raise Unsupported("is_packed_batching, or a scale")
    rank = g.rank(x)
    if rank == 3 and not num_heads:
        hidden, half = g.shape(x)[-1], g.shape(cosines)[-1]
        if rotary_embedding_dim or not isinstance(hidden, int) or not isinstance(half, int):
            raise Unsupported("heads of unknown number")
        num_heads = hidden // (2 * half)
    if g.rank(position_ids) == 1:
        dims = g.dims(x)
        length = g.Gather(dims, np.int64(1 if rank == 3 else 2), axis=0)
        first = g.Cast(g.Reshape(position_ids, np.array([1])), to=ir.DataType.INT64)
        row = g.Add(g.Range(np.int64(0), length, np.int64(1)), first)
        position_ids = g.Expand(g.Unsqueeze(row, [0]), g.Concat(g.Slice(dims, [0], [1], [0]), np.array([1]), axis=0))
    return g.RotaryEmbedding(
        x, cosines, sines, position_ids, interleaved=interleaved, num_heads=num_heads if rank == 3 else None,
        rotary_embedding_dim=rotary_embedding_dim,
    )  # fmt: skip
