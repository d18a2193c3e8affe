"""Element-wise activations and the softmax family."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from keras import KerasTensor, activations, layers, ops

from convert.errors import Unsupported
from convert.rules import Rule

from ..constants import Constant
from ..emitter import Emitter
from ..rules import onnx_op
from ..tensors import fusion_barrier, halves_in_float32, is_floating


def one_zero(x: KerasTensor) -> KerasTensor:
    """Return floats with 0 in place of −0: Keras's argmax and argmin order −0 before 0, while ONNX treats them as
    equal.
    """
    return ops.where(ops.equal(x, 0), 0, x) if is_floating(x) else x


def activation_rule(name: str) -> Rule:
    """Return the rule of an activation that Keras has under this name."""

    def rule(k, x):
        x = k.tensor(x)
        return k.layer(layers.Activation, x, activation=name) if is_floating(x) else getattr(activations, name)(x)

    return rule


onnx_op.same(activation_rule, Sigmoid="sigmoid", Softplus="softplus", Softsign="softsign", Tanh="tanh")
onnx_op.same(activation_rule, HardSwish="hard_silu")


_FUSED = ("Add", "Sum", "Mul", "Swish", "HardSwish")
"""Operators that may be fused with a convolution; a Swish may be written as a product."""


@onnx_op("Relu")
def relu(k, x):
    return k.layer(layers.ReLU, x) if is_floating(x) else ops.maximum(x, 0)


@onnx_op("LeakyRelu")
def leaky_relu(k, x, *, alpha):
    # Keras's layer rejects negative slopes, and oneDNN uses a slope of 1 if it is fused into a Conv3D without bias.
    if alpha < 0 or len(x.shape) == 5:
        return ops.where(ops.less(x, np.array(0, x.dtype)), ops.multiply(x, np.array(alpha, x.dtype)), x)
    return k.layer(layers.LeakyReLU, _prevent_fusion(k, x), negative_slope=alpha)


@onnx_op("Mish")
def mish(k, x):
    """Mish: Keras's layer after feature layers, else x·n / (n + 2) for n = eˣ(eˣ + 2), with a factor of 1 from 20 on.

    oneDNN's kernel for the layer has an absolute error of 1e-6, even if all results are near 0.
    """
    x = k.tensor(x)
    if _maker(k) in _FEATURES or not is_floating(x):
        return activation_rule("mish")(k, _prevent_fusion(k, x))
    power = ops.exp(ops.minimum(x, 5.0 if x.dtype == "float16" else 20.0))
    share = power * (power + 2.0)
    return x * (share / (share + 2.0))


_FEATURES = (*_FUSED, "Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization", "LayerNormalization", "Concat")


def _maker(k: Emitter) -> str:
    """Return the name of the operator that computes the node's input, or an empty string."""
    maker = k.node.inputs[0].producer() if k.node is not None and k.node.inputs[0] is not None else None
    return "" if maker is None else str(maker.op_type)


def _prevent_fusion(k: Emitter, x: Any) -> Any:
    """Return x in a form that TensorFlow 2.21 does not fuse with a convolution and its bias, sum, Swish or HardSwish.

    After a sum, oneDNN loses the slope of a LeakyRelu; after a Swish or HardSwish it has no kernel for a LeakyRelu. It
    has no kernel for Mish after any of them.
    """
    return fusion_barrier(x) if _maker(k) in _FUSED else x


@onnx_op("PRelu")
def prelu(k, x, slope):
    rank = len(x.shape)
    if isinstance(slope, Constant) and rank > 1 and len(slope.shape) <= rank:
        shape = (1,) * (rank - len(slope.shape)) + slope.shape
        shared = [i for i in range(1, rank) if shape[i] == 1]
        if shape[0] == 1 and all(shape[i] in (1, x.shape[i]) for i in range(1, rank)):
            weights = {"alpha": slope.reshaped(*shape[1:])}
            return k.layer(layers.PReLU, x, weights, shared_axes=shared or None)
    return ops.where(ops.less(x, 0), ops.multiply(x, k.tensor(slope)), x)


@onnx_op("ThresholdedRelu")
def thresholded_relu(k, x, *, alpha):
    return ops.where(ops.greater(x, alpha), x, 0.0)


def is_of_floating_numbers(node: ir.Node) -> bool:
    """Return whether the first input is known to be floating-point."""
    x = node.inputs[0]
    return x is not None and x.dtype is not None and x.dtype.is_floating_point()


@onnx_op("Shrink", when=is_of_floating_numbers, otherwise="Shrink of integers")
def shrink(k, x, *, bias, lambd):
    return ops.where(ops.less(x, -lambd), x + bias, ops.where(ops.greater(x, lambd), x - bias, 0.0))


