"""Operators that TensorFlow Lite has no built-in for, composed of built-ins, accurate to float32."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from convert.graph.long_double import PI, wide
from convert.graph.long_double import erf as erf_of_long_double

from ..rules import LITE, onnx_op
from .activation import scalar_like
from .binary import pow_
from .pool import pool_windows
from .windows import pad_spatial, spatial_shape, windows


@onnx_op(f"{LITE}::MaxPool")
def max_pool(t, x, *, auto_pad, dilations, kernel_shape, pads, storage_order, strides):
    """Max pool of 8-bit activations, channels-last, without a pad of −∞, which would stretch their range.

    Every window holds an element of x, so a pad that is no larger than any element gives the same result.
    """
    window = windows(t, x, kernel_shape, strides, dilations, pads, auto_pad)
    producer = t.node.inputs[0].producer()
    lowest = 0.0 if producer is not None and producer.op_type == "Relu" else tf.reduce_min(x)
    counts = window.counts(spatial_shape(t, x))
    return pool_windows(pad_spatial(x, window.before, window.after, lowest), "MAX", window, counts)


@onnx_op(f"{LITE}::HardSwish")
def hard_swish(t, x):
    """x·min(max(x + 3, 0), 6)/6, which the converter writes as one HARD_SWISH.

    Any other order becomes four operators, and in 8 bits its gate, up to 1, gets the wider step of the product.
    """
    return tf.multiply(tf.multiply(x, tf.nn.relu6(x + scalar_like(x, 3))), scalar_like(x, 1 / 6))


@onnx_op(f"{LITE}::HardSigmoid")
def hard_sigmoid(t, x, *, alpha, beta):
    """max(0, min(1, αx + β)) as a sixth of RELU6, which is fused with a convolution.

    The converter writes the literal form as RELU_0_TO_1, which XNNPACK lacks.
    """
    wide = x if np.float32(6 * alpha) == 1 else tf.multiply(x, scalar_like(x, 6 * alpha))
    return tf.multiply(tf.nn.relu6(wide + scalar_like(x, 6 * beta)), scalar_like(x, 1 / 6))


@onnx_op(f"{LITE}::Tan")
def tan(t, x):
    return tf.sin(x) / tf.cos(x)


@onnx_op(f"{LITE}::Atan")
def atan(t, x):
    return tf.atan2(x, tf.ones_like(x))


@onnx_op(f"{LITE}::Asin")
def asin(t, x):
    return tf.atan2(x, _root_of_complement(x))


@onnx_op(f"{LITE}::Acos")
def acos(t, x):
    return tf.atan2(_root_of_complement(x), x)


def _root_of_complement(x: tf.Tensor) -> tf.Tensor:
    """Return √(1 − x²) without cancellation near ±1."""
    return tf.sqrt((1.0 - x) * (1.0 + x))


@onnx_op(f"{LITE}::Cosh")
def cosh(t, x):
    half = tf.exp(0.5 * tf.abs(x))  # exp(|x|) would overflow before the result does
    return 0.5 * half * half + 0.5 / half / half


@onnx_op(f"{LITE}::Sinh")
def sinh(t, x):
    half = tf.exp(0.5 * tf.abs(x))
    far = tf.sign(x) * (0.5 * half * half - 0.5 / half / half)
    near = tf.clip_by_value(x, -1.0, 1.0)
    series = [1 / math.factorial(2 * n + 1) for n in range(6)]
    return tf.where(tf.abs(x) < 1.0, near * _polynomial(near * near, series), far)


@onnx_op(f"{LITE}::Asinh")
def asinh(t, x):
    size = tf.abs(x)
    small = tf.minimum(size, _LARGE)
    rest = small + small * small / (1.0 + tf.sqrt(1.0 + small * small))
    return tf.sign(x) * tf.where(size < _LARGE, _log1p(rest), tf.math.log(size) + math.log(2))


@onnx_op(f"{LITE}::Acosh")
def acosh(t, x):
    rest = tf.minimum(x, _LARGE) - 1.0
    # Not the root of a product, which would be a number and not NaN for x < −1.
    near = _log1p(rest + tf.sqrt(rest) * tf.sqrt(rest + 2.0))
    return tf.where(x > _LARGE, tf.math.log(x) + math.log(2), near)


@onnx_op(f"{LITE}::Atanh")
def atanh(t, x):
    size = tf.abs(x)
    near = tf.minimum(size, 0.5)
    return tf.sign(x) * tf.where(size < 0.5, _atanh(near, 14), 0.5 * tf.math.log((1.0 + size) / (1.0 - size)))


_LARGE = 1e9
"""Above this, √(x² ± 1) equals |x| in float32."""


def _log1p(x: tf.Tensor) -> tf.Tensor:
    """Return log(1 + x) = 2 atanh(x / (2 + x)) for x ≥ 0. The converter simplifies (1 + x) − 1 to x."""
    near = tf.minimum(x, 1.0)
    return tf.where(x < 1.0, 2.0 * _atanh(near / (2.0 + near), 9), tf.math.log(1.0 + x))


def _atanh(x: tf.Tensor, terms: int) -> tf.Tensor:
    """Return Σ x²ⁿ⁺¹ / (2n + 1)."""
    return x * _polynomial(x * x, [1 / (2 * n + 1) for n in range(terms)])


@onnx_op(f"{LITE}::Softplus")
def softplus(t, x):
    """Softplus as max(x, 0) + log(1 + e^−|x|). The literal form overflows at 88.4, the logarithm of the largest
    float.
    """
    part = tf.exp(-tf.abs(x))
    return tf.nn.relu(x) + 2.0 * _atanh(part / (2.0 + part), 8)


@onnx_op(f"{LITE}::Mish")
def mish(t, x):
    """x·tanh(log(1 + eˣ)), with the tanh as n / (n + 2) for n = eˣ(eˣ + 2), and 1 from 20 on."""
    power = tf.exp(tf.minimum(x, 20.0))
    share = power * (power + 2.0)
    return x * (share / (share + 2.0))


@onnx_op(f"{LITE}::Elu")
def elu(t, x, *, alpha):
    return tf.nn.elu(x) if alpha == 1 else tf.nn.relu(x) + alpha * _negative_exponential(x)


@onnx_op(f"{LITE}::Selu")
def selu(t, x, *, alpha, gamma):
    return gamma * elu(t, x, alpha=alpha)


@onnx_op(f"{LITE}::Celu")
def celu(t, x, *, alpha):
    return tf.nn.relu(x) + alpha * _negative_exponential(x / alpha)


def _negative_exponential(x: tf.Tensor) -> tf.Tensor:
    """Return exp(x) − 1 for negative x, 0 elsewhere.

    ELU keeps the digits of small x, while the converter would write Expm1 as exp(x) − 1.
    """
    return tf.nn.elu(tf.minimum(x, 0.0))


@onnx_op(f"{LITE}::Erf")
def erf(t, x):
    size = tf.abs(x)
    near, far = tf.minimum(size, 1.0), tf.clip_by_value(size, 1.0, _END)
    inner = near * _polynomial(near * near, _SERIES)
    place = (far - (1 + _END) / 2) * (2 / (_END - 1))
    outer = 1.0 - tf.exp(-far * far) * _polynomial(place, _erfc_coefficients())
    # Minimum and maximum ignore NaN here.
    return tf.where(tf.math.is_nan(x), x, tf.sign(x) * tf.where(size < 1.0, inner, outer))


# erf(x) = 2/√π Σ (−1)ⁿ x²ⁿ⁺¹ / (n! (2n + 1)); ten terms are exact to 1e-8 for |x| ≤ 1; beyond 4 it is 1.
_SERIES = [2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(11)]
_END = 4.0


@cache
def _erfc_coefficients() -> list[float]:
    """Return coefficients of exp(x²) erfc(x) for x from 1 to 4, mapped to −1 … 1: Chebyshev interpolation of degree 12.

    The coefficients are computed in long double, so that they are the same on every processor
    (`convert.graph.long_double`).
    """
    from numpy.polynomial import chebyshev

    count = 13
    angles = PI * (wide(np.arange(count)) + 0.5) / count
    x = (1 + _END) / 2 + np.cos(angles) * (_END - 1) / 2
    values = np.exp(x * x) * (1 - erf_of_long_double(x))
    rows = np.cos(wide(np.arange(count))[:, None] * angles) * values
    series = rows.sum(1) * 2 / count
    series[0] /= 2
    return [float(c) for c in chebyshev.cheb2poly(series)]


def _polynomial(x: tf.Tensor, coefficients: list[float]) -> tf.Tensor:
    """Evaluate a polynomial by Horner's scheme; coefficients start with the constant term."""
    y = tf.fill(tf.shape(x), tf.constant(coefficients[-1], x.dtype))
    for coefficient in reversed(coefficients[:-1]):
        y = y * x + coefficient
    return y


