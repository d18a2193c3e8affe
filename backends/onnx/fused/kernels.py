"""Kernels of onnxruntime's own operators for the reference executor, as far as `fused/decoder.py` writes them.

A run in float64 finds out what 16 bits cannot represent, in fused decoders too.
"""

from __future__ import annotations

import math

import numpy as np

from convert.reference import kernel

Array = np.ndarray


@kernel("com.microsoft::RotaryEmbedding")
def rotary_embedding(outputs: int, x: Array, positions: Array, cos: Array, sin: Array, *, num_heads: int) -> Array:
    """Return [rows, new, heads · size], each head turned by the angles of its position. cos, sin: [all, size / 2]."""
    low, high = np.split(_heads(x, num_heads), 2, axis=-1)
    c, s = (np.expand_dims(table[positions], 1) for table in (cos, sin))
    return _merged(np.concatenate([low * c - high * s, high * c + low * s], axis=-1))


@kernel("com.microsoft::SkipSimplifiedLayerNormalization")
def skip_norm(outputs: int, x: Array, skip: Array, scale: Array, *, epsilon: float) -> tuple[Array | None, ...]:
    """Return the normalized sum, two results that are not used, and the sum."""
    total = x + skip
    spread = np.sqrt(np.mean(np.square(total), axis=-1, keepdims=True) + epsilon)
    return total / spread * scale, None, None, total


@kernel("com.microsoft::GroupQueryAttention")
def group_query_attention(
    outputs: int, query: Array, key: Array, value: Array, past_key: Array, past_value: Array, lengths: Array,
    total: Array, cos: None, sin: None, positions: None, bias: Array, *, num_heads: int, kv_num_heads: int,
    scale: float, local_window_size: int, softcap: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return [rows, new, heads · size], and keys and values with the new ones appended."""
    keys, values = (
        np.concatenate([past, _heads(new, kv_num_heads)], axis=2)
        for past, new in ((past_key, key), (past_value, value))
    )
    repeated = num_heads // kv_num_heads
    scores = _heads(query, num_heads) @ np.repeat(keys, repeated, 1).swapaxes(2, 3) * scale
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    scores = scores + bias
    count = keys.shape[2]
    own = np.arange(count - query.shape[1], count)[:, None]
    seen = np.arange(count) <= own
    if local_window_size >= 0:
        seen &= np.arange(count) > own - local_window_size
    scores = np.where(seen, scores, -math.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return _merged(weights @ np.repeat(values, repeated, 1)), keys, values


def _heads(x: Array, count: int) -> Array:
    """Return [rows, new, heads · size] as [rows, heads, new, size]."""
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def _merged(x: Array) -> Array:
    """Return [rows, heads, new, size] as [rows, new, heads · size]."""
    turned = x.swapaxes(1, 2)
    return turned.reshape(*turned.shape[:2], -1)
