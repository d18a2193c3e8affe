"""Normalization."""

from __future__ import annotations

import onnx_ir as ir
import tensorflow as tf

from convert.errors import Unsupported
from convert.semantics.windows import channel_window

from ..constants import tf_dtype
from ..rules import channels_last, onnx_op
from .shape import pack_dims
from .sums import halves_in_float32, moments
from .sums import mean as mean_of


@channels_last("BatchNormalization")
def batch_normalization(t, x, scale, bias, mean, var, *, epsilon, momentum, training_mode):
    dtype = x.dtype if x.dtype.size >= 4 else tf.float32  # factor and offset would lose precision in half precision
    wide, scale, bias = tf.cast(x, dtype), tf.cast(scale, dtype), tf.cast(bias, dtype)
    if not training_mode:
        factor = scale * tf.math.rsqrt(tf.cast(var, dtype) + tf.constant(epsilon, dtype))
        return tf.cast(wide * factor + (bias - factor * tf.cast(mean, dtype)), x.dtype)
    now_mean, now_var = moments(wide, list(range(t.rank(x) - 1)))
    y = tf.nn.batch_normalization(wide, now_mean, now_var, bias, scale, epsilon)
    keep = tf.constant(momentum, mean.dtype)
    new_mean = tf.multiply(mean, keep) + tf.cast(now_mean, mean.dtype) * (1 - keep)
    return tf.cast(y, x.dtype), new_mean, tf.multiply(var, keep) + tf.cast(now_var, var.dtype) * (1 - keep)


@channels_last("InstanceNormalization")
def instance_normalization(t, x, scale, bias, *, epsilon):
    dtype = x.dtype if x.dtype.size >= 4 else tf.float32
    wide, scale, bias = tf.cast(x, dtype), tf.cast(scale, dtype), tf.cast(bias, dtype)
    mean, var = moments(wide, list(range(1, t.rank(x) - 1)), True)
    return tf.cast(tf.nn.batch_normalization(wide, mean, var, bias, scale, epsilon), x.dtype)


@channels_last("GroupNormalization")
def group_normalization(t, x, scale, bias, *, epsilon, num_groups, stash_type):
    dims = t.shape(x)
    per_group = dims[-1] // num_groups
    kind = _wide(x, tf_dtype(ir.DataType(stash_type)))
    split = tf.reshape(tf.cast(x, kind), pack_dims([*dims[:-1], num_groups, per_group]))
    axes = [*range(1, len(dims) - 1), len(dims)]
    mean, var = moments(split, axes, True)
    normal = (split - mean) * tf.math.rsqrt(var + tf.constant(epsilon, kind))
    normal = tf.cast(tf.reshape(normal, pack_dims(dims)), x.dtype)
    return normal * scale + bias


@onnx_op("LayerNormalization")
def layer_normalization(t, x, scale, bias, *, axis, epsilon, stash_type):
    stash = tf_dtype(ir.DataType(stash_type))
    kind, rank = _wide(x, stash), t.rank(x)
    axes = list(range(axis % rank if rank else 0, rank))
    wide = tf.cast(x, kind)
    mean = mean_of(wide, axes, True)
    var = mean_of(tf.square(wide - mean), axes, True)
    inverse = tf.math.rsqrt(var + tf.constant(epsilon, kind))
    y = tf.multiply(tf.cast((wide - mean) * inverse, x.dtype), scale)
    return (y if bias is None else y + bias), tf.cast(mean, stash), tf.cast(inverse, stash)


@onnx_op("RMSNormalization")
def rms_normalization(t, x, scale, *, axis, epsilon, stash_type):
    kind = _wide(x, tf_dtype(ir.DataType(stash_type)))
    rank = t.rank(x)
    wide = tf.cast(x, kind)
    square = mean_of(tf.square(wide), list(range(axis % rank, rank)), True)
    return tf.multiply(tf.cast(wide * tf.math.rsqrt(square + tf.constant(epsilon, kind)), scale.dtype), scale)


def _wide(x: tf.Tensor, stash: tf.DType) -> tf.DType:
    """Return the dtype for sums and squares: float32 for half precision, float64 for float64."""
    if x.dtype == tf.float64:
        return tf.float64
    return stash if stash.size >= 4 else tf.float32


@onnx_op("LpNormalization")
@halves_in_float32
def lp_normalization(t, x, *, axis, p):
    if p not in (1, 2):
        raise Unsupported(f"LpNormalization with p={p}")
    norm = tf.reduce_sum(tf.abs(x), axis, keepdims=True) if p == 1 else tf.norm(x, axis=axis, keepdims=True)
    # ONNX keeps a vector of zeros unchanged. DivNoNan would do so, but with five dims, one of them dynamic, the
    # TensorFlow Lite file does not load.
    return x / (norm + tf.cast(tf.equal(norm, 0), x.dtype))


@channels_last("LRN")
@halves_in_float32
def local_response_normalization(t, x, *, alpha, beta, bias, size):
    channels = t.shape(x)[-1]
    before, after = channel_window(size, channels)
    square = tf.pad(tf.square(x), [[0, 0]] * (t.rank(x) - 1) + [[before, after]])
    total = tf.add_n([square[..., i : i + channels] for i in range(before + 1 + after)])
    base = tf.constant(bias, x.dtype) + tf.constant(alpha / size, x.dtype) * total
    return x / tf.pow(base, tf.constant(beta, x.dtype))
