"""Attention written out in as few nodes as the known facts allow; ONNX's own function body has sixty."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

_ATTRIBUTES = frozenset({"q_num_heads", "kv_num_heads", "scale", "is_causal"})


def attention(g: Graph, node: ir.Node) -> Sequence[ir.Value] | None:
    """softmax(Q·Kᵀ·scale + mask)·V, as in ONNX's Attention-23.

    Returns None in these cases, so that the node gets the schema's function body:

    - a cache, or an output of the scores
    - an attribute not in `_ATTRIBUTES`
    - an unknown number of heads, or an unknown head size
    - a mask per head with grouped queries
    """
    q, k, v, mask, *cache = [*node.inputs, *[None] * 6][:7]
    attributes = node.attributes
    if any(cache) or sum(bool(o.name) for o in node.outputs) > 1 or not attributes.keys() <= _ATTRIBUTES:
        return None
    if q is None or k is None or v is None or (mask is not None and mask.shape is None):
        return None
    flat = g.rank(q) == 3
    if flat:
        heads = attributes.get_int("q_num_heads", 0), attributes.get_int("kv_num_heads", 0)
        q, k, v = (_split_heads(g, x, n) for x, n in ((q, heads[0]), (k, heads[1]), (v, heads[1])))
    sizes = (_static_size(q, 1), _static_size(k, 1), _static_size(q, 3), _static_size(v, 3))
    if any(s is None for s in sizes):
        return None
    q_heads, kv_heads, depth, v_depth = (int(s) for s in sizes if s is not None)
    grouped = q_heads != kv_heads
    if grouped and mask is not None and not _same_for_all_heads(g, mask):
        return None
    scale = attributes.get_float("scale", 1 / math.sqrt(depth))
    if grouped:
        q = g.Reshape(q, np.array([0, kv_heads, q_heads // kv_heads, -1, depth], np.int64))
        k, v = (g.Unsqueeze(x, [2]) for x in (k, v))
        if mask is not None and g.rank(mask) == 4:
            mask = g.Unsqueeze(mask, [2])
    scores = g.MatMul(q if scale == 1.0 else g.Mul(q, scale), _swap_last_dims(g, k))
    lowest = g.const(np.full((), -np.inf, g.dtype(scores).numpy()), g.dtype(scores))
    if attributes.get_int("is_causal", 0):
        scores = g.Where(_future_mask(g, q, k), lowest, scores)
    if mask is not None:
        boolean = g.dtype(mask) == ir.DataType.BOOL
        scores = g.Where(mask, scores, lowest) if boolean else g.Add(scores, mask)
    weights = g.Softmax(scores, axis=-1)
    if mask is not None and not _every_row_sees_something(mask, bool(attributes.get_int("is_causal", 0))):
        # A row that attends to no key returns zeros, not NaN.
        blind = g.Equal(g.ReduceMax(scores, np.array([-1]), keepdims=1), lowest)
        weights = g.Where(blind, g.const(np.zeros((), g.dtype(scores).numpy()), g.dtype(scores)), weights)
    y = g.MatMul(weights, v)
    if grouped:
        y = g.Reshape(y, np.array([0, q_heads, -1, v_depth], np.int64))
    return [_join_heads(g, y) if flat else y]


def _swap_last_dims(g: Graph, k: ir.Value) -> ir.Value:
    """Return `k` with its last two dims swapped, merged with the Transpose that computed `k`, if any."""
    perm = [*range(g.rank(k) - 2), g.rank(k) - 1, g.rank(k) - 2]
    maker = k.producer()
    before = maker.attributes.get_ints("perm") if maker is not None and maker.op_type == "Transpose" else None
    if maker is None or before is None or maker.domain or maker.inputs[0] is None:
        return g.Transpose(k, perm=perm)
    return g.Transpose(maker.inputs[0], perm=[before[p] for p in perm])


def _split_heads(g: Graph, x: ir.Value, heads: int) -> ir.Value:
    """Return [batch, heads, length, depth] from [batch, length, heads·depth]."""
    return g.Transpose(g.Reshape(x, np.array([0, 0, heads, -1], np.int64)), perm=[0, 2, 1, 3])


def _join_heads(g: Graph, y: ir.Value) -> ir.Value:
    return g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), np.array([0, 0, -1], np.int64))


def _static_size(x: ir.Value, axis: int) -> int | None:
    size = x.shape[axis] if x.shape is not None else None
    return size if isinstance(size, int) else None


def _same_for_all_heads(g: Graph, mask: ir.Value) -> bool:
    return g.rank(mask) == 2 or (g.rank(mask) == 4 and _static_size(mask, 1) == 1)


def _future_mask(g: Graph, q: ir.Value, k: ir.Value) -> ir.Value:
    """Return which keys come after each query, as booleans [queries, keys]."""

    def numbers(x: ir.Value) -> ir.Value:
        length = g.Gather(g.dims(x), np.int64(g.rank(x) - 2), axis=0)
        return g.Range(np.int64(0), length, np.int64(1))

    return g.Less(g.Unsqueeze(numbers(q), [1]), g.Unsqueeze(numbers(k), [0]))


def _every_row_sees_something(mask: ir.Value, causal: bool) -> bool:
    """Return whether a mask is constant and leaves every query at least one key.

    With `causal`, later keys are hidden.
    """
    if mask.const_value is None:
        return False
    content = mask.const_value.numpy()
    seen = content if content.dtype == bool else content > -np.inf
    if causal and (seen.ndim < 2 or seen.shape[-2] == 1):  # one row for all queries
        return bool(seen[..., 0].all())
    return bool((np.tril(seen) if causal else seen).any(axis=-1).all())
