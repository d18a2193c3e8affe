"""Element-wise operators of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ..constants import Constant
from ..rules import onnx_op
from ..sequence_values import is_nested

UNSIGNED = (tf.uint8, tf.uint16, tf.uint32, tf.uint64)


def unary_rule(name: str) -> Callable[..., tf.Tensor]:
    """Return the rule that calls `tf.<name>` on one input."""
    function: Any = tf
    for part in name.split("."):
        function = getattr(function, part)

    def rule(t: Any, x: Any) -> tf.Tensor:
        return function(x)

    return rule


onnx_op.same(
    unary_rule,
    Acos="math.acos",
    Acosh="math.acosh",
    Asin="math.asin",
    Asinh="math.asinh",
    Atan="math.atan",
    Atanh="math.atanh",
    BitwiseNot="bitwise.invert",
    Ceil="math.ceil",
    Cos="math.cos",
    Cosh="math.cosh",
    Exp="math.exp",
    Floor="math.floor",
    IsNaN="math.is_nan",
    Log="math.log",
    Neg="math.negative",
    Reciprocal="math.reciprocal",
    Round="math.round",
    Sigmoid="math.sigmoid",
    Sin="math.sin",
    Sinh="math.sinh",
    Softsign="nn.softsign",
    Sqrt="math.sqrt",
    Tan="math.tan",
    Tanh="math.tanh",
)


@onnx_op("Identity")
def identity(t, x):
    return x if is_nested(x) or isinstance(x, Constant) else tf.identity(x)


_COMPARISONS = ("Less", "LessEqual", "Greater", "GreaterEqual")
_VIEWS = ("Identity", "Reshape", "ExpandDims", "Squeeze", "Transpose")


@onnx_op("Not")
def not_(t, x):
    """Not-1. After a comparison it is `x == False`, because TensorFlow and TensorFlow Lite rewrite ¬(a < b) to a ≥ b,
    which is False for NaN.
    """
    return tf.equal(x, False) if _is_comparison(tf.convert_to_tensor(x)) else tf.logical_not(x)


def _is_comparison(x: tf.Tensor) -> bool:
    """Return whether x is the result of comparing floats."""
    op = x.op if tf.is_symbolic_tensor(x) else None
    while op is not None and op.type in _VIEWS:
        op = op.inputs[0].op
    return op is not None and op.type in _COMPARISONS and op.inputs[0].dtype.is_floating


@onnx_op("Abs")
def abs_(t, x):
    return tf.convert_to_tensor(x) if x.dtype in UNSIGNED else tf.abs(x)


@onnx_op("Sign")
def sign(t, x):
    if x.dtype in UNSIGNED:
        return tf.cast(tf.not_equal(x, tf.zeros([], x.dtype)), x.dtype)
    if x.dtype in (tf.int8, tf.int16):
        return tf.cast(tf.sign(tf.cast(x, tf.int32)), x.dtype)
    return tf.sign(x)


@onnx_op("Erf")
def erf(t, x):
    if x.dtype.is_floating:
        return tf.math.erf(x)
    return tf.cast(tf.math.erf(tf.cast(x, tf.float64)), x.dtype)


@onnx_op("IsInf")
def is_inf(t, x, *, detect_negative, detect_positive):
    if not detect_negative and not detect_positive:
        return tf.zeros_like(x, tf.bool)
    found = tf.math.is_inf(x)
    if not detect_negative:
        return found & (x > tf.zeros([], x.dtype))
    if not detect_positive:
        return found & (x < tf.zeros([], x.dtype))
    return found
