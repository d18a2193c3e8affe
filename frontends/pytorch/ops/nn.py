"""Layers with weights: convolutions, linear layers, normalizations, embeddings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.reductions import reduce_dims
from convert.graph.tensors import transposed_tensor

from ..common.sizes import axis_of, broadcast_to_rank, reshape, size, vector
from ..common.values import cast, constant_like, torch_dtype
from ..rules import torch_op
from .create import filled_tensor
from .shape import broadcast_tensors

# -- linear -----------------------------------------------------------------------------------------------------------


def transposed_weight(g: Graph, weight: ir.Value) -> ir.Value:
    """Return a matrix with its last two axes swapped; a constant is transposed lazily and shared by all callers."""
    perm = list(range(g.rank(weight)))
    perm[-2:] = perm[:-3:-1]
    if weight.const_value is None or not weight.is_initializer():
        return g.Transpose(weight, perm=perm)
    name = f"{weight.name}.T"
    # The outermost graph owns the initializer.
    known = weight.graph.initializers.get(name) if weight.graph is not None else None
    return known if known is not None else g.initializer(name, transposed_tensor(weight.const_value, perm))


@torch_op("linear")
def linear(g, x, weight, bias=None):
    if g.rank(x) == 2 and g.rank(weight) == 2:
        return g.Gemm(x, weight, bias, transB=1)
    out = g.MatMul(x, weight) if g.rank(weight) == 1 else g.MatMul(x, transposed_weight(g, weight))
    return out if bias is None else g.Add(out, bias)


@torch_op("bilinear")
def bilinear(g, input1, input2, weight, bias=None):
    """out[…, k] = Σ input1[…, i] weight[k, i, j] input2[…, j]."""
    left, right = g.Unsqueeze(input1, [-2]), g.Unsqueeze(input2, [-1])
    outer = g.MatMul(g.MatMul(g.Unsqueeze(left, [-3]), weight), g.Unsqueeze(right, [-3]))
    out = g.Squeeze(outer, [-2, -1])
    return out if bias is None else g.Add(out, bias)


@torch_op("embedding")
def embedding(g, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return g.Gather(weight, indices, axis=0)


# -- normalizations ---------------------------------------------------------------------------------------------------


def _filled_vector(g: Graph, length: int, number: float, x: ir.Value) -> ir.Value:
    return g.const(np.full(length, number, dtype=g.dtype(x).numpy()))


def _ones(g: Graph, x: ir.Value, shape: list[int | ir.Value]) -> ir.Value:
    known = [n for n in shape if isinstance(n, int)]
    if len(known) < len(shape):
        ones: ir.Value = filled_tensor(g, shape, 1, torch_dtype(g, x))
        return ones
    return g.const(np.ones(known, dtype=g.dtype(x).numpy()))


def _channels(g: Graph, x: ir.Value) -> int:
    channels = g.shape(x)[1]
    if not isinstance(channels, int):
        raise Unsupported("normalization over an unknown number of channels")
    return channels


_UPDATES = torch_op.limit(
    "batch_norm",
    "in training mode it updates its statistics, which TorchScript does not say; put the module in eval mode",
)


def _in_dtype_of_weights(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a normalization of halves with float32 weights or statistics, as autocast leaves them: compute in float32.

    The result has the dtype of x again.
    """

    @functools.wraps(rule)
    def widened(g: Graph, x: ir.Value, *args: Any, **kwargs: Any) -> Any:
        given = [v for v in (*args, *kwargs.values()) if isinstance(v, ir.Value)]
        if g.dtype(x) not in _HALVES or not any(g.dtype(v) == ir.DataType.FLOAT for v in given):
            return rule(g, x, *args, **kwargs)
        out = rule(g, cast(g, x, torch.float32), *args, **kwargs)
        return cast(g, out, g.dtype(x)) if isinstance(out, ir.Value) else [cast(g, out[0], g.dtype(x)), *out[1:]]

    return widened


_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


