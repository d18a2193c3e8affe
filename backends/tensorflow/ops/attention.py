"""Scaled dot product attention (ONNX Attention, opset 23 and later)."""

from __future__ import annotations

import onnx_ir as ir
import tensorflow as tf

from convert.errors import Unsupported

from ..constants import tf_dtype
from ..emit import Dim, Emitter
from ..rules import onnx_op
from .activation import softmax
from .linalg import matrix_product
from .shape import pack_dims

MINUS_INFINITY = float("-inf")


@onnx_op("Attention")
def attention(
    t,
    q,
    k,
    v,
    attn_mask,
    past_key,
    past_value,
    nonpad_kv_seqlen=None,
    *,
    is_causal,
    kv_num_heads,
    q_num_heads,
    qk_matmul_output_mode,
    scale,
    softcap,
    softmax_precision,
    left_window_size=-1,
    right_window_size=-1,
):
    flat = t.rank(q) == 3
    if flat:
        q, k, v = split_heads(t, q, q_num_heads), split_heads(t, k, kv_num_heads), split_heads(t, v, kv_num_heads)
    offset = 0
    if past_key is not None:
        offset = t.shape(past_key)[2]
        k, v = tf.concat([past_key, k], 2), tf.concat([past_value, v], 2)
    elif nonpad_kv_seqlen is not None:
        offset = tf.reshape(tf.cast(nonpad_kv_seqlen, tf.int32), [-1, 1, 1, 1]) - t.shape(q)[2]
    present_key, present_value = k, v
    bias = attention_bias(t, q, k, attn_mask, nonpad_kv_seqlen, offset, is_causal, left_window_size, right_window_size)
    scores = scaled_products(q, repeat_heads(t, k, q), scale_of(t, q, scale))
    shown = scores
    if softcap:
        cap = tf.constant(softcap, scores.dtype)
        scores = tf.tanh(scores / cap) * cap
        shown = scores if qk_matmul_output_mode == 1 else shown
    nothing = None
    if bias is not None:
        shown = scores + bias if qk_matmul_output_mode == 2 else shown
        if attn_mask is not None or nonpad_kv_seqlen is not None or left_window_size >= 0 or right_window_size >= 0:
            # A query that may not attend to any key gives zeros. Avoid NaN as an intermediate, which would stay in
            # gradients.
            nothing = tf.equal(tf.reduce_max(bias, -1, keepdims=True), tf.constant(MINUS_INFINITY, bias.dtype))
            bias = tf.where(nothing, tf.zeros([], bias.dtype), bias)
        scores = scores + bias
    weights = probabilities(scores, softmax_precision)
    weights = weights if nothing is None else tf.where(nothing, tf.zeros([], weights.dtype), weights)
    shown = weights if qk_matmul_output_mode == 3 else shown
    # Values may have another dtype than queries and keys; the result has the dtype of the queries.
    y = matrix_product(weights, tf.cast(repeat_heads(t, v, q), q.dtype))
    if flat:
        n, h, s, d = t.shape(y)
        y = tf.reshape(tf.transpose(y, [0, 2, 1, 3]), pack_dims([n, s, h * d]))
    return y, tf.convert_to_tensor(present_key), tf.convert_to_tensor(present_value), shown