@onnx_op(f"{LITE}::Sub")
def subtract(t, a, b):
    return tf.add(tf.multiply(b, -1.0), a) if _is_moved(a, b) else tf.subtract(a, b)


@onnx_op(f"{LITE}::Neg")
def negative(t, x):
    # The converter would rewrite the sum of a constant and a negation as such a difference.
    return tf.multiply(x, -1.0) if isinstance(x, tf.Tensor) and _is_rearranged(x) else tf.negative(x)


def divide_floats(a: Any, b: Any) -> tf.Tensor:
    """Return a / b in a form that the converter does not rewrite."""
    return tf.divide(_not_constant(a, b), _not_inverse_root(b))


@onnx_op(f"{LITE}::Reciprocal")
def reciprocal(t, x):
    return divide_floats(tf.constant(1, x.dtype), x)


@onnx_op(f"{LITE}::Pow")
def power(t, a, b):
    """Pow for TensorFlow Lite. The converter turns a power of −0.5 into an inverse root too.

    LiteRT 2.3 rounds a single exponent for many numbers if it is within 1e-5 of an integer.
    """
    exponent = t.static(b)
    if a.dtype != b.dtype:
        return pow_(t, a, b)
    if exponent is None:
        return tf.pow(a, b + tf.zeros_like(a) if b.shape.num_elements() in (None, 1) else b)
    if exponent.ndim == 0 and exponent == -0.5:
        return divide_floats(tf.constant(1, a.dtype), tf.sqrt(a))
    off = float(np.abs(exponent - np.round(exponent)).max(initial=0))
    return tf.pow(a, tf.where(tf.not_equal(a, a), a, b) if exponent.size == 1 and 0 < off < 1e-4 else b)


