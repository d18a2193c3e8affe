"""Element-wise activations and the softmax family."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from convert.errors import Unsupported

from ..emit import Emitter, fusion_barrier
from ..rules import LITE, onnx_op
from .reduce import kept_from_reordering
from .sums import halves_in_float32


def scalar_like(x: tf.Tensor, value: float) -> tf.Tensor:
    """Return `value` in the dtype of `x`."""
    return tf.constant(value, x.dtype)


@onnx_op("Relu")
def relu(t, x):
    return tf.maximum(x, scalar_like(x, 0)) if x.dtype.is_integer else tf.nn.relu(x)


@onnx_op("LeakyRelu")
def leaky_relu(t, x, *, alpha):
    return tf.nn.leaky_relu(_prevent_swish_fusion(t, x), alpha)


def _prevent_swish_fusion(t: Emitter, x: tf.Tensor) -> tf.Tensor:
    """Return x in a form that is not fused with a convolution, its bias and a Swish. oneDNN has no kernel with a fourth
    operator (TensorFlow 2.21).
    """
    maker = t.node.inputs[0].producer() if t.node is not None and t.node.inputs[0] is not None else None
    return fusion_barrier(x) if maker is not None and maker.op_type in ("Mul", "Swish") else x


@onnx_op("PRelu")
def prelu(t, x, slope):
    zero = scalar_like(x, 0)
    return tf.where(tf.less(x, zero), tf.multiply(x, slope), x)


@onnx_op("ThresholdedRelu")
def thresholded_relu(t, x, *, alpha):
    return tf.where(tf.greater(x, scalar_like(x, alpha)), x, scalar_like(x, 0))


@onnx_op("Shrink")
def shrink(t, x, *, bias, lambd):
    if x.dtype.is_integer:
        wide = tf.cast(x, tf.float64)
        return tf.cast(tf.cast(shrink(t, wide, bias=bias, lambd=lambd), tf.int64), x.dtype)
    high, low = tf.greater(x, scalar_like(x, lambd)), tf.less(x, scalar_like(x, -lambd))
    return tf.where(low, x + scalar_like(x, bias), tf.where(high, x - scalar_like(x, bias), scalar_like(x, 0)))


def negative_exponential(x: tf.Tensor) -> tf.Tensor:
    """Return exp(x) − 1 for negative x, 0 elsewhere; neither the value nor the gradient overflows."""
    return tf.math.expm1(tf.minimum(x, scalar_like(x, 0)))


@onnx_op("Elu")
def elu(t, x, *, alpha):
    if alpha == 1:
        return tf.nn.elu(x)
    return tf.nn.relu(x) + scalar_like(x, alpha) * negative_exponential(x)


@onnx_op("Selu")
def selu(t, x, *, alpha, gamma):
    return scalar_like(x, gamma) * elu(t, x, alpha=alpha)


@onnx_op("Celu")
def celu(t, x, *, alpha):
    return tf.nn.relu(x) + scalar_like(x, alpha) * negative_exponential(x / scalar_like(x, alpha))


@onnx_op("Gelu")
def gelu(t, x, *, approximate):
    if approximate not in ("none", "tanh"):
        raise Unsupported(f"Gelu has no approximation {approximate!r}")
    if x.dtype != tf.float64:
        return tf.nn.gelu(x, approximate=approximate == "tanh")
    # tf.nn.gelu holds its constants in float32, in all dtypes.
    if approximate == "tanh":
        inner = scalar_like(x, math.sqrt(2 / math.pi)) * (x + scalar_like(x, 0.044715) * x * x * x)
        return scalar_like(x, 0.5) * x * (scalar_like(x, 1) + tf.tanh(inner))
    return scalar_like(x, 0.5) * x * (scalar_like(x, 1) + tf.math.erf(x * scalar_like(x, math.sqrt(0.5))))


@onnx_op("Softplus")
def softplus(t, x):
    return tf.nn.softplus(x)


@onnx_op("Mish")
def mish(t, x):
    """x·tanh(log(1 + eˣ)), with the tanh as n / (n + 2) for n = eˣ(eˣ + 2), and 1 from 20 on (5 in float16).

    oneDNN replaces the literal form by its own kernel, which has an error of 1e-6 where the result is near 0.
    """
    power = tf.exp(tf.minimum(x, scalar_like(x, 5 if x.dtype == tf.float16 else 20)))
    share = tf.multiply(power, power + scalar_like(x, 2))
    return tf.multiply(x, share / (share + scalar_like(x, 2)))


@onnx_op("Swish")
def swish(t, x, *, alpha):
    return tf.multiply(x, tf.sigmoid(x if alpha == 1 else tf.multiply(scalar_like(x, alpha), x)))


@onnx_op("HardSigmoid")
def hard_sigmoid(t, x, *, alpha, beta):
    one, zero = scalar_like(x, 1), scalar_like(x, 0)
    return tf.maximum(zero, tf.minimum(one, tf.multiply(scalar_like(x, alpha), x) + scalar_like(x, beta)))


@onnx_op("HardSwish")
def hard_swish(t, x):
    return tf.multiply(x, hard_sigmoid(t, x, alpha=1 / 6, beta=0.5))


@onnx_op("Clip", f"{LITE}::Clip")
def clip(t, x, low, high):
    """Clip-13. A missing bound is the largest finite number by ONNX's schema, so infinities are clipped to it.

    In TensorFlow Lite the missing bound is left out, because it would determine the scale of 8-bit numbers.
    """
    if x.dtype.is_floating and t.static(low) == 0 and t.static(high) == 6:
        return tf.nn.relu6(x)  # TensorFlow fuses this operator with the convolution before it
    if x.dtype.is_floating and t.node.domain != LITE:
        low = x.dtype.min if low is None else low
        high = x.dtype.max if high is None else high
    if low is not None and t.static(low) != -math.inf:
        x = tf.maximum(x, low)
    if high is not None and t.static(high) != math.inf:
        x = tf.minimum(x, high)
    return tf.convert_to_tensor(x)


@onnx_op("Softmax")
def softmax(t, x, *, axis):
    if x.dtype != tf.float16:
        return _in_few_dims(t, x, axis, tf.nn.softmax)
    # TensorFlow's kernel sums in half precision.
    powers = tf.exp(x - tf.reduce_max(x, axis, keepdims=True))
    total = tf.reduce_sum(tf.cast(powers, tf.float32), axis, keepdims=True)
    return powers / tf.cast(total, x.dtype)


@onnx_op("LogSoftmax")
@halves_in_float32
def log_softmax(t, x, *, axis):
    return _in_few_dims(t, x, axis, tf.nn.log_softmax)


def _in_few_dims(t: Any, x: tf.Tensor, axis: int, function: Callable[[tf.Tensor, int], tf.Tensor]) -> tf.Tensor:
    """Apply `function` along an axis; with more than five dims, which oneDNN's kernel lacks, merge the others into
    two.
    """
    if (x.shape.rank or 0) <= 5:
        return function(x, axis)
    dims, axis = t.dims(x), axis % x.shape.rank
    few = tf.stack([tf.reduce_prod(dims[:axis]), dims[axis], tf.reduce_prod(dims[axis + 1 :])])
    return tf.reshape(function(tf.reshape(x, few), 1), dims)


@onnx_op("Hardmax")
def hardmax(t, x, *, axis):
    size = t.shape(x)[axis]
    return tf.one_hot(tf.argmax(kept_from_reordering(x), axis), size, dtype=x.dtype, axis=axis % t.rank(x))
