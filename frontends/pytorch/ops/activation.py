"""Activations, gates and softmax."""

from __future__ import annotations

import math

import torch

from convert.errors import Unsupported

from ..common.sizes import axis_of
from ..common.values import cast, cast_to_floating, constant_like, is_float
from ..rules import torch_op
from .random import uniform_numbers
from .unary import log1p


@torch_op("relu")
def relu(g, x):
    return g.Relu(x) if is_float(g, x) else g.Max(x, constant_like(g, 0, x))


@torch_op("relu6")
def relu6(g, x):
    return g.Clip(x, constant_like(g, 0, x), constant_like(g, 6, x))


@torch_op("hardtanh")
def hardtanh(g, x, min_val=-1, max_val=1):
    return g.Clip(x, constant_like(g, min_val, x), constant_like(g, max_val, x))


@torch_op("leaky_relu")
def leaky_relu(g, x, negative_slope=0.01):
    return g.LeakyRelu(x, alpha=float(negative_slope))


@torch_op("rrelu_with_noise")
def rrelu_with_noise(g, x, noise, lower=0.125, upper=1 / 3, training=False):
    return rrelu(g, x, lower, upper, training)


@torch_op("rrelu")
def rrelu(g, x, lower=0.125, upper=1 / 3, training=False):
    if training:
        slopes = cast(g, uniform_numbers(g, g.dims(x), lower, upper), g.dtype(x))
        return g.Where(g.LessOrEqual(x, constant_like(g, 0, x)), g.Mul(x, slopes), x)
    return g.LeakyRelu(x, alpha=(lower + upper) / 2)


@torch_op("prelu", "_prelu_kernel")
def prelu(g, x, weight):
    """PRelu; the slope per channel (dim 1) gets trailing dims of 1 for ONNX."""
    rank = g.rank(x)
    if rank == 0:
        weight = g.Squeeze(weight, [0]) if g.rank(weight) else weight
    if rank > 2 and g.rank(weight) == 1 and g.shape(weight)[0] != 1:
        weight = g.Unsqueeze(weight, list(range(1, rank - 1)))
    return g.PRelu(x, weight)


@torch_op("elu")
def elu(g, x, alpha=1, scale=1, input_scale=1):
    if input_scale != 1:
        curve = g.Mul(
            g.Sub(g.Exp(g.Mul(x, constant_like(g, input_scale, x))), constant_like(g, 1.0, x)),
            constant_like(g, alpha, x),
        )
        out = g.Where(g.Greater(x, constant_like(g, 0.0, x)), x, curve)
    else:
        out = g.Elu(x, alpha=float(alpha))
    return out if scale == 1 else g.Mul(out, constant_like(g, scale, x))


@torch_op("selu")
def selu(g, x):
    # ONNX's defaults are these two rounded to float32 (Klambauer et al., 2017, give the digits).
    return g.Selu(x, alpha=1.6732632423543772848170429916717, gamma=1.0507009873554804934193349852946)


@torch_op("celu")
def celu(g, x, alpha=1.0):
    """x for positive x, else alpha · elu(x / alpha), because ONNX has Celu for float32 only.

    For positive x, x / alpha · alpha is not always x.
    """
    if alpha == 1:
        return g.Elu(x, alpha=1.0)
    scale = constant_like(g, alpha, x)
    curve = g.Mul(g.Elu(g.Div(x, scale), alpha=1.0), scale)
    return g.Where(g.Greater(x, constant_like(g, 0.0, x)), x, curve)


@torch_op("gelu")
def gelu(g, x, *, approximate="none"):
    return g.Gelu(x, approximate=approximate)


@torch_op("silu")
def silu(g, x):
    return g.Mul(x, g.Sigmoid(x))


@torch_op("mish")
def mish(g, x):
    return g.Mish(x)


@torch_op("hardswish")
def hardswish(g, x):
    return g.HardSwish(x)


@torch_op("hardsigmoid")
def hardsigmoid(g, x):
    return g.HardSigmoid(x, alpha=1 / 6, beta=0.5)


@torch_op("softplus")
def softplus(g, x, beta=1, threshold=20):
    """log(1 + exp(beta x)) / beta, and x itself from `threshold` on (from 20 on float32 shows no difference)."""
    out = (
        g.Softplus(x)
        if beta == 1
        else g.Div(g.Softplus(g.Mul(x, constant_like(g, beta, x))), constant_like(g, beta, x))
    )
    if threshold >= 20:
        return out
    return g.Where(g.Greater(g.Mul(x, constant_like(g, beta, x)), constant_like(g, threshold, x)), x, out)


@torch_op("log_sigmoid")
def log_sigmoid(g, x):
    """-softplus(-x) as min(x, 0) - log1p(exp(-|x|)), which keeps small results for large x."""
    return g.Sub(g.Min(x, constant_like(g, 0.0, x)), log1p(g, g.Exp(g.Neg(g.Abs(x)))))


@torch_op("threshold")
def threshold(g, x, threshold, value):
    return g.Where(g.LessOrEqual(x, constant_like(g, threshold, x)), constant_like(g, value, x), x)


@torch_op("hardshrink")
def hardshrink(g, x, lambd=0.5):
    inside = g.LessOrEqual(g.Abs(x), constant_like(g, lambd, x))
    return g.Where(inside, constant_like(g, 0.0, x), x)


@torch_op("softshrink")
def softshrink(g, x, lambd=0.5):
    """x minus its part inside the bounds; NaN is kept, while ONNX's Shrink would turn it into 0."""
    return g.Sub(x, g.Clip(x, constant_like(g, -lambd, x), constant_like(g, lambd, x)))


@torch_op("glu")
def glu(g, x, dim=-1):
    a, b = g.Split(x, axis=axis_of(g, x, dim), num_outputs=2, outputs=2)
    return g.Mul(a, g.Sigmoid(b))


@torch_op("softmax", "special_softmax")
def softmax(g, x, dim, dtype=None):
    x = cast_to_floating(g, x) if dtype is None else cast(g, x, dtype)
    return g.Softmax(x, axis=axis_of(g, x, dim)) if g.rank(x) else g.Squeeze(g.Softmax(g.Unsqueeze(x, [0])), [0])


@torch_op("_safe_softmax")
def safe_softmax(g, x, dim, dtype=None):
    """Softmax; zeros if all elements are minus infinity."""
    x = cast_to_floating(g, x) if dtype is None else cast(g, x, dtype)
    largest = g.ReduceMax(x, [axis_of(g, x, dim)]) if g.rank(x) else x
    nothing = g.Equal(largest, constant_like(g, -math.inf, x))
    return g.Where(nothing, constant_like(g, 0.0, x), softmax(g, x, dim))


@torch_op("log_softmax", "special_log_softmax")
def log_softmax(g, x, dim, dtype=None):
    x = cast_to_floating(g, x) if dtype is None else cast(g, x, dtype)
    return g.LogSoftmax(x, axis=axis_of(g, x, dim)) if g.rank(x) else g.Squeeze(g.LogSoftmax(g.Unsqueeze(x, [0])), [0])


@torch_op("_softmax")
def _softmax(g, x, dim, half_to_float):
    return softmax(g, x, dim, torch.float32 if half_to_float else None)


@torch_op("_log_softmax")
def _log_softmax(g, x, dim, half_to_float):
    return log_softmax(g, x, dim, torch.float32 if half_to_float else None)


_DROPOUT = torch_op.limit("dropout", "training=True draws random numbers even in eval mode; pass self.training")


@torch_op("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
def dropout(g, x, p, train):
    if train and p:
        raise Unsupported(_DROPOUT)
    return x
