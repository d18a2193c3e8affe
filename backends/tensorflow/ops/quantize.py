"""Quantized operators, computed exactly in wider integers."""

from __future__ import annotations

import onnx_ir as ir
import tensorflow as tf

from convert.errors import Unsupported
from convert.graph.rounding import is_inexact_divisor

from ..constants import tf_dtype
from ..emit import Emitter, Value
from ..rules import LITE, onnx_op
from .binary import exact_quotient
from .cast import convert_dtype
from .low_precision import NARROW_FLOATS, NARROW_INTS
from .sums import is_half

_BOUNDS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535), **NARROW_INTS}


def broadcast_parameter(t: Emitter, x: Value, parameter: Value, axis: int, block_size: int) -> tf.Tensor:
    """Return a scale or zero point that broadcasts against `x`: per tensor, per index of `axis`, or per block."""
    rank = t.rank(x)
    if t.rank(parameter) == 0 or (t.rank(parameter) == 1 and parameter.shape[0] == 1 and rank != 1):
        return tf.reshape(parameter, [])
    if block_size:
        repeated = tf.repeat(parameter, block_size, axis)
        size = t.shape(x)[axis]
        return repeated[(slice(None),) * (axis % rank) + (slice(0, size),)]
    return tf.reshape(parameter, [-1 if i == axis % rank else 1 for i in range(rank)])


@onnx_op("QuantizeLinear", f"{LITE}::QuantizeLinear")
def quantize_linear(t, x, scale, zero, *, axis, block_size, output_dtype, precision, saturate):
    dtype = zero.dtype if zero is not None else tf_dtype(ir.DataType(output_dtype)) if output_dtype else tf.uint8
    wide = tf_dtype(ir.DataType(precision)) if precision else scale.dtype
    inexact = is_inexact_divisor(t.static(scale))
    scale = broadcast_parameter(t, x, tf.cast(scale, wide), axis, block_size)
    steps = exact_quotient(t, tf.cast(x, wide), scale) if inexact else tf.divide(tf.cast(x, wide), scale)
    if dtype.name in NARROW_FLOATS:
        if zero is not None:
            steps = steps + tf.cast(
                broadcast_parameter(t, x, convert_dtype(zero, tf.float32), axis, block_size), steps.dtype
            )
        return convert_dtype(steps, dtype, saturate)
    if dtype.name not in _BOUNDS:
        raise Unsupported(f"QuantizeLinear to {dtype.name}")
    low, high = _BOUNDS[dtype.name]
    steps = tf.round(steps)
    if zero is not None:
        steps = steps + tf.cast(broadcast_parameter(t, x, convert_dtype(zero, tf.int32), axis, block_size), steps.dtype)
    return convert_dtype(tf.clip_by_value(steps, tf.cast(low, steps.dtype), tf.cast(high, steps.dtype)), dtype)


@onnx_op("DequantizeLinear")
def dequantize_linear(t, x, scale, zero, *, axis, block_size, output_dtype):
    dtype = tf_dtype(ir.DataType(output_dtype)) if output_dtype else scale.dtype
    wide = tf.int32 if x.dtype.is_integer else tf.float32
    steps = convert_dtype(x, wide)
    if zero is not None:
        steps = steps - broadcast_parameter(t, x, convert_dtype(zero, wide), axis, block_size)
    factor = broadcast_parameter(t, x, tf.cast(scale, tf.float32) if is_half(scale) else scale, axis, block_size)
    return tf.cast(tf.cast(steps, factor.dtype) * factor, dtype)
