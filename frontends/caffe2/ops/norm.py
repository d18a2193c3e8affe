"""Normalization."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import caffe2_op
from .layout import as_channels_first, from_channels_first


@caffe2_op("SpatialBN")
def spatial_bn(
    g: Graph, x: ir.Value, scale: ir.Value, bias: ir.Value, mean: ir.Value, variance: ir.Value, *, is_test: int = 0,
    epsilon: float = 1e-5, momentum: float = 0.9, order: str = "NCHW",
) -> ir.Value:  # fmt: skip
    """SpatialBN at inference; `momentum` is used in training only."""
    if not is_test:
        raise Unsupported("is_test=0: the net is one for training")
    return from_channels_first(
        g, g.BatchNormalization(as_channels_first(g, x, order), scale, bias, mean, variance, epsilon=epsilon), order
    )


@caffe2_op("InstanceNorm")
def instance_norm(
    g: Graph, x: ir.Value, scale: ir.Value, bias: ir.Value, *, epsilon: float = 1e-5, order: str = "NCHW"
) -> ir.Value:
    return from_channels_first(
        g, g.InstanceNormalization(as_channels_first(g, x, order), scale, bias, epsilon=epsilon), order
    )


@caffe2_op("GroupNorm")
def group_norm(
    g: Graph, x: ir.Value, scale: ir.Value, bias: ir.Value, *, group: int = 32, epsilon: float = 1e-5,
    order: str = "NCHW", is_test: int = 0,
) -> ir.Value:  # fmt: skip
    """GroupNorm. The kernel reads the argument `group`, although its schema has another name for it; `is_test` only
    adds outputs.
    """
    x = as_channels_first(g, x, order)
    y = g.facts(g.GroupNormalization(x, scale, bias, num_groups=group, epsilon=epsilon), g.dtype(x), g.shape(x))
    return from_channels_first(g, y, order)


@caffe2_op("LayerNorm")
def layer_norm(
    g: Graph, x: ir.Value, scale: ir.Value | None = None, bias: ir.Value | None = None, *, axis: int = 1,
    epsilon: float = 1e-5, elementwise_affine: int = 0,
) -> list[ir.Value]:  # fmt: skip
    """LayerNorm, mean and deviation; both statistics have one dim of size 1 for the dims from `axis` on."""
    shape = g.shape(x)
    axes = list(range(axis % len(shape), len(shape)))
    mean = g.ReduceMean(x, axes)
    centred = g.Sub(x, mean)
    variance = g.ReduceMean(g.Mul(centred, centred), axes)
    deviation = g.Sqrt(g.Add(variance, np.array(epsilon, g.dtype(x).numpy())))
    size = [shape[a] for a in axes]
    if scale is None and all(isinstance(d, int) for d in size):
        scale = g.const(np.ones(size, g.dtype(x).numpy()))
    y = g.Div(centred, deviation) if scale is None else g.LayerNormalization(x, scale, bias, axis=axis, epsilon=epsilon)
    spare = axes[1:]
    return [y, *(g.Squeeze(v, spare) if spare else v for v in (mean, deviation))]


@caffe2_op("Normalize")
def normalize(g: Graph, x: ir.Value, *, axis: int = -1) -> ir.Value:
    """x / max(‖x‖₂, 1e-12) along `axis`."""
    size = g.ReduceL2(x, [axis])
    return g.Div(x, g.Max(size, np.array(1e-12, g.dtype(x).numpy())))
