"""Casts between dtypes."""

from __future__ import annotations

import onnx_ir as ir
import tensorflow as tf

from convert.errors import Unsupported

from ..constants import tf_dtype
from ..emit import Value
from ..rules import onnx_op
from .low_precision import NARROW, narrow_dtype, widen_dtype


def convert_dtype(x: Value, dtype: tf.DType, saturate: int = 1, round_mode: str = "up") -> tf.Tensor:
    """Return `x` in `dtype`, by ONNX's rules for numbers that do not fit."""
    if x.dtype == dtype:
        return tf.convert_to_tensor(x)
    if x.dtype == tf.string:
        kinds = (tf.float64, tf.int32, tf.int64)
        parsed = dtype if dtype in kinds else tf.int64 if dtype.is_integer else tf.float32
        return tf.cast(tf.strings.to_number(x, parsed), dtype)
    if x.dtype.name in NARROW:
        x = widen_dtype(x)
    if dtype == tf.string:
        return format_numbers(x)
    if dtype.name in NARROW:
        return narrow_dtype(x, dtype, bool(saturate))
    if dtype == tf.bool:
        return tf.not_equal(x, tf.zeros([], x.dtype))
    if x.dtype.is_floating and dtype in _WRAPPING:
        x = tf.cast(x, _WRAPPING[dtype])
    return tf.cast(x, dtype)


# TensorFlow's kernels saturate for large tensors but wrap around for small ones, as PyTorch and onnxruntime do.
# TensorFlow Lite always saturates.
_WRAPPING = {tf.uint8: tf.int32, tf.int8: tf.int32, tf.uint16: tf.int32, tf.int16: tf.int32, tf.uint32: tf.int64}


def format_numbers(x: Value) -> tf.Tensor:
    """Return numbers as text in onnxruntime's format: 8 significant digits, for float64 too."""
    x = tf.convert_to_tensor(x)
    if not x.dtype.is_floating:
        return tf.strings.as_string(tf.cast(x, tf.int32) if x.dtype == tf.bool else x)
    x = tf.cast(x, tf.float32) if x.dtype.size < 4 else x
    text = tf.strings.as_string(x, precision=8, shortest=True)
    text = tf.where(tf.math.is_nan(x), "NaN", text)
    return tf.where(tf.math.is_inf(x), tf.where(x > 0, "INF", "-INF"), text)


@onnx_op("Cast")
def cast(t, x, *, to, saturate, round_mode="up"):
    return convert_dtype(x, tf_dtype(ir.DataType(to)), saturate, round_mode)


@onnx_op("CastLike")
def cast_like(t, x, like, *, saturate, round_mode="up"):
    return convert_dtype(x, like.dtype, saturate, round_mode)


@onnx_op("Constant")
def constant(t, *, sparse_value, value, value_float, value_floats, value_int, value_ints, value_string, value_strings):
    if sparse_value is not None:
        raise Unsupported("a sparse constant")
    if value is not None:
        return t.store.known(value)
    for content, dtype in (
        (value_float, ir.DataType.FLOAT),
        (value_floats, ir.DataType.FLOAT),
        (value_int, ir.DataType.INT64),
        (value_ints, ir.DataType.INT64),
        (value_string, ir.DataType.STRING),
        (value_strings, ir.DataType.STRING),
    ):
        if content is not None:
            return t.store.known(ir.tensor(content, dtype=dtype))
    raise Unsupported("a constant without a value")


@onnx_op("BitCast")
def bit_cast(t, x, *, to):
    dtype = tf_dtype(ir.DataType(to))
    if x.dtype == tf.bool:
        x = tf.cast(x, tf.uint8)
    if dtype == tf.bool:
        return tf.not_equal(tf.bitcast(x, tf.uint8), 0)
    return tf.bitcast(x, dtype)
