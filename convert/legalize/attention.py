"""Attention written out in as few nodes as the known facts allow; ONNX's own function body has sixty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_SHORTER_MASKS = 24
"""Since this opset a mask may have fewer keys than there are; the others are masked."""


def attention(g: Graph, node: ir.Node) -> Sequence[ir.Value | None] | None:
    """softmax(Q·Kᵀ·scale + mask)·V, as in ONNX's Attention.

    The fourth output has the scores that `qk_matmul_output_mode` selects: raw, capped, masked or as probabilities.
    Returns None if the number of heads is unknown, so that the node gets the schema's function body.
    """
    q, k, v, mask, past_key, past_value, lengths = [*node.inputs, *[None] * 6][:7]
    attributes = node.attributes
    if q is None or k is None or v is None or (mask is not None and mask.shape is None):
        return None
    dtype, flat = g.dtype(q), g.rank(q) == 3
    if flat:
        counts = (attributes.get_int(name, 0) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads"))
        q, k, v = (_split_heads(g, x, count) for x, count in zip((q, k, v), counts, strict=True))
    q_heads, kv_heads = _static_size(q, 1), _static_size(k, 1)
    if q_heads is None or kv_heads is None:
        return None
    if flat and _static_size(v, 3) is None and (known := node.outputs[0].shape) is not None:
        node.outputs[0].shape = ir.Shape([*known[:2], None])  # onnx 1.23 infers a width of 0
    if past_key is not None:
        k, v = g.Concat(past_key, k, axis=2), g.Concat(past_value, v, axis=2)
    present = [k, v]
    bias = _bias(g, node, q, k, mask, past_key, lengths)
    scale = attributes.get_float("scale", None)
    grouped = q_heads != kv_heads
    if grouped:
        heads = [kv_heads, q_heads // kv_heads]
        q = _with_heads(g, q, heads)
        k, v = (g.Unsqueeze(x, [2]) for x in (k, v))
        bias = None if bias is None else _grouped_bias(g, bias, heads)
    scores = _products(g, q, k, scale)
    shown = [scores]
    if softcap := attributes.get_float("softcap", 0.0):
        scores = g.Mul(g.Tanh(g.Div(scores, softcap)), softcap)
    shown.append(scores)
    blind = None
    if bias is not None:
        shown.append(g.Add(scores, bias))
        if not _every_row_sees_something(node, mask, lengths):
            # A row that attends to no key returns zeros. NaN as an intermediate result would stay in gradients.
            blind = g.Equal(g.ReduceMax(bias, np.array([-1]), keepdims=1), g.const(-np.inf, dtype))
            bias = g.Where(blind, g.const(0, dtype), bias)
        scores = g.Add(scores, bias)
    else:
        shown.append(scores)
    precision = ir.DataType(attributes.get_int("softmax_precision", 0) or dtype)
    weights = g.Softmax(scores if precision == dtype else g.Cast(scores, to=precision), axis=-1)
    weights = weights if precision == dtype else g.Cast(weights, to=dtype)
    weights = weights if blind is None else g.Where(blind, g.const(0, dtype), weights)
    shown.append(weights)
    y = g.MatMul(weights, v if g.dtype(v) == dtype else g.Cast(v, to=dtype))
    if grouped:
        y = _with_heads(g, y, [q_heads])
    results = [_join_heads(g, y) if flat else y, *present]
    if len(node.outputs) > 3 and node.outputs[3].name:
        selected = shown[attributes.get_int("qk_matmul_output_mode", 0)]
        results.append(_with_heads(g, selected, [q_heads]) if grouped else selected)
    return [made if old.name else None for made, old in zip(results, node.outputs, strict=False)]


def _products(g: Graph, q: ir.Value, k: ir.Value, scale: float | None) -> ir.Value:
    """Return the products of queries and keys. In half precision both are scaled first, so that nothing overflows."""
    depth, dtype = _static_size(q, -1), g.dtype(q)
    factor: float | ir.Value
    if scale is None and depth is None:
        size = g.Cast(g.Gather(g.dims(q), np.int64(g.rank(q) - 1), axis=0), to=ir.DataType.FLOAT)
        factor = g.Reciprocal(g.Sqrt(g.Sqrt(size) if dtype in _HALVES else size))
        factor = factor if dtype == ir.DataType.FLOAT else g.Cast(factor, to=dtype)
    else:
        factor = scale if scale is not None else 1 / math.sqrt(depth or 1)
        factor = math.sqrt(factor) if dtype in _HALVES else factor
    if dtype in _HALVES:
        k = g.Mul(k, factor)
    return g.MatMul(q if factor == 1.0 else g.Mul(q, factor), _swap_last_dims(g, k))


def _with_heads(g: Graph, x: ir.Value, heads: Sequence[int]) -> ir.Value:
    """Return `x` with its dims between the batch and the last two replaced by `heads`."""
    size, rank = _static_size(x, -1), g.rank(x)
    if size is not None:
        return g.Reshape(x, np.array([0, *heads, -1, size], np.int64))
    batch, steps = (g.Gather(g.dims(x), np.array(axes), axis=0) for axes in ([0], [rank - 2, rank - 1]))
    return g.Reshape(x, g.Concat(batch, np.array(heads), steps, axis=0))


def _bias(
    g: Graph,
    node: ir.Node,
    q: ir.Value,
    k: ir.Value,
    mask: ir.Value | None,
    past: ir.Value | None,
    lengths: ir.Value | None,
) -> ir.Value | None:
    """Return what is added to the scores: the mask, and −∞ where a query may not attend to a key; None for nothing."""
    dtype = g.dtype(q)

    def hidden(where: ir.Value, otherwise: ir.Value | None = None) -> ir.Value:
        return g.Where(where, g.const(-np.inf, dtype), g.const(0, dtype) if otherwise is None else otherwise)

    if mask is not None:
        mask = hidden(g.Not(mask)) if g.dtype(mask) == ir.DataType.BOOL else mask
        mask = _extended(g, mask if g.dtype(mask) == dtype else g.Cast(mask, to=dtype), k, lengths is None)
    hiding = _hidden_keys(g, node, q, k, past, lengths)
    if not hiding:
        return mask
    own = hidden(reduce(g.Or, hiding))
    return own if mask is None else g.Add(mask, own)


def _extended(g: Graph, mask: ir.Value, k: ir.Value, broadcasts: bool) -> ir.Value:
    """Return a mask for all keys; keys beyond the end of a shorter mask are masked.

    broadcasts: a mask for a single key applies to all keys, as in Attention-23.
    """
    own, wanted, rank = g.shape(mask)[-1], g.shape(k)[2], g.rank(mask)
    if own == wanted or (own == 1 and broadcasts):
        return mask
    low = g.const(-np.inf, g.dtype(mask))
    if isinstance(own, int) and isinstance(wanted, int):
        return g.Pad(mask, np.array([0] * (2 * rank - 1) + [wanted - own]), low)
    if g.opset < _SHORTER_MASKS:
        return mask
    length = g.Gather(g.dims(mask), np.array([rank - 1]), axis=0)
    missing = g.Max(g.Sub(g.Gather(g.dims(k), np.array([2]), axis=0), length), np.array([0]))
    if broadcasts:
        missing = g.Where(g.Equal(length, np.array([1])), np.array([0]), missing)
    return g.Pad(mask, g.Concat(np.zeros(2 * rank - 1, np.int64), missing, axis=0), low)


def _hidden_keys(
    g: Graph, node: ir.Node, q: ir.Value, k: ir.Value, past: ir.Value | None, lengths: ir.Value | None
) -> list[ir.Value]:
    """Return the conditions under which a query may not attend to a key, by their positions."""
    causal, left, right = _position_rules(node)
    found: list[ir.Value] = []
    by_place = causal or max(left, right) >= 0
    if lengths is None and not by_place:
        return found
    keys = _positions(g, k, 0)
    if lengths is not None:
        lengths = g.Unsqueeze(g.Cast(lengths, to=ir.DataType.INT64), np.array([1, 2, 3]))
        found.append(g.Not(g.Less(keys, lengths)))
    if by_place:
        queries = _positions(g, q, 1)
        if past is not None:
            queries = g.Add(queries, _length(g, past))
        elif lengths is not None:
            queries = g.Add(queries, g.Sub(lengths, _length(g, q)))
        if causal:
            found.append(g.Less(queries, keys))
        if left >= 0:
            found.append(g.Less(np.int64(left), g.Sub(queries, keys)))
        if right >= 0:
            found.append(g.Less(np.int64(right), g.Sub(keys, queries)))
    return found


def _position_rules(node: ir.Node) -> tuple[bool, int, int]:
    """Return whether later keys are hidden, and the window of keys before and after a query (−1: all)."""
    left, right = (node.attributes.get_int(f"{side}_window_size", -1) for side in ("left", "right"))
    return node.attributes.get_int("is_causal", 0) != 0, left, right


def _length(g: Graph, x: ir.Value) -> ir.Value:
    """Return the number of steps of [batch, heads, steps, size], as an int64 scalar."""
    steps = _static_size(x, 2)
    return g.Gather(g.dims(x), np.int64(2), axis=0) if steps is None else g.const(np.int64(steps))


def _positions(g: Graph, x: ir.Value, axis: int) -> ir.Value:
    """Return the numbers of the steps of `x` as a row or a column: `axis` is the dim of 1."""
    steps = _static_size(x, 2)
    if steps is not None:
        return g.const(np.expand_dims(np.arange(steps, dtype=np.int64), axis))
    return g.Unsqueeze(g.Range(np.int64(0), _length(g, x), np.int64(1)), [axis])


def _grouped_bias(g: Graph, bias: ir.Value, heads: Sequence[int]) -> ir.Value:
    """Return a bias for scores [batch, heads of keys, queries of a head, queries, keys]."""
    if g.rank(bias) < 3:
        return bias
    bias = g.Unsqueeze(bias, [0]) if g.rank(bias) == 3 else bias
    return g.Unsqueeze(bias, [2]) if _static_size(bias, 1) == 1 else _with_heads(g, bias, heads)


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


def _every_row_sees_something(node: ir.Node, mask: ir.Value | None, lengths: ir.Value | None) -> bool:
    """Return whether no mask, or a constant one, leaves every query at least one key."""
    causal, left, right = _position_rules(node)
    if lengths is not None or max(left, right) >= 0:
        return False
    if mask is None:
        return True
    if mask.const_value is None:
        return False
    content = mask.const_value.numpy()
    seen = content if content.dtype == bool else content > -np.inf
    if causal and (seen.ndim < 2 or seen.shape[-2] == 1):  # one row for all queries
        return bool(seen[..., 0].all())
    return bool((np.tril(seen) if causal else seen).any(axis=-1).all())
