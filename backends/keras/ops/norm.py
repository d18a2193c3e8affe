"""Normalization."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from keras import KerasTensor, layers, ops

from convert.errors import Unsupported
from convert.graph.values import is_used
from convert.semantics.windows import channel_window

from ..constants import Constant
from ..emitter import Emitter, Value
from ..rules import channels_last, onnx_op
from ..tensors import halves_in_float32, plus
from .reduce import mean_by_axis


@channels_last("BatchNormalization")
def batch_normalization(k, x, scale, bias, mean, var, *, epsilon, momentum, training_mode):
    if training_mode or k.outputs > 1:
        raise Unsupported("BatchNormalization in training mode")
    values = (scale, bias, mean, var)
    if x.shape[-1] is None:
        raise Unsupported("channels of dynamic number")
    if all(isinstance(v, Constant) for v in values):
        weights = dict(zip(("gamma", "beta", "moving_mean", "moving_variance"), values, strict=True))
        return k.layer(layers.BatchNormalization, x, weights, momentum=momentum, epsilon=epsilon)
    scale, bias, mean, var = k.tensors(*values)
    factor = ops.divide(scale, ops.sqrt(ops.add(var, epsilon)))
    return plus(x * factor, ops.subtract(bias, ops.multiply(mean, factor)))


@channels_last("InstanceNormalization")
def instance_normalization(k, x, scale, bias, *, epsilon):
    return _group_norm(k, x, scale, bias, epsilon, -1)


@channels_last("GroupNormalization")
def group_normalization(k, x, scale, bias, *, epsilon, num_groups, stash_type):
    return _group_norm(k, x, scale, bias, epsilon, num_groups)


def _group_norm(k: Emitter, x: KerasTensor, scale: Value, bias: Value, epsilon: float, groups: int) -> KerasTensor:
    """Apply the layer between transposes to channels first, so that it averages over the last axes.

    TensorFlow adds sequentially over other axes: for 96² pixels the error would be 1.4e-4 instead of 3e-7. The
    transposes take 0.3 to 1.1 of the layer's time (`tests/benchmarks/norms.py`).
    """
    if x.shape[-1] is None:
        raise Unsupported("channels of dynamic number")
    if groups == x.shape[-1] and x.dtype in ("float32", "float64") and all(d in (1, None) for d in x.shape[1:-1]):
        x = _centered(x)
    first = k.channels_first(x)
    if isinstance(scale, Constant) and isinstance(bias, Constant):
        weights = {"gamma": scale, "beta": bias}
        return k.channels_last(
            k.layer(layers.GroupNormalization, first, weights, groups=groups, axis=1, epsilon=epsilon)
        )
    plain = layers.GroupNormalization(groups, axis=1, epsilon=epsilon, center=False, scale=False, dtype=x.dtype)
    factor, offset = k.tensors(scale, bias)
    normal: Any = k.channels_last(plain(first))
    return plus(normal * factor, offset)


def _centered(x: KerasTensor) -> KerasTensor:
    """Subtract the mean of each channel, so that a group of one element becomes exactly 0.

    The layer multiplies element and mean by 1 / √ε before it subtracts them, which enlarges rounding errors 316 times.
    """
    spatial = list(range(1, len(x.shape) - 1))
    return ops.subtract(x, mean_by_axis(x, spatial, True) if spatial else x)


_FEW = 3
"""Maximum row length that is computed without the layer. The layer's error relative to PyTorch's, on normal numbers, is
1.67 for 2 elements, 1.27 for 3 and 0.93 for 8.
"""


def gives_no_statistics(node: ir.Node) -> bool:
    """Return whether mean and inverse deviation of a LayerNormalization are unused."""
    return not any(is_used(v) for v in node.outputs[1:])


@onnx_op("LayerNormalization", when=gives_no_statistics, otherwise="the statistics of a LayerNormalization")
def layer_normalization(k, x, scale, bias, *, axis, epsilon, stash_type):
    rank = len(x.shape)
    axes = list(range(axis % rank, rank))
    own = tuple(x.shape[a] for a in axes)
    constant = isinstance(scale, Constant) and isinstance(bias, Constant | None)
    # The layer subtracts the mean after scaling both. For two nearly equal elements, as in such short rows, only
    # rounding errors remain.
    few = all(isinstance(n, int) for n in own) and math.prod(own) <= _FEW
    if constant and not few and all(w is None or w.shape == own for w in (scale, bias)):
        weights = {"gamma": scale, "beta": bias}
        return k.layer(layers.LayerNormalization, x, weights, axis=axes, epsilon=epsilon, center=bias is not None)
    y = _centered_to_scale(k, x, axes, epsilon) * k.tensor(scale)
    return y if bias is None else plus(y, k.tensor(bias))


@halves_in_float32
def _centered_to_scale(k: Emitter, x: KerasTensor, axes: list[int], epsilon: float) -> KerasTensor:
    """Return (x − mean) / √(variance + ε)."""
    centered = x - ops.mean(x, axis=axes, keepdims=True)
    return centered * ops.rsqrt(ops.mean(ops.square(centered), axis=axes, keepdims=True) + epsilon)


@onnx_op("RMSNormalization")
def rms_normalization(k, x, scale, *, axis, epsilon, stash_type):
    rank = len(x.shape)
    axes = list(range(axis % rank, rank))
    if isinstance(scale, Constant) and scale.shape == tuple(x.shape[a] for a in axes):
        return k.layer(layers.RMSNormalization, x, {"scale": scale}, axis=axes, epsilon=epsilon)
    return _to_scale(k, x, axes, epsilon) * k.tensor(scale)


@halves_in_float32
def _to_scale(k: Emitter, x: KerasTensor, axes: list[int], epsilon: float) -> KerasTensor:
    """Return x / √(mean square + ε)."""
    return x * ops.rsqrt(ops.mean(ops.square(x), axis=axes, keepdims=True) + epsilon)


@onnx_op("LpNormalization")
@halves_in_float32
def lp_normalization(k, x, *, axis, p):
    if p not in (1, 2):
        raise Unsupported(f"LpNormalization with p={p}")
    size = ops.abs(x) if p == 1 else ops.square(x)
    norm = ops.sum(size, axis=axis, keepdims=True)
    # The standard leaves a zero vector zero.
    return ops.divide_no_nan(x, norm if p == 1 else ops.sqrt(norm))


@channels_last("LRN")
@halves_in_float32
def local_response_normalization(k, x, *, alpha, beta, bias, size):
    channels = x.shape[-1]
    if channels is None:
        raise Unsupported("channels of dynamic number")
    before, after = channel_window(size, channels)
    square = ops.pad(ops.square(x), [[0, 0]] * (len(x.shape) - 1) + [[before, after]])
    total = sum((square[..., i : i + channels] for i in range(1, before + 1 + after)), square[..., :channels])
    return x / ops.power(bias + np.float32(alpha / size).item() * total, beta)
