"""Activations, fully connected layers, normalizations and embedding tables."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ...common.lazy_reshape import transpose
from ..rules import emit_tf, tf_rule, tflite_op

tflite_op.same(
    tf_rule, RELU="Relu", RELU6="Relu6", ELU="Elu", LOGISTIC="Sigmoid", TANH="Tanh", LOG_SOFTMAX="LogSoftmax",
)  # fmt: skip


@tflite_op("RELU_N1_TO_1")
def relu_n1_to_1(g: Graph, x: ir.Value) -> ir.Value:
    return g.Clip(x, -1.0, 1.0)


@tflite_op("RELU_0_TO_1")
def relu_0_to_1(g: Graph, x: ir.Value) -> ir.Value:
    return g.Clip(x, 0.0, 1.0)


@tflite_op("LEAKY_RELU")
def leaky_relu(g: Graph, x: ir.Value, *, alpha: float) -> ir.Value:
    return g.LeakyRelu(x, alpha=alpha)


@tflite_op("PRELU")
def prelu(g: Graph, x: ir.Value, alpha: ir.Value) -> ir.Value:
    return g.PRelu(x, alpha)


@tflite_op("HARD_SWISH")
def hard_swish(g: Graph, x: ir.Value) -> ir.Value:
    return g.HardSwish(x)


@tflite_op("GELU")
def gelu(g: Graph, x: ir.Value, *, approximate: bool) -> ir.Value:
    return g.Gelu(x, approximate="tanh" if approximate else "none")


@tflite_op("SOFTMAX")
def softmax(g: Graph, x: ir.Value, *, beta: float) -> ir.Value:
    return g.Softmax(x if beta == 1 else g.Mul(x, beta), axis=-1)


@tflite_op("FULLY_CONNECTED")
def fully_connected(
    g: Graph, x: ir.Value, weights: ir.Value, bias: ir.Value | None = None, *, keep_num_dims: bool
) -> ir.Value:
    """FULLY_CONNECTED: x · weightsᵀ + bias over the last dim; the other dims become one dim unless they are kept."""
    rank = g.rank(x)
    if keep_num_dims and rank != 2:
        y = g.MatMul(x, transpose(g, weights, [1, 0]))
        return y if bias is None else g.Add(y, bias)
    width = g.shape(weights)[1]
    if rank != 2 or g.shape(x)[1] != width:
        x = g.Reshape(x, np.array([-1, width], np.int64))
    return g.Gemm(x, weights, bias, transB=1)


@tflite_op("L2_NORMALIZATION")
def l2_normalization(g: Graph, x: ir.Value) -> ir.Value:
    """L2_NORMALIZATION along the last dim; a length is at least 1e-6 (internal/reference/l2normalization.h)."""
    return g.Div(x, g.Max(g.ReduceL2(x, [-1]), 1e-6))


@tflite_op("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(
    g: Graph, x: ir.Value, *, radius: int, bias: float, alpha: float, beta: float
) -> ir.Value:
    return emit_tf(g, "LRN", [x], {"depth_radius": radius, "bias": bias, "alpha": alpha, "beta": beta})


@tflite_op("EMBEDDING_LOOKUP")
def embedding_lookup(g: Graph, ids: ir.Value, table: ir.Value) -> ir.Value:
    return g.Gather(table, ids, axis=0)
