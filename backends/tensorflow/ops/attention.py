"""Attention whose scores and probabilities are changed by subgraphs (FlexAttention)."""

from __future__ import annotations

import onnx_ir as ir
import tensorflow as tf

from ..constants import tf_dtype
from ..emit import Emitter
from ..rules import onnx_op
from .activation import softmax
from .linalg import matrix_product


def scaled_products(q: tf.Tensor, k: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """Return scaled products of queries and keys. In half precision both are scaled first, so that nothing
    overflows.
    """
    if q.dtype.size >= 4:
        return tf.matmul(tf.multiply(q, tf.cast(scale, q.dtype)), k, transpose_b=True)
    half = tf.cast(tf.sqrt(scale), q.dtype)
    return matrix_product(tf.multiply(q, half), tf.linalg.matrix_transpose(tf.multiply(k, half)))


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
