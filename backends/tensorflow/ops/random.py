"""Random numbers of the requested distribution; they differ from those of other runtimes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import tensorflow as tf

from ..constants import tf_dtype
from ..emit import Value
from ..rules import onnx_op


def integer_seed(seed: float | None) -> int | None:
    """Return ONNX's float seed as TensorFlow's integer seed."""
    return None if seed is None else int(seed)


def random_normal_numbers(
    shape: Sequence[int] | tf.Tensor, dtype: tf.DType, mean: float, scale: float, seed: float | None
) -> tf.Tensor:
    """Return normally distributed numbers."""
    wide = dtype if dtype in (tf.float16, tf.float32, tf.float64, tf.bfloat16) else tf.float32
    return tf.cast(tf.random.normal(shape, mean, scale, wide, integer_seed(seed)), dtype)


def random_uniform_numbers(
    shape: Sequence[int] | tf.Tensor, dtype: tf.DType, low: float, high: float, seed: float | None
) -> tf.Tensor:
    """Return uniformly distributed numbers."""
    wide = dtype if dtype in (tf.float16, tf.float32, tf.float64, tf.bfloat16) else tf.float32
    return tf.cast(tf.random.uniform(shape, low, high, wide, integer_seed(seed)), dtype)


def output_dtype(dtype: int | None, like: Value = None) -> tf.DType:
    """Return the requested dtype, else the input's, else float32."""
    if dtype is not None:
        return tf_dtype(ir.DataType(dtype))
    return tf.float32 if like is None else like.dtype


@onnx_op("RandomNormal")
def random_normal(t, *, dtype, mean, scale, seed, shape):
    return random_normal_numbers(shape, output_dtype(dtype), mean, scale, seed)


@onnx_op("RandomNormalLike")
def random_normal_like(t, x, *, dtype, mean, scale, seed):
    return random_normal_numbers(t.dims(x), output_dtype(dtype, x), mean, scale, seed)


@onnx_op("RandomUniform")
def random_uniform(t, *, dtype, high, low, seed, shape):
    return random_uniform_numbers(shape, output_dtype(dtype), low, high, seed)


@onnx_op("RandomUniformLike")
def random_uniform_like(t, x, *, dtype, high, low, seed):
    return random_uniform_numbers(t.dims(x), output_dtype(dtype, x), low, high, seed)


@onnx_op("Bernoulli")
def bernoulli(t, x, *, dtype, seed):
    drawn = tf.random.uniform(t.dims(x), 0, 1, tf.float32, integer_seed(seed))
    return tf.cast(drawn < tf.cast(x, tf.float32), output_dtype(dtype, x))


@onnx_op("Multinomial")
def multinomial(t, x, *, dtype, sample_size, seed):
    kind = output_dtype(dtype) if dtype is not None else tf.int32
    return tf.cast(tf.random.categorical(tf.cast(x, tf.float32), sample_size, tf.int64, integer_seed(seed)), kind)


@onnx_op("Dropout")
def dropout(t, x, ratio, training_mode, *, seed):
    kept = tf.ones_like(x, tf.bool) if t.outputs > 1 else None
    training = None if training_mode is None else t.static(training_mode)
    if training_mode is None or (training is not None and not training.any()):
        return tf.identity(x), kept
    rate = tf.constant(0.5, x.dtype) if ratio is None else tf.cast(tf.reshape(ratio, []), x.dtype)
    mode = tf.reshape(training_mode, [])
    drawn = tf.random.uniform(t.dims(x), 0, 1, tf.float32, integer_seed(seed)) >= tf.cast(rate, tf.float32)
    mask = drawn | ~mode
    factor = tf.where(mode, tf.ones([], x.dtype) / (1 - rate), tf.ones([], x.dtype))
    return tf.where(mask, tf.multiply(x, factor), tf.zeros([], x.dtype)), mask if t.outputs > 1 else None
