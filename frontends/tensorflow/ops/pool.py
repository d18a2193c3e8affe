"""Pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common import shape_values
from ..common.conv_layout import explicit_pads, padding_attributes, spatial_entries, to_channels_first, to_data_format
from ..common.half_precision import BFLOAT16, in_float32
from ..patterns.conv1d import unpadded_source
from ..rules import tf_op

_WIDER = {
    ir.DataType.INT16: ir.DataType.FLOAT,
    ir.DataType.UINT16: ir.DataType.FLOAT,
    ir.DataType.INT32: ir.DataType.DOUBLE,
}
"""Integers that ONNX cannot pool, and dtypes that hold them."""


@tf_op("MaxPool")
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
    return _emit_pool(g, "MaxPool", input, ksize, strides, padding, data_format, explicit_paddings)


@tf_op("MaxPoolV2")
def max_pool_v2(
    g: Graph, input: ir.Value, ksize: ir.Value, strides: ir.Value, *, padding: str, data_format: str
) -> ir.Value:
    kernel, steps = shape_values.ints(ksize, "ksize"), shape_values.ints(strides, "strides")
    return _emit_pool(g, "MaxPool", input, kernel, steps, padding, data_format)


@tf_op("MaxPool3D")
def max_pool_3d(
    g: Graph, input: ir.Value, *, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str
) -> ir.Value:
    return _emit_pool(g, "MaxPool", input, ksize, strides, padding, data_format)


@tf_op("AvgPool")
def avg_pool(
    g: Graph, value: ir.Value, *, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str
) -> ir.Value:
    return _emit_pool(g, "AveragePool", value, ksize, strides, padding, data_format)


@tf_op("AvgPool3D")
def avg_pool_3d(
    g: Graph, input: ir.Value, *, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str
) -> ir.Value:
    return _emit_pool(g, "AveragePool", input, ksize, strides, padding, data_format)


def _emit_pool(
    g: Graph,
    operator: str,
    input: ir.Value,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str,
    explicit_paddings: Sequence[int] = (),
) -> ir.Value:
    wide = widened_for_pool(g, input)
    if wide is not input:
        found = _emit_pool(g, operator, wide, ksize, strides, padding, data_format, explicit_paddings)
        return g.Cast(found, to=g.dtype(input))
    x = to_channels_first(g, input, data_format)
    kernel, steps = spatial_entries(ksize, data_format, "ksize"), spatial_entries(strides, data_format, "strides")
    if padding == "EXPLICIT":
        pads: dict[str, Any] = {"pads": explicit_pads(explicit_paddings, data_format)}
    else:
        pads = padding_attributes(g.shape(x)[2:], kernel, steps, [1] * len(kernel), padding)
    if padding == "VALID" and operator == "MaxPool" and (unpadded := unpadded_source(g, x, positive=True)) is not None:
        below = all(p < k for p, k in zip((*unpadded[1], *unpadded[2]), kernel * 2, strict=True))
        x, pads = (unpadded[0], {"pads": [*unpadded[1], *unpadded[2]]}) if below else (x, pads)
    return to_data_format(g, g.node(operator, [x], {"kernel_shape": kernel, "strides": steps, **pads}), data_format)


def widened_for_pool(g: Graph, x: ir.Value) -> ir.Value:
    """Return `x` in a dtype that ONNX can pool and that holds it exactly; floating-point dtypes and bytes are kept.

    Raises `Unsupported` for int64.
    """
    dtype = g.dtype(x)
    if dtype == ir.DataType.INT64:
        raise Unsupported("a pool of int64, which ONNX lacks and float64 cannot represent")
    return g.Cast(x, to=_WIDER[dtype]) if dtype in _WIDER else x


@tf_op("Dilation2D")
@in_float32(BFLOAT16)
def dilation_2d(
    g: Graph, input: ir.Value, filter: ir.Value, *, strides: Sequence[int], rates: Sequence[int], padding: str
) -> ir.Value:
    """Dilation2D: the maximum of x + filter over a window, with one shifted image per kernel position."""
    steps, spread = spatial_entries(strides, "NHWC", "strides"), spatial_entries(rates, "NHWC", "rates")
    kernel, sizes = g.shape(filter)[:2], g.shape(input)[1:3]
    if not all(isinstance(d, int) for d in (*kernel, *sizes)):
        raise Unsupported("a dilation over a size that depends on data")
    numbers = [int(k or 0) for k in kernel]
    pads = padding_attributes(sizes, numbers, steps, spread, padding)["pads"]
    assert isinstance(pads, list)
    dtype, floating = g.dtype(input).numpy(), g.dtype(input).is_floating_point()
    least = g.const((np.finfo(dtype) if floating else np.iinfo(dtype)).min, input.dtype)
    x = g.Pad(input, np.array([0, *pads[:2], 0, 0, *pads[2:], 0], np.int64), least) if any(pads) else input
    whole = [int(s or 0) + pads[i] + pads[i + 2] for i, s in enumerate(sizes)]
    inside = np.zeros(whole, bool)
    inside[pads[0] : whole[0] - pads[2], pads[1] : whole[1] - pads[3]] = True
    reach = [w - (k - 1) * r for w, k, r in zip(whole, numbers, spread, strict=True)]
    found = None
    for row in range(numbers[0]):
        for column in range(numbers[1]):
            start = [row * spread[0], column * spread[1]]
            end = [s + r for s, r in zip(start, reach, strict=True)]
            part = g.Slice(x, start, end, [1, 2], steps)
            weight = g.Slice(filter, [row, column], [row + 1, column + 1], [0, 1])
            shifted = g.Add(part, g.Squeeze(weight, [0]))
            real = inside[start[0] : end[0] : steps[0], start[1] : end[1] : steps[1], None]
            if not floating and not real.all():  # adding a negative number to the least integer overflows
                shifted = g.Where(real, shifted, least)
            found = shifted if found is None else g.Max(found, shifted)
    if found is None:
        raise Unsupported("a kernel of no size")
    return found