def scaled_products(q: tf.Tensor, k: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """Return scaled products of queries and keys. In half precision both are scaled first, so that nothing
    overflows.
    """
    if q.dtype.size >= 4:
        return tf.matmul(tf.multiply(q, tf.cast(scale, q.dtype)), k, transpose_b=True)
    half = tf.cast(tf.sqrt(scale), q.dtype)
    return matrix_product(tf.multiply(q, half), tf.linalg.matrix_transpose(tf.multiply(k, half)))


def split_heads(t: Emitter, x: tf.Tensor, count: int | None) -> tf.Tensor:
    """Reshape [batch, sequence, heads · size] to [batch, heads, sequence, size]."""
    if count is None:
        raise Unsupported("Attention of rank 3 without the number of heads")
    n, s, width = t.shape(x)
    return tf.transpose(tf.reshape(x, pack_dims([n, s, count, width // count])), [0, 2, 1, 3])


def repeat_heads(t: Emitter, x: tf.Tensor, q: tf.Tensor) -> tf.Tensor:
    """Repeat keys or values so that each query head has its own."""
    own, wanted = t.shape(x)[1], t.shape(q)[1]
    if isinstance(own, int) and isinstance(wanted, int) and own == wanted:
        return x
    return tf.repeat(x, wanted // own, axis=1)


def scale_of(t: Emitter, q: tf.Tensor, scale: float | None) -> tf.Tensor:
    """Return the given scale, or 1 / sqrt(size of a head)."""
    kind = tf.float64 if q.dtype == tf.float64 else tf.float32
    if scale is not None:
        return tf.constant(scale, kind)
    size = t.shape(q)[3]
    return tf.constant(size**-0.5, kind) if isinstance(size, int) else tf.math.rsqrt(tf.cast(size, kind))


def attention_bias(
    t: Emitter,
    q: tf.Tensor,
    k: tf.Tensor,
    mask: tf.Tensor | None,
    lengths: tf.Tensor | None,
    offset: Dim,
    is_causal: bool,
    left: int,
    right: int,
) -> tf.Tensor | None:
    """Return the mask plus −inf wherever a query may not attend to a key; None if nothing is masked."""
    rows, columns = t.shape(q)[2], t.shape(k)[2]
    bias = None if mask is None else mask_to_bias(t, q, mask, columns, lengths is None)
    place = tf.range(rows)[:, None] + offset
    key = tf.range(columns)[None, :]
    conditions = []
    if is_causal:
        conditions.append(key <= place)
    if left >= 0:
        conditions.append(place - key <= left)
    if right >= 0:
        conditions.append(key - place <= right)
    if lengths is not None:
        conditions.append(key < tf.reshape(tf.cast(lengths, tf.int32), [-1, 1, 1, 1]))
    for allowed in conditions:
        added = tf.where(allowed, tf.zeros([], q.dtype), tf.constant(MINUS_INFINITY, q.dtype))
        bias = added if bias is None else bias + added
    return bias


def mask_to_bias(t: Emitter, q: tf.Tensor, mask: tf.Tensor, columns: Dim, broadcasts: bool) -> tf.Tensor:
    """Return a mask as numbers to add; keys beyond the end of a shorter mask are masked.

    broadcasts: a mask for a single key applies to all keys, as in Attention-23.
    """
    if mask.dtype == tf.bool:
        mask = tf.where(mask, tf.zeros([], q.dtype), tf.constant(MINUS_INFINITY, q.dtype))
    own = t.shape(mask)[-1]
    if own is columns or (isinstance(own, int) and (own == columns or (own == 1 and broadcasts))):
        return tf.cast(mask, q.dtype)
    if isinstance(columns, int) and isinstance(own, int):
        missing = columns - own
    else:
        missing = tf.maximum(columns - own, 0)
        missing = tf.where(tf.equal(own, 1), 0, missing) if broadcasts else missing
    paddings = [[0, 0]] * (t.rank(mask) - 1) + [[0, missing]]
    return tf.pad(tf.cast(mask, q.dtype), paddings, constant_values=tf.constant(MINUS_INFINITY, q.dtype))


def probabilities(scores: tf.Tensor, precision: int | None) -> tf.Tensor:
    """Return the softmax over the keys, computed in the given precision."""
    kind = scores.dtype if precision is None else tf_dtype(ir.DataType(precision))
    return tf.cast(softmax(None, tf.cast(scores, kind), axis=-1), scores.dtype)


@onnx_op("ai.onnx.preview::FlexAttention")
def flex_attention(t, q, k, v, *, prob_mod, scale, score_mod, softmax_precision):
    wide = tf.float64 if q.dtype == tf.float64 else tf.float32
    wide = wide if softmax_precision is None else tf_dtype(ir.DataType(softmax_precision))
    scores = scaled_products(tf.convert_to_tensor(q), repeat_heads(t, k, q), scale_of(t, q, scale))
    scores = tf.cast(scores, wide)
    scores = scores if score_mod is None else score_mod(scores)[0]
    weights = softmax(None, scores, axis=-1)
    weights = weights if prob_mod is None else prob_mod(weights)[0]
    return matrix_product(tf.cast(weights, q.dtype), repeat_heads(t, v, q))
