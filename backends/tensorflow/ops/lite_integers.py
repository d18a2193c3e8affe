"""Arithmetic of integers for TensorFlow Lite, which divides in 32 bits only and lacks some operators of others."""

from __future__ import annotations

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
        # The built-in has the sign of b. Both of one sign, it is that of C.
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


def _remainder(t: Emitter, a: Value, b: Value) -> tf.Tensor:
    """a - b·trunc(a / b), of int32 or int64: it has the sign of a."""
    one, zero = tf.ones([], a.dtype), tf.zeros([], a.dtype)
    # The processor has no least number over -1, which leaves nothing.
    rest = tf.math.floormod(a, b if _is_never_minus_one(t, b) else tf.where(tf.equal(b, -one), one, b))
    other = tf.not_equal(rest, zero) & tf.not_equal(tf.less(a, zero), tf.less(b, zero))
    return tf.where(other, rest - b, rest)


def _quotient(t: Emitter, a: Value, b: Value) -> tf.Tensor:
    """trunc(a / b), of int32 or int64. In 64 bits the built-in remainder leaves a number that b divides.

    A quotient in float32 is off by 2⁻²² of itself at most, so what it leaves of 63 bits is 41, then 19, then none, and
    what is subtracted too much on the way is added again, modulo 2⁶⁴.
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
