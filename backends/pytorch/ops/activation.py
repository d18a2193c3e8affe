"""Activation functions."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..common import wide
from ..rules import host, onnx_op


@onnx_op("Relu")
def relu(t, x):
    return F.relu(x)


@onnx_op("LeakyRelu")
def leaky_relu(t, x, *, alpha):
    return F.leaky_relu(x, alpha)


@onnx_op("PRelu")
def prelu(t, x, slope):
    if x.dtype.is_floating_point and slope.dim() and all(isinstance(n, int) for n in slope.shape):
        if slope.numel() == 1:
            return F.prelu(x, slope if slope.dim() == 1 else slope.reshape(1))
        if x.dim() > 1 and slope.dim() == x.dim() - 1 and slope.numel() == slope.shape[0]:
            return F.prelu(x, slope.reshape(-1))
    return torch.where(wide(x) < 0, wide(x) * wide(slope), wide(x))


@onnx_op("Elu")
def elu(t, x, *, alpha):
    return F.elu(x, alpha)


@onnx_op("Celu")
def celu(t, x, *, alpha):
    return F.celu(x, alpha)


@onnx_op("Selu")
def selu(t, x, *, alpha, gamma):
    return gamma * F.elu(x, alpha)


@onnx_op("Gelu")
def gelu(t, x, *, approximate):
    return F.gelu(x, approximate=approximate)


@onnx_op("HardSigmoid")
def hard_sigmoid(t, x, *, alpha, beta):
    return torch.clamp(alpha * x + beta, 0.0, 1.0)  # PyTorch's frozen convolutions fail on integers


@onnx_op("HardSwish")
def hard_swish(t, x):
    return F.hardswish(x) if x.dtype.is_floating_point else x


@onnx_op("Mish")
def mish(t, x):
    return F.mish(x)


@onnx_op("Swish")
def swish(t, x, *, alpha):
    return F.silu(x) if alpha == 1 else x * torch.sigmoid(alpha * x)


@onnx_op("Softplus")
def softplus(t, x):
    # PyTorch returns x itself beyond the threshold; at the default of 20 that is inexact in float64.
    return F.softplus(x, threshold=40)


@onnx_op("ThresholdedRelu")
def thresholded_relu(t, x, *, alpha):
    return torch.where(x > alpha, x, torch.zeros_like(x))


@onnx_op("Shrink")
def shrink(t, x, *, bias, lambd):
    x = wide(x)
    zero = torch.zeros_like(x)
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, zero))


@onnx_op("Softmax")
def softmax(t, x, *, axis):
    return torch.softmax(x, axis)


@onnx_op("LogSoftmax")
def log_softmax(t, x, *, axis):
    return torch.log_softmax(x, axis)


@onnx_op("Hardmax")
def hardmax(t, x, *, axis):
    first = torch.argmax(x, axis, keepdim=True)
    return torch.zeros_like(x).scatter(axis, first, torch.ones_like(first, dtype=x.dtype))


@onnx_op("Clip")
@host("low", "high")
def clip(t, x, low, high):
    """Clip-13. A missing bound is the largest finite number by ONNX's schema, so infinities are clipped to it."""
    y = wide(x)
    ends = [None if end is None else t.static(end) for end in (low, high)]
    edges = (torch.finfo(x.dtype).min, torch.finfo(x.dtype).max) if x.dtype.is_floating_point else (None, None)
    if y.dtype.is_floating_point and all(a is not None or b is None for a, b in zip(ends, (low, high), strict=True)):
        known = [edge if end is None else float(end.item()) for end, edge in zip(ends, edges, strict=True)]
        return torch.clamp(y, *known)  # a single kernel without tensor bounds
    if low is not None:
        y = torch.maximum(y, wide(t.tensor(low)).to(y.dtype))
    elif edges[0] is not None:
        y = torch.clamp(y, min=edges[0])
    if high is not None:
        return torch.minimum(y, wide(t.tensor(high)).to(y.dtype))
    return y if edges[1] is None else torch.clamp(y, max=edges[1])
