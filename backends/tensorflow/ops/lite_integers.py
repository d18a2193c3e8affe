"""Integer arithmetic for TensorFlow Lite, which divides in 32 bits only and lacks operators for some dtypes."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from convert.graph.rounding import is_inexact_divisor, is_rounded

from ..emit import Emitter, Value
from ..rules import LITE, onnx_op
from .binary import exact_quotient, mod
from .lite import divide_floats
from .unary import abs_, sign

_NARROW = (tf.int8, tf.int16, tf.uint8, tf.uint16)


@onnx_op(f"{LITE}::Div")
def divide(t, a, b):
    if a.dtype in _NARROW:
        return tf.cast(_quotient(t, tf.cast(a, tf.int32), tf.cast(b, tf.int32)), a.dtype)
    if a.dtype in (tf.int32, tf.int64):
        return _quotient(t, a, b)
    if is_inexact_divisor(t.static(b)) and is_rounded(t.node.outputs[0]):
        return exact_quotient(t, a, b)
    return divide_floats(a, b)


@onnx_op(f"{LITE}::Mod")
def remainder(t, a, b, *, fmod):
    if a.dtype == tf.float32:
        # The built-in result has the sign of b. If a and b have the same sign, it equals the remainder of C.
        rest = tf.math.floormod(tf.abs(a), tf.abs(b))
        return tf.where(tf.less(a, 0.0), -rest, rest)
    if a.dtype in (tf.int32, tf.int64, *_NARROW) and fmod:
        wide = tf.int32 if a.dtype in _NARROW else a.dtype
        return tf.cast(_remainder(t, tf.cast(a, wide), tf.cast(b, wide)), a.dtype)
    return mod(t, a, b, fmod=fmod)


@onnx_op(f"{LITE}::Abs")
def absolute(t, x):
    if x.dtype == tf.int64:
        return tf.maximum(x, tf.negative(x))
    return tf.cast(tf.abs(tf.cast(x, tf.int32)), x.dtype) if x.dtype in (tf.int8, tf.int16) else abs_(t, x)


@onnx_op(f"{LITE}::Sign")
def sign_of_integers(t, x):
    if x.dtype == tf.int64:
        zero = tf.zeros([], x.dtype)
        return tf.cast(tf.greater(x, zero), x.dtype) - tf.cast(tf.less(x, zero), x.dtype)
    return sign(t, x)


def comparison_rule(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Return the rule of a comparison. TensorFlow Lite reads narrow integers as quantized numbers, and its kernels
    refuse those without a scale or, for EQUAL of uint8, end the process (TensorFlow 2.21).
    """

    def rule(t: Emitter, a: Value, b: Value) -> tf.Tensor:
        wide = {tf.uint32: tf.int64} | dict.fromkeys(_NARROW, tf.int32)
        return function(*(tf.cast(x, wide.get(x.dtype, x.dtype)) for x in (a, b)))

    return rule


for _name, _function in {
    "Equal": tf.equal, "Greater": tf.greater, "GreaterOrEqual": tf.greater_equal, "Less": tf.less,
    "LessOrEqual": tf.less_equal,
}.items():  # fmt: skip
    onnx_op(f"{LITE}::{_name}")(comparison_rule(_function))


def _remainder(t: Emitter, a: Value, b: Value) -> tf.Tensor:
    """Return a - b·trunc(a / b) for int32 or int64; it has the sign of a."""
    one, zero = tf.ones([], a.dtype), tf.zeros([], a.dtype)
    # The processor cannot divide the least number by -1; the remainder is 0.
    rest = tf.math.floormod(a, b if _is_never_minus_one(t, b) else tf.where(tf.equal(b, -one), one, b))
    other = tf.not_equal(rest, zero) & tf.not_equal(tf.less(a, zero), tf.less(b, zero))
    return tf.where(other, rest - b, rest)


def _quotient(t: Emitter, a: Value, b: Value) -> tf.Tensor:
    """Return trunc(a / b) for int32 or int64. In 64 bits, the built-in remainder is subtracted from a first, so that b
    divides a.

    A quotient in float32 has a relative error of at most 2⁻²², so the remaining difference shrinks from 63 bits to 41,
    to 19, to 0. If a step went too far, it is corrected modulo 2⁶⁴.
    """
    if a.dtype == tf.int32:
        if _is_never_minus_one(t, b):
            return tf.raw_ops.Div(x=a, y=b)
        opposite = tf.equal(b, -1)
        return tf.where(opposite, tf.negative(a), tf.raw_ops.Div(x=a, y=tf.where(opposite, tf.ones([], a.dtype), b)))
    left = tf.subtract(a, _remainder(t, a, b))
    divisor, found = tf.cast(b, tf.float32), None
    for _ in range(3):
        part = tf.cast(tf.round(tf.divide(tf.cast(left, tf.float32), divisor)), a.dtype)
        found = part if found is None else found + part
        left = left - part * b
    return found


def _is_never_minus_one(t: Emitter, b: Value) -> bool:
    known = t.ints(b)
    return known is not None and -1 not in known
