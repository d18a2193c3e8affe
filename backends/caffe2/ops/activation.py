"""Rules for activation functions."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..common.shapes import move_axis_last, transpose
from ..net import Net
from ..rules import onnx_op
from .math import log1p, unary_rule

onnx_op.same(unary_rule, Sigmoid="Sigmoid", Softsign="Softsign", Tanh="Tanh", Mish="Mish")


@onnx_op("Relu")
def relu(net: Net, x: Blob) -> Blob:
    if x.dtype.is_floating_point():
        return unary_rule("Relu")(net, x)
    wide = widen(net, x)
    positive = net.GT(wide, net.const(np.zeros((), wide.dtype.numpy())))
    return cast(net, net.Mul(wide, cast(net, positive, wide.dtype)), x.dtype)


@onnx_op("LeakyRelu")
def leaky_relu(net: Net, x: Blob, *, alpha: float) -> Blob:
    return cast(net, net.LeakyRelu(widen(net, x, FLOAT), alpha=alpha), x.dtype)


@onnx_op("ThresholdedRelu")
def thresholded_relu(net: Net, x: Blob, *, alpha: float) -> Blob:
    return cast(net, net.ThresholdedRelu(widen(net, x, FLOAT), alpha=alpha), x.dtype)


@onnx_op("Elu")
def elu(net: Net, x: Blob, *, alpha: float) -> Blob:
    return cast(net, net.Elu(widen(net, x, FLOAT), alpha=alpha), x.dtype)


@onnx_op("Selu")
def selu(net: Net, x: Blob, *, alpha: float, gamma: float) -> Blob:
    return cast(net, net.Selu(widen(net, x, FLOAT), alpha=alpha, scale=gamma), x.dtype)


@onnx_op("Celu")
def celu(net: Net, x: Blob, *, alpha: float) -> Blob:
    """relu(x) + alpha·elu(min(x, 0) / alpha)."""
    wide = widen(net, x, FLOAT)
    factor = net.const(alpha, ir.DataType.FLOAT)
    below = net.Elu(net.Div(net.Clip(wide, min=-np.inf, max=0.0), factor), alpha=1.0)
    return cast(net, net.Add(net.Relu(wide), net.Mul(below, factor)), x.dtype)


@onnx_op("PRelu")
def prelu(net: Net, x: Blob, slope: Blob) -> Blob:
    """relu(x) − slope·relu(−x), because Caffe2's PRelu takes one slope per channel only."""
    wide = widen(net, x, FLOAT)
    below = net.Mul(net.Relu(net.Negative(wide)), widen(net, slope, FLOAT))
    return cast(net, net.Sub(net.Relu(wide), below), x.dtype)


@onnx_op("HardSigmoid")
def hard_sigmoid(net: Net, x: Blob, *, alpha: float, beta: float) -> Blob:
    return cast(net, net.HardSigmoid(widen(net, x, FLOAT), alpha=alpha, beta=beta), x.dtype)


@onnx_op("Gelu")
def gelu(net: Net, x: Blob, *, approximate: str) -> Blob:
    return cast(net, net.Gelu(widen(net, x, FLOAT), fast_gelu=int(approximate == "tanh")), x.dtype)


@onnx_op("Softplus")
def softplus(net: Net, x: Blob) -> Blob:
    """relu(x) + log1p(exp(−|x|)); Caffe2's Softplus overflows from 89 on."""
    wide = widen(net, x, FLOAT)
    return cast(net, net.Add(net.Relu(wide), log1p(net, net.Exp(net.Negative(net.Abs(wide))))), x.dtype)


@onnx_op("Shrink")
def shrink(net: Net, x: Blob, *, bias: float, lambd: float) -> Blob:
    """x + bias below −lambd, x − bias above lambd, 0 between."""
    wide = widen(net, x, FLOAT)
    below = cast(net, net.LT(wide, net.const(-lambd)), ir.DataType.FLOAT)
    above = cast(net, net.GT(wide, net.const(lambd)), ir.DataType.FLOAT)
    kept = net.Mul(wide, net.Add(below, above))
    return cast(net, net.Add(kept, net.Mul(net.Sub(below, above), net.const(bias))), x.dtype)


@onnx_op("Softmax")
def softmax(net: Net, x: Blob, *, axis: int) -> Blob:
    """Softmax-13. Caffe2's flattens the input to 2-D at `axis`, which is right for the last axis only."""
    moved, back = move_axis_last(net, widen(net, x, FLOAT), axis)
    y = net.Softmax(moved, axis=net.rank(moved) - 1)
    return cast(net, transpose(net, y, back) if back else y, x.dtype)


@onnx_op("LogSoftmax")
def log_softmax(net: Net, x: Blob, *, axis: int) -> Blob:
    """Return the logarithm of the softmax as x − max − log(sum(exp(x − max))), because log(Softmax) is −inf if the
    softmax underflows.
    """
    wide = widen(net, x, FLOAT)
    axes = [net.axis(x, axis)]
    centred = net.Sub(wide, net.ReduceMax(wide, axes=axes, keepdims=1))
    total = net.Log(net.ReduceSum(net.Exp(centred), axes=axes, keepdims=1))
    return cast(net, net.Sub(centred, total), x.dtype)
