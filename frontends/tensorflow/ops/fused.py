"""Splits operators that TensorFlow's optimizer fuses, as found in frozen graphs and TensorFlow.js models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import tf_op
from .conv import conv2d, depthwise_conv2d
from .linalg import mat_mul
from .nn import bias_add, fused_batch_norm

_ACTIVATIONS: dict[str, Callable[[Graph, ir.Value, float], ir.Value]] = {
    "Relu": lambda g, x, alpha: g.Relu(x),
    "Relu6": lambda g, x, alpha: g.Clip(x, 0.0, 6.0),
    "Elu": lambda g, x, alpha: g.Elu(x, alpha=1.0),
    "Tanh": lambda g, x, alpha: g.Tanh(x),
    "Sigmoid": lambda g, x, alpha: g.Sigmoid(x),
    "LeakyRelu": lambda g, x, alpha: g.LeakyRelu(x, alpha=alpha),
    "GeluExact": lambda g, x, alpha: g.Gelu(x),
    "GeluApproximate": lambda g, x, alpha: g.Gelu(x, approximate="tanh"),
}


def _emit_fused_ops(
    g: Graph,
    y: ir.Value,
    args: Sequence[ir.Value],
    fused_ops: Sequence[str],
    epsilon: float,
    alpha: float,
    data_format: str,
) -> ir.Value:
    """Return `y` with the fused operators applied; each takes its arguments from the front of `args`."""
    left = list(args)
    for name in fused_ops:
        if name == "BiasAdd":
            y = bias_add(g, y, left.pop(0), data_format=data_format)
        elif name == "Add":
            y = g.Add(y, left.pop(0))
        elif name == "FusedBatchNorm":
            statistics, left = left[:4], left[4:]
            y = fused_batch_norm(
                g, y, *statistics, epsilon=epsilon, exponential_avg_factor=1.0, data_format=data_format,
                is_training=False,
            )[0]  # fmt: skip
        elif name in _ACTIVATIONS:
            y = _ACTIVATIONS[name](g, y, alpha)
        else:
            raise Unsupported(f"a fused {name}")
    if left:
        raise Unsupported(f"{len(left)} arguments that belong to none of {', '.join(fused_ops)}")
    return y


@tf_op("_FusedConv2D")
def fused_conv2d(
    g: Graph,
    input: ir.Value,
    filter: ir.Value,
    args: Sequence[ir.Value],
    host_args: Sequence[ir.Value],
    *,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
    dilations: Sequence[int],
    fused_ops: Sequence[str],
    epsilon: float,
    leakyrelu_alpha: float,
) -> ir.Value:
    if host_args:
        raise Unsupported("arguments of an int8 convolution")
    y = conv2d(
        g, input, filter, strides=strides, padding=padding, explicit_paddings=explicit_paddings,
        data_format=data_format, dilations=dilations,
    )  # fmt: skip
    return _emit_fused_ops(g, y, args, fused_ops, epsilon, leakyrelu_alpha, data_format)


@tf_op("_FusedDepthwiseConv2dNative")
def fused_depthwise_conv2d(
    g: Graph,
    input: ir.Value,
    filter: ir.Value,
    args: Sequence[ir.Value],
    *,
    strides: Sequence[int],
    padding: str,
    data_format: str,
    dilations: Sequence[int],
    fused_ops: Sequence[str],
    epsilon: float,
    leakyrelu_alpha: float,
) -> ir.Value:
    y = depthwise_conv2d(
        g, input, filter, strides=strides, padding=padding, explicit_paddings=[], data_format=data_format,
        dilations=dilations,
    )  # fmt: skip
    return _emit_fused_ops(g, y, args, fused_ops, epsilon, leakyrelu_alpha, data_format)


@tf_op("_FusedMatMul")
def fused_mat_mul(
    g: Graph,
    a: ir.Value,
    b: ir.Value,
    args: Sequence[ir.Value],
    *,
    transpose_a: bool,
    transpose_b: bool,
    fused_ops: Sequence[str],
    epsilon: float,
    leakyrelu_alpha: float,
) -> ir.Value:
    y = mat_mul(g, a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return _emit_fused_ops(g, y, args, fused_ops, epsilon, leakyrelu_alpha, "NHWC")


@tf_op("_FusedBatchNormEx")
def fused_batch_norm_ex(
    g: Graph,
    x: ir.Value,
    scale: ir.Value,
    offset: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    side_input: Sequence[ir.Value],
    *,
    epsilon: float,
    exponential_avg_factor: float,
    activation_mode: str,
    data_format: str,
    is_training: bool,
) -> list[ir.Value]:
    y, *rest = fused_batch_norm(
        g, x, scale, offset, mean, variance, epsilon=epsilon, exponential_avg_factor=exponential_avg_factor,
        data_format=data_format, is_training=is_training,
    )  # fmt: skip
    for other in side_input:
        y = g.Add(y, other)
    if activation_mode != "Identity":
        if activation_mode not in _ACTIVATIONS:
            raise Unsupported(f"activation_mode={activation_mode!r} is not handled")
        y = _ACTIVATIONS[activation_mode](g, y, 0.2)
    return [y, *rest]
