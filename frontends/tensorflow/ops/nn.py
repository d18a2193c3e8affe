"""Activations, bias, normalization and softmax."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.conv_layout import is_channels_last, to_channels_first, to_data_format
from ..common.lazy_reshape import reshape, unsqueeze_per_channel
from ..patterns.matching import perm_of, varies_along_last
from ..rules import tf_op

SELU_ALPHA, SELU_GAMMA = 1.6732632423543772, 1.0507009873554805


def _activation_rule(operator: str) -> Callable[..., ir.Value]:
    return lambda g, features: g.node(operator, [features])


tf_op.same(_activation_rule, Softplus="Softplus", Softsign="Softsign")


@tf_op("Relu")
def relu(g: Graph, features: ir.Value) -> ir.Value:
    """Relu. (Integers use a maximum: ONNX has no Relu for unsigned ones, and onnxruntime none for int64.)"""
    if g.dtype(features).is_floating_point():
        return g.Relu(features)
    return g.Max(features, g.const(0, g.dtype(features)))


@tf_op("Elu")
def elu(g: Graph, features: ir.Value) -> ir.Value:
    return g.Elu(features, alpha=1.0)


@tf_op("Selu")
def selu(g: Graph, features: ir.Value) -> ir.Value:
    return g.Selu(features, alpha=SELU_ALPHA, gamma=SELU_GAMMA)


@tf_op("Relu6")
def relu6(g: Graph, features: ir.Value) -> ir.Value:
    return g.Clip(features, 0.0, 6.0)


@tf_op("LeakyRelu")
def leaky_relu(g: Graph, features: ir.Value, *, alpha: float) -> ir.Value:
    return g.LeakyRelu(features, alpha=alpha)


@tf_op("Softmax")
def softmax(g: Graph, logits: ir.Value) -> ir.Value:
    return g.Softmax(logits, axis=-1)


@tf_op("LogSoftmax")
def log_softmax(g: Graph, logits: ir.Value) -> ir.Value:
    return g.LogSoftmax(logits, axis=-1)


@tf_op("L2Loss")
def l2_loss(g: Graph, t: ir.Value) -> ir.Value:
    return g.Mul(g.ReduceSumSquare(t, keepdims=0), 0.5)


@tf_op("BiasAdd")
def bias_add(g: Graph, value: ir.Value, bias: ir.Value, *, data_format: str) -> ir.Value:
    if not is_channels_last(data_format):
        return g.Add(value, unsqueeze_per_channel(g, bias, g.rank(value)))
    return fuse_bias_into_producer(g, value, bias) or g.Add(value, bias)


@tf_op("BiasAddV1")
def bias_add_v1(g: Graph, value: ir.Value, bias: ir.Value) -> ir.Value:
    return bias_add(g, value, bias, data_format="NHWC")


def fuse_channel_bias(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value | None:
    """Return x + y if one is a channels-last convolution and the other a constant per channel, else None."""
    for value, bias in ((x, y), (y, x)):
        size = g.shape(value)[-1] if value.shape is not None and len(value.shape) > 2 else None
        if perm_of(value) is None or not isinstance(size, int) or not varies_along_last(bias, size):
            continue
        if len(g.shape(bias)) <= len(g.shape(value)):
            return fuse_bias_into_producer(g, value, reshape(g, bias, [size]))
    return None


def fuse_bias_into_producer(g: Graph, value: ir.Value, bias: ir.Value) -> ir.Value | None:
    """Return the convolution or matrix product of `value` rewritten with its bias; None for other values.

    The original without bias becomes dead code unless something else reads it.
    """
    maker = value.producer()
    if maker is None or not _is_weight(bias):
        return None
    if maker.op_type == "MatMul" and value.shape is not None and len(value.shape) == 2:
        # onnxruntime has Gemm for floating-point dtypes only.
        return g.Gemm(*maker.inputs, bias) if g.dtype(value).is_floating_point() else None
    if maker.op_type == "Squeeze" and len(maker.inputs) == 2 and maker.inputs[0] is not None:
        longer = maker.inputs[0]  # a 1-D convolution, which TensorFlow computes in 2-D
        last = value.shape is not None and longer.shape is not None and value.shape[-1] == longer.shape[-1] != 1
        biased = fuse_bias_into_producer(g, longer, bias) if last else None
        return None if biased is None else g.Squeeze(biased, maker.inputs[1])
    if maker.op_type != "Transpose" or maker.inputs[0] is None:
        return None
    inner, perm = maker.inputs[0].producer(), maker.attributes["perm"].as_ints()
    if inner is None or inner.op_type not in ("Conv", "ConvTranspose") or len(inner.inputs) != 2 or perm[-1] != 1:
        return None
    attributes = {name: attribute.value for name, attribute in inner.attributes.items()}
    return g.Transpose(g.node(inner.op_type, [*inner.inputs, bias], attributes), perm=perm)


def _is_weight(value: ir.Value) -> bool:
    """Return whether `value` is a constant, possibly quantized."""
    maker = value.producer()
    if maker is not None and maker.op_type == "DequantizeLinear" and maker.inputs[0] is not None:
        value = maker.inputs[0]
    return value.const_value is not None


@tf_op("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def fused_batch_norm(
    g: Graph,
    x: ir.Value,
    scale: ir.Value,
    offset: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    *,
    epsilon: float,
    exponential_avg_factor: float,
    data_format: str,
    is_training: bool,
) -> list[ir.Value]:
    """FusedBatchNorm: up to six outputs: y, the statistics (those of the batch in training), and data for the
    gradient.
    """
    inner = to_channels_first(g, x, data_format)
    if is_training:
        if exponential_avg_factor != 1.0:
            raise Unsupported(f"exponential_avg_factor={exponential_avg_factor} updates the model's state")
        mean, variance, unbiased = _batch_statistics(g, inner)
    else:
        unbiased = variance
    y = g.BatchNormalization(inner, scale, offset, mean, variance, epsilon=epsilon)
    return [to_data_format(g, y, data_format), mean, unbiased, mean, variance, g.const(np.zeros(0, np.float32))]


def _batch_statistics(g: Graph, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    axes = np.array([0, *range(2, g.rank(x))], np.int64)
    kept = g.ReduceMean(x, axes)
    mean = g.Squeeze(kept, axes)
    centred = g.Sub(x, kept)
    variance = g.ReduceMean(g.Mul(centred, centred), axes, keepdims=0)
    count = g.Cast(g.Div(g.Size(x), g.Size(mean)), to=variance.dtype)
    return mean, variance, g.Mul(variance, g.Div(count, g.Max(g.Sub(count, 1.0), 1.0)))


@tf_op("LRN")
def lrn(g: Graph, input: ir.Value, *, depth_radius: int, bias: float, alpha: float, beta: float) -> ir.Value:
    size = 2 * depth_radius + 1
    y = g.LRN(to_channels_first(g, input, "NHWC"), size=size, bias=bias, alpha=alpha * size, beta=beta)
    return to_data_format(g, y, "NHWC")
