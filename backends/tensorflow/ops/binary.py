"""Element-wise operators of two or more tensors, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np
import tensorflow as tf

from convert.graph.rounding import is_inexact_divisor, is_rounded
from convert.graph.values import known_dims, multiples_among_inputs

from ..emit import Emitter, Value, fusion_barrier
from ..rules import LITE, onnx_op


def binary_rule(name: str) -> Callable[..., tf.Tensor]:
    """Return the rule that calls `tf.<name>` on two inputs."""
    function: Any = tf
    for part in name.split("."):
        function = getattr(function, part)

    def rule(t: Any, a: Any, b: Any) -> tf.Tensor:
        return function(a, b)

    return rule


onnx_op.same(
    binary_rule,
    And="logical_and",
    BitwiseAnd="bitwise.bitwise_and",
    BitwiseOr="bitwise.bitwise_or",
    BitwiseXor="bitwise.bitwise_xor",
    Equal="equal",
    Greater="greater",
    GreaterOrEqual="greater_equal",
    Less="less",
    LessOrEqual="less_equal",
    Mul="math.multiply",
    Or="logical_or",
    Xor="math.logical_xor",
)


@onnx_op("Sub")
def sub(t, a, b):
    """Sub-14. uint8 and uint16 use a sum that wraps around: TensorFlow rewrites 0 - x as Neg, which lacks these
    dtypes.
    """
    if a.dtype in (tf.uint8, tf.uint16):
        return tf.add(a, tf.multiply(b, tf.constant(a.dtype.max, a.dtype)))
    # TensorFlow's optimizer rewrites a difference from a negative as a sum.
    return tf.math.subtract(*_no_bias(t, a, b))


@onnx_op("Add")
def add(t, a, b):
    a, b = _no_bias(t, a, b)
    for y, bias in ((a, b), (b, a)):
        rows = _product_before(y, bias)
        if rows is not None:
            total = tf.reshape(tf.nn.bias_add(rows, tf.convert_to_tensor(bias)), y.op.inputs[1])
            total.set_shape(y.shape)
            return total
    # TensorFlow treats a row added to a matrix product as its bias, and then rejects any rank but one.
    row = as_row(a, b)
    return tf.add(row, as_row(b, a) if row is a else b)


def _no_bias(t: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    """Return both terms of a sum or difference in a form that TensorFlow does not mistake for a bias."""
    b = as_scalar(b, a)
    a = as_scalar(a, b)
    a, b = _behind_bias(a, b), _behind_bias(b, a)
    a, b = _of_as_many_dims(a, b), _of_as_many_dims(b, a)
    if _is_scaled_product(a) and _may_repeat(t, a, b, 0):
        return fusion_barrier(a), b
    if _is_scaled_product(b) and _may_repeat(t, b, a, 1):
        return a, fusion_barrier(b)
    return a, b


def as_scalar(x: Value, other: Value) -> Value:
    """Return a tensor of shape [1, …] as a scalar if the other operand has at least as many dims.

    TensorFlow's optimizer swaps a constant added after a bias with that bias. A bias of one element then serves many
    channels: either the memory after it is added, or the graph does not run (TensorFlow 2.21).
    """
    rank, other_rank = x.shape.rank, other.shape.rank
    if not rank or other_rank is None or rank > other_rank or x.shape.num_elements() != 1:
        return x
    return tf.reshape(x, [])


def _behind_bias(x: Value, other: Value) -> Value:
    """Return x separated from its bias if TensorFlow would mistake `other` for a bias.

    That is the case if x is a sum with a bias, and only one dim of `other`, not the last, is longer than 1. TensorFlow
    would then swap the constant with the bias (see `as_scalar`, TensorFlow 2.21).
    """
    if not isinstance(x, tf.Tensor) or x.op.type != "BiasAdd" or other.shape.rank is None:
        return x
    long = [axis for axis, n in enumerate(other.shape) if n != 1]
    return fusion_barrier(x) if len(long) == 1 and long[0] != other.shape.rank - 1 else x


def _is_scaled_product(x: Value) -> bool:
    """Return whether x is a batched four-dimensional product times a number; oneDNN fuses an addition with such a
    product.
    """
    if not isinstance(x, tf.Tensor) or x.shape.rank != 4 or x.op.type not in ("Mul", "RealDiv"):
        return False
    kinds = [y.op.type.startswith("BatchMatMul") for y in x.op.inputs]
    return any(kinds) and any(
        y.shape.num_elements() == 1 for y, kind in zip(x.op.inputs, kinds, strict=True) if not kind
    )


def _may_repeat(t: Emitter, x: Value, other: Value, place: int) -> bool:
    """Return whether the sum of x and `other` may have a longer dim than x, where x is the node's input at index
    `place`.

    If the second dim of `other` is 1, oneDNN's fused product keeps the dims of x (TensorFlow 2.21).
    """
    if other.shape.rank != 4 or other.shape[1] not in (1, None):
        return False
    if all(b == 1 or (a is not None and a != 1) for a, b in zip(x.shape, other.shape, strict=True)):
        return False
    value = t.node.inputs[place] if t.node is not None and len(t.node.inputs) == 2 else None
    if t.node is None or value is None:
        return True
    dims = known_dims(value)
    return dims is None or None in dims or dims != known_dims(t.node.outputs[0])


def _of_as_many_dims(x: Value, other: Value) -> Value:
    """Return a matrix with leading dims of 1 if the other operand has more dims.

    oneDNN treats a term added to a matrix product as its bias, and then the result is a matrix (TensorFlow 2.21).
    """
    rank = other.shape.rank
    if isinstance(x, tf.Tensor) and x.shape.rank == 2 and rank is not None:
        for _ in range(rank - 2):
            x = tf.expand_dims(x, 0)
    return x


def _product_before(y: Value, bias: Value) -> tf.Tensor | None:
    """Return the matrix product that was reshaped to `y`, if `bias` can be added to each of its rows instead; else
    None.

    TensorFlow fuses a bias with a product, but does not find a product before a reshape.
    """
    if not isinstance(y, tf.Tensor) or not y.dtype.is_floating or bias.shape.rank != 1 or bias.shape[0] is None:
        return None
    if y.op.type != "Reshape" or y.op.inputs[0].op.type != "MatMul" or y.shape.rank is None or y.shape.rank < 3:
        return None
    rows = y.op.inputs[0]
    if not (rows.op.inputs[0].shape[-1] or rows.op.inputs[1].shape[-2]):
        return None  # oneDNN's fused product crashes the process for a sum of no elements
    return rows if y.shape[-1] == rows.shape[-1] == bias.shape[0] else None


def as_row(x: Value, other: Value) -> Value:
    """Return [1, N] as [N] if the other operand is a matrix."""
    dims = x.shape.as_list() if x.shape.rank == 2 else []
    return tf.reshape(x, [-1]) if dims and dims[0] == 1 and dims[1] is not None and other.shape.rank == 2 else x


@onnx_op("Div")
def div(t, a, b):
    if a.dtype.is_integer:
        return tf.truncatediv(a, b)
    if t.node is not None and is_inexact_divisor(t.static(b)) and is_rounded(t.node.outputs[0]):
        return exact_quotient(t, a, b)
    return tf.divide(a, b)


def exact_quotient(t: Emitter, a: Value, b: Value) -> tf.Tensor:
    """Return a / b for b ≠ 0, rounded once, even if b is constant.

    TensorFlow's optimizer turns a Div by a constant into a product with the rounded reciprocal. The converter to
    TensorFlow Lite does so for every division operator; there, the divisor is made to look computed.
    """
    if t.node is not None and t.node.domain == LITE:
        return tf.divide(a, tf.maximum(b, tf.minimum(a, b)))
    return tf.math.divide_no_nan(a, b)


@onnx_op("Mod")
def mod(t, a, b, *, fmod):
    remainder = tf.truncatemod if fmod else tf.math.floormod
    if a.dtype in (tf.int32, tf.int64, tf.float32, tf.float64):
        return remainder(a, b)
    # The remainder is exact in the wider dtype, and fits the narrow one.
    wide = tf.float32 if a.dtype.is_floating else tf.int64
    if a.dtype == tf.uint64:
        return tf.math.floormod(a, b)
    return tf.cast(remainder(tf.cast(a, wide), tf.cast(b, wide)), a.dtype)


@onnx_op("Pow")
def pow_(t, a, b):
    if a.dtype.is_integer and b.dtype.is_integer:
        known = t.static(b)
        natural = b.dtype.min == 0 or (known is not None and bool((known >= 0).all()))
        if a.dtype != b.dtype:
            return tf.cast(_integer_power(tf.cast(a, tf.int64), tf.cast(b, tf.int64), natural), a.dtype)
        return _integer_power(a, b, natural)
    if a.dtype == b.dtype or (a.dtype.is_floating and b.dtype.size <= a.dtype.size):
        y = tf.pow(a, tf.cast(b, a.dtype))
        return fusion_barrier(y) if _is_inverse_root(t.static(b)) else y
    return tf.cast(tf.pow(tf.cast(a, tf.float64), tf.cast(b, tf.float64)), a.dtype)


def _is_inverse_root(exponent: np.ndarray | None) -> bool:
    """Return whether TensorFlow's optimizer rewrites a power as Rsqrt.

    For a normalization with an Rsqrt, x · r + (b − mean · r), oneDNN's optimizer creates a layer with its own epsilon
    (TensorFlow 2.21).
    """
    return exponent is not None and exponent.size == 1 and bool((exponent == -0.5).all())


def _integer_power(a: tf.Tensor, b: tf.Tensor, natural: bool) -> tf.Tensor:
    """Return a to the power b. natural: no exponent is negative; tf.pow rejects negative ones.

    For a negative exponent, returns 1 / a ** −b without its fraction: ±1 if a is ±1, else 0.
    """
    if natural:
        return tf.pow(a, b)
    zero, one = (tf.constant(n, a.dtype) for n in (0, 1))
    sign = tf.where(tf.equal(tf.math.floormod(b, one + one), zero), one, a)
    inverse = tf.where(tf.equal(tf.abs(a), one), sign, zero)
    return tf.where(tf.less(b, zero), inverse, tf.pow(a, tf.maximum(b, zero)))


@onnx_op("BitShift")
def bit_shift(t, a, b, *, direction):
    bits = tf.constant(a.dtype.size * 8, a.dtype)
    zero = tf.zeros([], a.dtype)
    # TensorFlow leaves shifts by the width or more undefined. A negative shift is treated like one of these.
    within = tf.less(b, bits) & tf.greater_equal(b, zero)
    amount = tf.where(within, b, zero)
    if direction == "LEFT":
        return tf.where(within, tf.bitwise.left_shift(a, amount), zero)
    beyond = tf.where(tf.less(a, zero), zero - 1, zero) if a.dtype.min < 0 else zero
    return tf.where(within, tf.bitwise.right_shift(a, amount), beyond)


@onnx_op("Max")
def max_(t, *inputs):
    # oneDNN's optimizer makes a LeakyRelu of max(x, c·x), whatever the factor c (TensorFlow 2.21).
    multiples = multiples_among_inputs(t.node)
    first, *others = [fusion_barrier(x) if i in multiples else x for i, x in enumerate(inputs)]
    return reduce(tf.maximum, others, tf.convert_to_tensor(first))


@onnx_op("Min")
def min_(t, *inputs):
    return reduce(tf.minimum, inputs[1:], tf.convert_to_tensor(inputs[0]))


@onnx_op("Sum")
def sum_(t, *inputs):
    return reduce(partial(add, t), inputs[1:], tf.convert_to_tensor(inputs[0]))


@onnx_op("Mean")
def mean(t, *inputs):
    return sum_(t, *inputs) / tf.constant(len(inputs), inputs[0].dtype)


@onnx_op("Where")
def where(t, condition, a, b):
    return tf.where(condition, a, b)
