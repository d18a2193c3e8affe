"""Changes of dtype."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from convert.errors import Unsupported

from ..constants import tf_dtype
from ..rules import onnx

# TensorFlow stores these, but has no kernels that make them by ONNX's rules for saturation.
NARROW = (
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float4_e2m1fn",
    "int4",
    "uint4",
    "int2",
    "uint2",
)


def converted(x, dtype, saturate=1, round_mode="up"):
    """`x` in `dtype`, by ONNX's rules for numbers that do not fit."""
    if x.dtype == dtype:
        return tf.convert_to_tensor(x)
    if dtype == tf.string:
        raise Unsupported("Cast to string")
    if x.dtype == tf.string:
        parsed = dtype if dtype in (tf.float32, tf.float64, tf.int32, tf.int64) else tf.float32
        return tf.cast(tf.strings.to_number(x, parsed), dtype)
    if dtype.name in NARROW:
        raise Unsupported(f"Cast to {dtype.name}")
    if x.dtype.name in NARROW:
        x = widened(x)
    if dtype == tf.bool:
        return tf.not_equal(x, tf.zeros([], x.dtype))
    return tf.cast(x, dtype)


def widened(x):
    """A narrow number in a dtype that TensorFlow computes with, exactly."""
    if x.dtype.name in ("int4", "uint4"):
        return tf.cast(x, tf.int8 if x.dtype.name == "int4" else tf.uint8)
    if x.dtype.size == 1 and x.dtype.name.startswith("float8"):
        values = np.arange(256, dtype=np.uint8).view(x.dtype.as_numpy_dtype).astype(np.float32)
        return tf.gather(tf.constant(values), tf.cast(tf.bitcast(x, tf.uint8), tf.int32))
    raise Unsupported(f"Cast from {x.dtype.name}, for which TensorFlow has no kernel")


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