@torch_op("batch_norm")
@_in_dtype_of_weights
def batch_norm(
    g, x, weight, bias, running_mean, running_var, training=False, momentum=0.1, eps=1e-5, cudnn_enabled=True
):
    """Batch norm with the batch's statistics in training mode; momentum matters for training only."""
    if training or running_mean is None:
        if training and running_mean is not None:
            raise Unsupported(_UPDATES)
        return batch_statistics_norm(g, x, weight, bias, eps)
    if g.rank(x) == 1 or 0 in g.shape(
        x
    ):  # for one dim, PyTorch then accepts only empty inputs, with statistics of any length
        return x
    channels = _channels(g, x)
    scale = _filled_vector(g, channels, 1, x) if weight is None else weight
    shift = _filled_vector(g, channels, 0, x) if bias is None else bias
    # PyTorch's momentum is the weight of the new value; None means the plain average of all batches.
    kept = {} if momentum in (None, 0.1) else {"momentum": 1 - momentum}
    return g.BatchNormalization(x, scale, shift, running_mean, running_var, epsilon=eps, **kept)


@torch_op("_native_batch_norm_legit_no_training")
@_in_dtype_of_weights
def batch_norm_no_training(g, x, weight, bias, running_mean, running_var, momentum, eps):
    none = cast(g, g.const(np.zeros(0, np.float32)), g.dtype(x))
    return [batch_norm(g, x, weight, bias, running_mean, running_var, False, momentum, eps), none, none]


@torch_op("_native_batch_norm_legit_functional")
def batch_norm_updating(g, x, weight, bias, running_mean, running_var, training, momentum, eps):
    """Return the normalized input, mean and inverse deviation of the batch, and the updated running statistics."""
    if not training:
        out = batch_norm_no_training(g, x, weight, bias, running_mean, running_var, momentum, eps)
        return [*out, running_mean, running_var]
    axes = [i for i in range(g.rank(x)) if i != 1]
    mean = g.ReduceMean(x, axes)
    gap = g.Sub(x, mean)
    squares = g.Mul(gap, gap)
    biased = g.ReduceMean(squares, axes, keepdims=0)
    count = g.ReduceProd(vector(g, [size(g, x, i) for i in axes]), keepdims=0)
    others = g.Cast(g.Sub(count, 1), to=g.dtype(x))
    mean = g.Reshape(mean, [-1])
    moved = []
    for old, new in ((running_mean, mean), (running_var, g.Div(g.ReduceSum(squares, axes, keepdims=0), others))):
        new = cast(g, new, g.dtype(old))
        moved.append(
            g.Add(g.Mul(old, constant_like(g, 1 - momentum, old)), g.Mul(new, constant_like(g, momentum, old)))
        )
    scale = g.Reciprocal(g.Sqrt(g.Add(biased, constant_like(g, eps, x))))
    return [batch_statistics_norm(g, x, weight, bias, eps), mean, scale, *moved]


def batch_statistics_norm(
    g: Graph, x: ir.Value, weight: ir.Value | None, bias: ir.Value | None, eps: float
) -> ir.Value:
    """(x - mean) / sqrt(variance + eps), both over all dims but the channels of this batch."""
    rank = g.rank(x)
    axes = [i for i in range(rank) if i != 1]
    centred = g.Sub(x, g.ReduceMean(x, axes))
    spread_ = g.ReduceMean(g.Mul(centred, centred), axes)
    out = g.Div(centred, g.Sqrt(g.Add(spread_, constant_like(g, eps, x))))
    behind = list(range(1, rank - 1))
    for operator, factor in (("Mul", weight), ("Add", bias)):
        if factor is not None:
            out = g.node(operator, [out, g.Unsqueeze(factor, behind) if behind else factor])
    return out


