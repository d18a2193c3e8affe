"""Attention: a layer if it includes the projections, else operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras import KerasTensor, layers, ops

from convert.errors import Unsupported

from ..rules import HEADS, onnx_op
from ..tensors import Tensor, plus


@onnx_op(HEADS)
def multi_head_attention(
    k, query, key, value, q_kernel, q_bias, k_kernel, k_bias, v_kernel, v_bias, o_kernel, o_bias, *, is_causal
):
    kernels = {"_query_dense": q_kernel, "_key_dense": k_kernel, "_value_dense": v_kernel, "_output_dense": o_kernel}
    biases = {"_query_dense": q_bias, "_key_dense": k_bias, "_value_dense": v_bias, "_output_dense": o_bias}
    weights = {f"{part}.kernel": w for part, w in kernels.items()} | {f"{part}.bias": w for part, w in biases.items()}
    _, heads, size = q_kernel.shape
    config = {} if o_kernel.shape[2] == query.shape[-1] else {"output_shape": o_kernel.shape[2]}
    call = {"value": value} if key is value else {"value": value, "key": key}
    return k.layer(
        layers.MultiHeadAttention, query, weights, {**call, "use_causal_mask": True} if is_causal else call,
        num_heads=heads, key_dim=size, value_dim=v_kernel.shape[2], use_bias=q_bias is not None, **config,
    )  # fmt: skip


@onnx_op("Attention")
def attention(
    k, query, key, value, mask, past_key, past_value, nonpad=None,
    *, is_causal, kv_num_heads, q_num_heads, qk_matmul_output_mode, scale, softcap, softmax_precision,
    left_window_size=-1, right_window_size=-1,
):  # fmt: skip
    query, key, value, mask, nonpad = k.tensors(query, key, value, mask, nonpad)
    windows = (-1 if left_window_size is None else left_window_size, right_window_size)
    flat, dtype = len(query.shape) == 3, str(query.dtype)
    plain = mask is None and past_key is None and nonpad is None and not softcap and max(windows) < 0
    if flat and plain and k.outputs == 1 and dtype in ("float32", "float64"):
        y = _packed_attention(query, key, value, q_num_heads, kv_num_heads, scale, bool(is_causal))
        if y is not None:
            return y
    if flat:
        query, key, value = (
            _heads_first(query, q_num_heads),
            _heads_first(key, kv_num_heads),
            _heads_first(value, kv_num_heads),
        )
    if past_key is not None and past_value is not None:
        key, value = (ops.concatenate(k.tensors(*pair), axis=2) for pair in ((past_key, key), (past_value, value)))
    seen = past_key.shape[2] if past_key is not None else 0
    mask = mask if mask is None else _extend_mask(mask, key.shape[2], nonpad is None)
    if is_causal or max(windows) >= 0 or nonpad is not None:
        mask = _allowed_mask(query.shape[2], key.shape[2], seen, nonpad, bool(is_causal), windows, mask)
    y, scores = _attend(query, key, value, mask, scale, softcap, qk_matmul_output_mode)
    if flat:
        y = ops.transpose(y, (0, 2, 1, 3))
        y = k.layer(layers.Reshape, y, target_shape=(-1, y.shape[2] * y.shape[3]))
    return (y, key, value, scores)[: k.outputs] if k.outputs > 1 else y


def _packed_attention(
    query: KerasTensor,
    key: KerasTensor,
    value: KerasTensor,
    heads: int,
    kv_heads: int,
    scale: float | None,
    causal: bool,
) -> KerasTensor | None:
    """Return attention of [batch, steps, heads · size] by Keras's operation; None if Keras infers a wrong shape."""
    query, key, value = (_split_heads(x, n) for x, n in ((query, heads), (key, kv_heads), (value, kv_heads)))
    size = query.shape[-1]
    if value.shape[-1] != size:
        return None
    if heads != kv_heads:
        key, value = (ops.repeat(x, heads // kv_heads, axis=2) for x in (key, value))
    factor = size**-0.5 if scale is None else scale
    y = ops.dot_product_attention(query, key, value, scale=factor, is_causal=causal)
    return layers.Reshape((-1, heads * size), dtype=y.dtype)(y)


def _attend(
    query: KerasTensor,
    key: KerasTensor,
    value: KerasTensor,
    mask: Tensor | None,
    scale: float | None,
    softcap: float,
    mode: int,
) -> tuple[KerasTensor, KerasTensor]:
    """Return result and scores for [batch, heads, steps, size]; there may be fewer heads of keys and values."""
    size = query.shape[-1]
    if size is None or query.shape[1] is None or key.shape[1] is None:
        raise Unsupported("heads of dynamic number or size")
    dtype = str(query.dtype)
    if dtype in ("float16", "bfloat16"):  # too imprecise for the sums
        query, key, value = (ops.cast(x, "float32") for x in (query, key, value))
        y, shown = _attend(query, key, value, _widen_mask(mask), scale, softcap, mode)
        return ops.cast(y, dtype), ops.cast(shown, dtype)
    if query.shape[1] != key.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = ops.repeat(key, times, axis=1), ops.repeat(value, times, axis=1)
    # Each operand gets the root of the scale, as in the standard.
    factor = (scale if scale is not None else size**-0.5) ** 0.5
    scores = shown = ops.matmul(query * factor, ops.transpose(key, (0, 1, 3, 2)) * factor)
    if softcap:
        scores = ops.tanh(scores / softcap) * softcap
        shown = scores if mode == 1 else shown
    if mask is None:
        weights = ops.softmax(scores, axis=-1)
        return ops.matmul(weights, value), weights if mode == 3 else scores if mode == 2 else shown
    masked = _mask_scores(scores, mask)
    # A query that may not attend to any key gives zeros. Avoid NaN as an intermediate, which would stay in gradients.
    # The maximum of the scores is no test for this, because Keras rejects a maximum over an empty batch.
    nothing = ops.all(ops.equal(masked, -np.inf), axis=-1, keepdims=True)
    weights = ops.where(nothing, 0.0, ops.softmax(ops.where(nothing, 0.0, masked), axis=-1))
    return ops.matmul(weights, value), weights if mode == 3 else masked if mode == 2 else shown


def _widen_mask(mask: Tensor | None) -> Tensor | None:
    return mask if mask is None or str(mask.dtype) == "bool" else ops.cast(mask, "float32")


def _heads_first(x: KerasTensor, count: int | None) -> KerasTensor:
    """Transpose [batch, steps, heads · size] to [batch, heads, steps, size]."""
    return ops.transpose(_split_heads(x, count), (0, 2, 1, 3))


def _split_heads(x: KerasTensor, count: int | None) -> KerasTensor:
    """Reshape [batch, steps, heads · size] to [batch, steps, heads, size]."""
    if not count or x.shape[-1] is None:
        raise Unsupported("heads of dynamic number or size")
    return layers.Reshape((-1, count, x.shape[-1] // count), dtype=x.dtype)(x)


def _allowed_mask(
    queries: int | None,
    keys: int | None,
    seen: int | None,
    lengths: KerasTensor | None,
    causal: bool,
    windows: tuple[int, int],
    mask: Tensor | None,
) -> Tensor | None:
    """Return which keys a query may attend to, combined with the given mask.

    lengths: the number of keys of each batch element; its queries are the last of them.
    """
    if queries is None or keys is None or seen is None:
        raise Unsupported("causal attention over steps of dynamic number")
    key, place, conditions = np.arange(keys)[None, :], np.arange(queries)[:, None] + seen, []
    if lengths is not None:
        count = ops.reshape(ops.cast(lengths, "int32"), (-1, 1, 1, 1))
        key, place = key.astype(np.int32), ops.add(ops.subtract(count, queries), place.astype(np.int32))
        conditions.append(ops.less(key, count))
    if causal:
        conditions.append(_compare(ops.less_equal, np.less_equal, key, place))
    if windows[0] >= 0:
        conditions.append(_compare(ops.greater_equal, np.greater_equal, key, place - windows[0]))
    if windows[1] >= 0:
        conditions.append(_compare(ops.less_equal, np.less_equal, key, place + windows[1]))
    own = conditions[0]
    for condition in conditions[1:]:
        own = _compare(ops.logical_and, np.logical_and, own, condition)
    if mask is None:
        return own
    return ops.logical_and(mask, own) if str(mask.dtype) == "bool" else ops.where(own, mask, -np.inf)


def _extend_mask(mask: Tensor, keys: int | None, broadcasts: bool) -> Tensor:
    """Return a mask for all keys; keys beyond the end of a shorter mask are masked.

    broadcasts: a mask for a single key applies to all keys, as in Attention-23.
    """
    own = mask.shape[-1]
    if own == keys or (own == 1 and broadcasts):
        return mask
    if own is None or keys is None or own > keys:
        raise Unsupported("a mask of another length than the keys, which are of dynamic number")
    widths = [[0, 0]] * (len(mask.shape) - 1) + [[0, keys - own]]
    boolean = str(mask.dtype) == "bool"
    if isinstance(mask, np.ndarray):
        return np.pad(mask, widths, constant_values=False if boolean else -np.inf)
    return ops.pad(mask, widths, constant_values=False if boolean else -np.inf)


def _compare(live: Callable[..., Any], known: Callable[..., Any], a: Tensor, b: Tensor) -> Tensor:
    """Compare two values, immediately if both are arrays."""
    return known(a, b) if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) else live(a, b)


def _mask_scores(scores: KerasTensor, mask: Tensor) -> KerasTensor:
    return ops.where(mask, scores, -np.inf) if str(mask.dtype) == "bool" else plus(scores, mask)
