"""Gradients and losses that remain in inference graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common import shape_values
from ..common.conv_layout import padding_attributes, spatial_entries, to_channels_first, to_data_format
from ..common.lazy_reshape import cast, int64
from ..rules import tf_op
from .slice_pad import strided_slice


@tf_op("ReluGrad")
def relu_grad(g: Graph, gradients: ir.Value, features: ir.Value) -> ir.Value:
    """ReluGrad as a product, so that NaN and infinite gradients stay NaN where nothing passes."""
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
    """Return the axes to sum for each of two gradients: the axes on which it has size 1 itself, unless both shapes are
    equal.
    """
    sizes = [int64(g, s) for s in (s0, s1)]
    counts = [g.Shape(s) for s in sizes]
    rank = g.Max(*counts)
    none = np.zeros(1, np.int64)
    padded = [g.Pad(s, g.Concat(g.Sub(rank, n), none, axis=0), np.int64(1)) for s, n in zip(sizes, counts, strict=True)]
    differ = g.Cast(g.Not(g.Equal(*padded)), to=ir.DataType.INT32)
    differ = g.Or(g.Not(g.Equal(*counts)), g.Greater(g.ReduceSum(differ, [0]), np.int32(0)))
    ones = [g.And(g.Equal(p, np.int64(1)), differ) for p in padded]
    return [cast(g, g.Squeeze(g.NonZero(one), [0]), g.dtype(s0)) for one in ones]


@tf_op("StridedSliceGrad")
def strided_slice_grad(
    g: Graph, shape: ir.Value, begin: ir.Value, end: ir.Value, strides: ir.Value, dy: ir.Value, *, begin_mask: int,
    end_mask: int, ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int,
) -> ir.Value:  # fmt: skip
    """Return zeros with the gradient at the subscript, found by the flat indices of all elements."""
    sizes, content = int64(g, shape), shape_values.content(shape)
    total = g.ReduceProd(sizes, [0], keepdims=1)
    places = g.Reshape(g.Range(0, g.Squeeze(total, [0]), 1), sizes, allowzero=1)
    if content is not None:
        places = g.facts(places, shape=content.tolist())
    masks = {"begin_mask": begin_mask, "end_mask": end_mask, "ellipsis_mask": ellipsis_mask,
             "new_axis_mask": new_axis_mask, "shrink_axis_mask": shrink_axis_mask}  # fmt: skip
    taken = g.Reshape(strided_slice(g, places, begin, end, strides, **masks), [-1])
    flat = g.ScatterElements(g.Expand(g.const(0, g.dtype(dy)), total), taken, g.Reshape(dy, [-1]), axis=0)
    y = g.Reshape(flat, sizes, allowzero=1)
    return y if content is None else g.facts(y, g.dtype(dy), content.tolist())


@tf_op("Relu6Grad")
def relu6_grad(g: Graph, gradients: ir.Value, features: ir.Value) -> ir.Value:
    dtype = features.dtype
    passes = g.And(g.Greater(features, g.const(0.0, dtype)), g.Less(features, g.const(6.0, dtype)))
    return g.Mul(gradients, g.Cast(passes, to=dtype))


@tf_op("LeakyReluGrad")
def leaky_relu_grad(g: Graph, gradients: ir.Value, features: ir.Value, *, alpha: float) -> ir.Value:
    dtype = features.dtype
    return g.Where(g.Greater(features, g.const(0.0, dtype)), gradients, g.Mul(gradients, g.const(alpha, dtype)))


@tf_op("EluGrad")
def elu_grad(g: Graph, gradients: ir.Value, outputs: ir.Value) -> ir.Value:
    """EluGrad: for a negative output, eˣ - 1, the slope is the output plus 1."""
    dtype = outputs.dtype
    slope = g.Mul(g.Add(outputs, g.const(1.0, dtype)), gradients)
    return g.Where(g.Less(outputs, g.const(0.0, dtype)), slope, gradients)


@tf_op("SeluGrad")
def selu_grad(g: Graph, gradients: ir.Value, outputs: ir.Value) -> ir.Value:
    """SeluGrad: λ for positive x, else λα eˣ, which is the output plus λα."""
    dtype = outputs.dtype
    scale, whole = 1.0507009873554804934193349852946, 1.7580993408473768599402175208123
    slope = g.Mul(gradients, g.Add(outputs, g.const(whole, dtype)))
    return g.Where(g.Less(outputs, g.const(0.0, dtype)), slope, g.Mul(gradients, g.const(scale, dtype)))


@tf_op("SoftsignGrad")
def softsign_grad(g: Graph, gradients: ir.Value, features: ir.Value) -> ir.Value:
    whole = g.Add(g.const(1.0, features.dtype), g.Abs(features))
    return g.Div(gradients, g.Mul(whole, whole))


@tf_op("SqrtGrad")
def sqrt_grad(g: Graph, y: ir.Value, dy: ir.Value) -> ir.Value:
    return g.Div(g.Mul(dy, g.const(0.5, y.dtype)), y)


@tf_op("RsqrtGrad")
def rsqrt_grad(g: Graph, y: ir.Value, dy: ir.Value) -> ir.Value:
    return g.Mul(g.Mul(dy, g.const(-0.5, y.dtype)), g.Mul(g.Mul(y, y), y))


@tf_op("ReciprocalGrad", "InvGrad")
def reciprocal_grad(g: Graph, y: ir.Value, dy: ir.Value) -> ir.Value:
    return g.Mul(g.Neg(dy), g.Mul(y, y))


@tf_op("MaxPoolGrad")
def max_pool_grad(
    g: Graph,
    orig_input: ir.Value,
    orig_output: ir.Value,
    grad: ir.Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
) -> ir.Value:
    """MaxPoolGrad: add each gradient at the maximum of its window, the first of equal ones."""
    if padding == "EXPLICIT":
        raise Unsupported("gradients of a pool with explicit pads")
    x, upper = (to_channels_first(g, v, data_format) for v in (orig_input, grad))
    kernel, steps = spatial_entries(ksize, data_format, "ksize"), spatial_entries(strides, data_format, "strides")
    pads = padding_attributes(g.shape(x)[2:], kernel, steps, [1] * len(kernel), padding)
    _, places = g.node("MaxPool", [x], {"kernel_shape": kernel, "strides": steps, **pads}, outputs=2)
    flat = [g.Reshape(v, np.array([-1], np.int64)) for v in (places, upper)]
    zeros = g.Expand(g.const(0.0, g.dtype(x)), g.ReduceProd(g.Shape(x), [0], keepdims=1))
    found = g.Reshape(g.ScatterElements(zeros, *flat, axis=0, reduction="add"), g.Shape(x))
    return to_data_format(g, g.facts(found, g.dtype(x), g.shape(x)), data_format)