def _not_inverse_root(x: Any) -> Any:
    """Return the absolute value of a divisor that is a root and may be 0.

    TensorFlow's converter turns a division by a root into a product with RSQRT, which gives NaN for 0 (LiteRT 2.3).
    """
    root = isinstance(x, tf.Tensor) and x.op.type == "Sqrt"
    return tf.abs(x) if root and not _is_positive(x.op.inputs[0]) else x


def _is_positive(x: tf.Tensor) -> bool:
    """Return whether x is a square, or a sum or mean of squares, plus a positive constant. Norms compute such a
    value.
    """
    if x.op.type not in ("AddV2", "Add"):
        return False
    for one, other in (x.op.inputs, reversed(x.op.inputs)):
        constant = tf.get_static_value(one)
        if constant is not None and (constant > 0).all():
            while other.op.type in ("Sum", "Mean", "Reshape", "Squeeze", "ExpandDims", "Transpose"):
                other = other.op.inputs[0]
            operands = list(other.op.inputs)
            twice = other.op.type == "Mul" and operands[0] is operands[1]
            squared = other.op.type == "Pow" and tf.get_static_value(operands[1]) == 2
            return bool(twice or squared) or other.op.type in ("Square", "SquaredDifference")
    return False


def _not_constant(a: Any, x: Any) -> Any:
    """Return the first operand of a difference or quotient; a constant is made to look computed if x was reshaped or
    transposed.

    TensorFlow's converter moves constants through reshapes and transposes, and swaps the operands: 0.3 - y becomes y -
    0.3, and 2 / y becomes y / 2. A convolution before it then folds the factor into its weights (TensorFlow 2.21). NaN
    is kept.
    """
    return tf.where(tf.not_equal(x, x), x, a) if _is_moved(a, x) else a


def _is_moved(a: Any, x: Any) -> bool:
    """Return whether TensorFlow's converter might swap these operands of a difference or quotient."""
    return isinstance(x, tf.Tensor) and tf.get_static_value(a) is not None and _is_rearranged(x)


def _is_rearranged(x: tf.Tensor) -> bool:
    """Return whether x depends on a reshape or transpose of a non-constant; True if the search takes too many
    operators.
    """
    waiting, seen = [x.op], set[str]()
    while waiting:
        op = waiting.pop()
        if op.name in seen or _is_of_constants(op):
            continue
        seen.add(op.name)
        if op.type in _MOVING or len(seen) > _MOST_OPERATORS:
            return True
        waiting += [i.op for i in op.inputs]
    return False


_MOVING, _MOST_OPERATORS, _DEEPEST = ("Reshape", "Transpose", "ExpandDims", "Squeeze"), 1000, 4


def _is_of_constants(op: tf.Operation, depth: int = _DEEPEST) -> bool:
    """Return whether an operator's result is constant, such as a reshaped bias."""
    return op.type == "Const" or (
        depth > 0 and bool(op.inputs) and all(_is_of_constants(i.op, depth - 1) for i in op.inputs)
    )