@onnx_op("Elu")
def elu(k, x, *, alpha):
    return k.layer(layers.ELU, x, alpha=alpha)


@onnx_op("Selu")
def selu(k, x, *, alpha, gamma):
    return ops.multiply(gamma, ops.elu(x, alpha=alpha))


@onnx_op("Celu")
def celu(k, x, *, alpha):
    return ops.celu(x, alpha=alpha)


@onnx_op("Gelu")
def gelu(k, x, *, approximate):
    if approximate not in ("none", "tanh"):
        raise Unsupported(f"Gelu has no approximation {approximate!r}")
    if x.dtype != "float64":
        return ops.gelu(x, approximate=approximate == "tanh")
    # TensorFlow's gelu holds its constants in float32, in all dtypes.
    if approximate == "tanh":
        inner = ops.multiply(ops.add(x, ops.multiply(ops.multiply(ops.square(x), x), 0.044715)), math.sqrt(2 / math.pi))
        return ops.multiply(ops.multiply(x, 0.5), ops.add(ops.tanh(inner), 1.0))
    return ops.multiply(ops.multiply(x, 0.5), ops.add(ops.erf(ops.multiply(x, math.sqrt(0.5))), 1.0))


@onnx_op("Swish")
def swish(k, x, *, alpha):
    return k.layer(layers.Activation, x, activation="silu") if alpha == 1 else x * ops.sigmoid(alpha * x)


@onnx_op("HardSigmoid")
def hard_sigmoid(k, x, *, alpha, beta):
    if np.isclose(alpha, 1 / 6, rtol=1e-7) and beta == 0.5:
        return k.layer(layers.Activation, x, activation="hard_sigmoid")
    return ops.clip(alpha * x + beta, 0.0, 1.0)


@onnx_op("Clip")
def clip(k, x, low, high):
    x = k.live(x) if isinstance(x, Constant) else x  # the model outputs this value, so it must not be folded
    if is_floating(x) and isinstance(high, Constant) and low is not None and k.static(low) == 0 and high.array > 0:
        return k.layer(layers.ReLU, x, max_value=None if np.isinf(high.array) else float(high.array))
    # A missing bound is the largest finite number by ONNX's schema, so infinities are clipped to it.
    ends = np.finfo(str(x.dtype)) if str(x.dtype) in ("float16", "float32", "float64") else None
    if low is not None and k.static(low) != -np.inf:
        x = ops.maximum(x, k.tensor(low))
    elif low is None and ends is not None:
        x = ops.maximum(x, ends.min)
    if high is None:
        return x if ends is None else ops.minimum(x, ends.max)
    return x if k.static(high) == np.inf else ops.minimum(x, k.tensor(high))


@onnx_op("Softmax")
def softmax(k, x, *, axis):
    if x.dtype == "float16":  # TensorFlow's kernel sums in half precision
        powers = ops.exp(x - ops.max(x, axis=axis, keepdims=True))
        total = ops.sum(ops.cast(powers, "float32"), axis=axis, keepdims=True)
        return ops.divide(powers, ops.cast(total, "float16"))
    if len(x.shape) > 5:
        return _in_few_dims(x, axis, ops.softmax)
    return k.layer(layers.Softmax, x, axis=axis)


@onnx_op("LogSoftmax")
@halves_in_float32
def log_softmax(k, x, *, axis):
    return _in_few_dims(x, axis, ops.log_softmax) if len(x.shape) > 5 else ops.log_softmax(x, axis=axis)


def _in_few_dims(x: KerasTensor, axis: int, function: Callable[..., KerasTensor]) -> KerasTensor:
    """Apply `function` along an axis; with more than five dims, which oneDNN's kernel lacks, merge the others into
    two.
    """
    dims = [-1 if d is None else d for d in x.shape]
    axis %= len(dims)
    if dims.count(-1) > 1 or -1 in dims[axis:]:
        raise Unsupported("a softmax of more than five dims, some of dynamic size")
    few = ops.reshape(x, [-1, dims[axis], math.prod(dims[axis + 1 :])])
    return ops.reshape(function(few, axis=1), dims)


@onnx_op("Hardmax")
def hardmax(k, x, *, axis):
    axis %= len(x.shape)
    places = ops.reshape(
        k.places(k.sizes_of(0, x)[axis], "int32"), [-1 if i == axis else 1 for i in range(len(x.shape))]
    )
    return ops.cast(ops.equal(ops.argmax(one_zero(x), axis=axis, keepdims=True), places), x.dtype)


@onnx_op("Dropout")
def dropout(k, x, ratio, training_mode, *, seed):
    if training_mode is not None and (k.static(training_mode) is None or k.static(training_mode)):
        raise Unsupported("Dropout in training mode")
    return x, ops.ones_like(x, dtype="bool") if k.outputs > 1 else None
