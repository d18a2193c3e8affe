"""Gradients and losses that graphs for inference still hold."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ..common.lazy_reshape import cast, int64
from ..rules import tf_op


@tf_op("ReluGrad")
def relu_grad(g: Graph, gradients: ir.Value, features: ir.Value) -> ir.Value:
    """A product, in which a gradient of NaN or infinity stays NaN where nothing passes."""
    return g.Mul(gradients, g.Cast(g.Greater(features, g.const(0.0, features.dtype)), to=features.dtype))


@tf_op("TanhGrad")
def tanh_grad(g: Graph, y: ir.Value, dy: ir.Value) -> ir.Value:
    return g.Mul(dy, g.Sub(g.const(1.0, y.dtype), g.Mul(y, y)))


@tf_op("SigmoidGrad")
def sigmoid_grad(g: Graph, y: ir.Value, dy: ir.Value) -> ir.Value:
    return g.Mul(g.Mul(dy, y), g.Sub(g.const(1.0, y.dtype), y))


@tf_op("SoftplusGrad")
def softplus_grad(g: Graph, gradients: ir.Value, features: ir.Value) -> ir.Value:
    return g.Mul(gradients, g.Sigmoid(features))


@tf_op("BiasAddGrad")
def bias_add_grad(g: Graph, out_backprop: ir.Value, *, data_format: str) -> ir.Value:
    channel = g.rank(out_backprop) - 1 if data_format == "NHWC" else 1
    axes = [i for i in range(g.rank(out_backprop)) if i != channel]
    return g.ReduceSum(out_backprop, np.array(axes, np.int64), keepdims=0)


@tf_op("SoftmaxCrossEntropyWithLogits")
def softmax_cross_entropy(g: Graph, features: ir.Value, labels: ir.Value) -> list[ir.Value]:
    loss = g.Neg(g.ReduceSum(g.Mul(labels, g.LogSoftmax(features, axis=-1)), [-1], keepdims=0))
    return [loss, g.Sub(g.Softmax(features, axis=-1), labels)]


@tf_op("SparseSoftmaxCrossEntropyWithLogits")
def sparse_softmax_cross_entropy(g: Graph, features: ir.Value, labels: ir.Value) -> list[ir.Value]:
    index = g.Unsqueeze(int64(g, labels), [-1])
    picked = g.GatherElements(g.LogSoftmax(features, axis=-1), index, axis=-1)
    places = g.Range(0, g.Squeeze(g.Shape(features, start=1, end=2), [0]), 1)
    chosen = g.Cast(g.Equal(index, places), to=features.dtype)
    return [g.Neg(g.Squeeze(picked, [-1])), g.Sub(g.Softmax(features, axis=-1), chosen)]


@tf_op("BroadcastGradientArgs")
def broadcast_gradient_args(g: Graph, s0: ir.Value, s1: ir.Value) -> list[ir.Value]:
    """The axes along which each of two gradients is summed: where its own size is 1, unless both shapes are equal."""
    sizes = [int64(g, s) for s in (s0, s1)]
    counts = [g.Shape(s) for s in sizes]
    rank = g.Max(*counts)
    none = np.zeros(1, np.int64)
    padded = [g.Pad(s, g.Concat(g.Sub(rank, n), none, axis=0), np.int64(1)) for s, n in zip(sizes, counts, strict=True)]
    differ = g.Cast(g.Not(g.Equal(*padded)), to=ir.DataType.INT32)
    differ = g.Or(g.Not(g.Equal(*counts)), g.Greater(g.ReduceSum(differ, [0]), np.int32(0)))
    ones = [g.And(g.Equal(p, np.int64(1)), differ) for p in padded]
    return [cast(g, g.Squeeze(g.NonZero(one), [0]), g.dtype(s0)) for one in ones]