@torch_op("instance_norm")
@_in_dtype_of_weights
def instance_norm(g, x, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    if not use_input_stats and running_mean is not None:
        return batch_norm(g, x, weight, bias, running_mean, running_var, eps=eps)
    channels = _channels(g, x)
    scale = _filled_vector(g, channels, 1, x) if weight is None else weight
    shift = _filled_vector(g, channels, 0, x) if bias is None else bias
    return g.InstanceNormalization(x, scale, shift, epsilon=eps)


@torch_op("layer_norm")
@_in_dtype_of_weights
def layer_norm(g, x, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    weight = _ones(g, x, list(normalized_shape)) if weight is None else weight
    return g.LayerNormalization(x, weight, bias, axis=-len(normalized_shape), epsilon=eps)


@torch_op("native_layer_norm")
@_in_dtype_of_weights
def native_layer_norm(g, x, normalized_shape, weight, bias, eps):
    """Return the normalized input, the mean and the inverse deviation."""
    axes = list(range(g.rank(x) - len(normalized_shape), g.rank(x)))
    centre = g.ReduceMean(x, axes)
    gap = g.Sub(x, centre)
    scale = g.Reciprocal(g.Sqrt(g.Add(g.ReduceMean(g.Mul(gap, gap), axes), constant_like(g, eps, x))))
    return [layer_norm(g, x, normalized_shape, weight, bias, eps), centre, scale]


@torch_op("group_norm")
@_in_dtype_of_weights
def group_norm(g, x, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    channels = _channels(g, x)
    scale = _filled_vector(g, channels, 1, x) if weight is None else weight
    shift = _filled_vector(g, channels, 0, x) if bias is None else bias
    out = g.GroupNormalization(x, scale, shift, num_groups=num_groups, epsilon=eps)
    return g.facts(out, g.dtype(x), g.shape(x))


@torch_op("rms_norm", "_fused_rms_norm")
@_in_dtype_of_weights
def rms_norm(g, x, normalized_shape, weight=None, eps=None):
    """Return x divided by its root mean square.

    If no epsilon is given, it is that of the dtype in which PyTorch computes: float32 also for float16 and bfloat16.
    """
    if eps is None:
        eps = torch.finfo(torch.float64 if g.dtype(x) == ir.DataType.DOUBLE else torch.float32).eps
    weight = _ones(g, x, list(normalized_shape)) if weight is None else weight
    return g.RMSNormalization(x, weight, axis=-len(normalized_shape), epsilon=eps)


@torch_op("cosine_similarity")
def cosine_similarity(g, x1, x2, dim=1, eps=1e-8):
    """x1·x2 divided by the product of their lengths, each at least eps."""
    if g.rank(x1) == 0 and g.rank(x2) == 0:
        x1, x2 = (g.Reshape(x, [1]) for x in (x1, x2))
        return cosine_similarity(g, x1, x2, 0, eps)
    rank = max(g.rank(x1), g.rank(x2))
    x1, x2 = (broadcast_to_rank(g, x, rank) for x in (x1, x2))
    axis, least = axis_of(g, x1, dim), constant_like(g, eps, x1)
    if g.shape(x1)[axis] != g.shape(x2)[axis]:
        x1, x2 = broadcast_tensors(g, [x1, x2])
    lengths = [g.Max(g.ReduceL2(x, [axis], keepdims=0), least) for x in (x1, x2)]
    return g.Div(g.ReduceSum(g.Mul(x1, x2), [axis], keepdims=0), g.Mul(*lengths))


@torch_op("native_group_norm")
@_in_dtype_of_weights
def native_group_norm(g, x, weight, bias, N, C, HxW, group, eps):
    """Return the normalized input, and mean and inverse deviation of each group, [N, groups]."""
    each = C // group * HxW if isinstance(C, int) and isinstance(HxW, int) else -1
    flat = reshape(g, x, [N, group, each])
    centre = g.ReduceMean(flat, [2])
    gap = g.Sub(flat, centre)
    scale = g.Reciprocal(g.Sqrt(g.Add(g.ReduceMean(g.Mul(gap, gap), [2]), constant_like(g, eps, x))))
    return [group_norm(g, x, group, weight, bias, eps), g.Squeeze(centre, [2]), g.Squeeze(scale, [2])]


@torch_op("_weight_norm")
def _weight_norm(g, v, gain, dim=0):
    """v scaled to the length `gain` along every dim but `dim`; -1 is one length for all (Salimans and Kingma, 2016)."""
    axes = [a for a in range(g.rank(v)) if dim == -1 or a != axis_of(g, v, dim)]
    return g.Mul(v, g.Div(gain, reduce_dims(g, "ReduceL2", v, axes)))
