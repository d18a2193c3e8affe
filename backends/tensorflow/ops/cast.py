"""Changes of dtype."""

from __future__ import annotations

import onnx_ir as ir
import tensorflow as tf

from convert.errors import Unsupported

from ..constants import tf_dtype
from ..rules import onnx
from .narrow import NARROW, narrowed, widened


def converted(x, dtype, saturate=1, round_mode="up"):
    """`x` in `dtype`, by ONNX's rules for numbers that do not fit."""
    if x.dtype == dtype:
        return tf.convert_to_tensor(x)
    if dtype == tf.string:
        raise Unsupported("Cast to string")
    if x.dtype == tf.string:
        parsed = dtype if dtype in (tf.float32, tf.float64, tf.int32, tf.int64) else tf.float32
        return tf.cast(tf.strings.to_number(x, parsed), dtype)
    if x.dtype.name in NARROW:
        x = widened(x)
    if dtype.name in NARROW:
        return narrowed(x, dtype, bool(saturate))
    if dtype == tf.bool:
        return tf.not_equal(x, tf.zeros([], x.dtype))
    return tf.cast(x, dtype)


@onnx("Cast")
def cast(t, x, *, to, saturate, round_mode="up"):
    return converted(x, tf_dtype(ir.DataType(to)), saturate, round_mode)


@onnx("CastLike")
def cast_like(t, x, like, *, saturate, round_mode="up"):
    return converted(x, like.dtype, saturate, round_mode)


@onnx("Constant")
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


@onnx("BitCast")
def bit_cast(t, x, *, to):
    kind = tf_dtype(ir.DataType(to))
    if x.dtype == tf.bool:
        x = tf.cast(x, tf.uint8)
    if kind == tf.bool:
        return tf.not_equal(tf.bitcast(x, tf.uint8), 0)
    return tf.bitcast(x, kind)
