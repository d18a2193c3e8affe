"""Pools."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.graph import Graph

from .. import known
from ..rules import node
from ..spatial import channels_back, channels_first, explicit, padding_of, spatial


@node("MaxPool")
def max_pool(
    g: Graph,
    input: ir.Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
) -> ir.Value:
    return _pool(g, "MaxPool", input, ksize, strides, padding, data_format, explicit_paddings)


@node("MaxPoolV2")
def max_pool_v2(
    g: Graph, input: ir.Value, ksize: ir.Value, strides: ir.Value, *, padding: str, data_format: str
) -> ir.Value:
    kernel, steps = known.ints(ksize, "ksize"), known.ints(strides, "strides")
    return _pool(g, "MaxPool", input, kernel, steps, padding, data_format)


@node("MaxPool3D")
def max_pool_3d(
    g: Graph, input: ir.Value, *, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str
) -> ir.Value:
    return _pool(g, "MaxPool", input, ksize, strides, padding, data_format)


@node("AvgPool")
def avg_pool(
    g: Graph, value: ir.Value, *, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str
) -> ir.Value:
    return _pool(g, "AveragePool", value, ksize, strides, padding, data_format)


@node("AvgPool3D")
def avg_pool_3d(
    g: Graph, input: ir.Value, *, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str
) -> ir.Value:
    return _pool(g, "AveragePool", input, ksize, strides, padding, data_format)


def _pool(
    g: Graph,
    operator: str,
    input: ir.Value,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str,
    explicit_paddings: Sequence[int] = (),
) -> ir.Value:
    x = channels_first(g, input, data_format)
    kernel, steps = spatial(ksize, data_format, "ksize"), spatial(strides, data_format, "strides")
    if padding == "EXPLICIT":
        pads: dict[str, object] = {"pads": explicit(explicit_paddings, data_format)}
    else:
        pads = padding_of(g.shape(x)[2:], kernel, steps, [1] * len(kernel), padding)
    return channels_back(g, g.node(operator, [x], {"kernel_shape": kernel, "strides": steps, **pads}), data_format)
