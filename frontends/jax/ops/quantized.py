"""Quantization: numbers as integers times a scale, by ONNX's operators where these round as StableHLO does.

Operators on quantized tensors have become floating-point ones when rules are called (`context.separate_quantization`),
but for those that move elements.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ..rules import stablehlo_op
from ..types import Quantization

_WHOLE_BYTES = frozenset({ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16})


@stablehlo_op("uniform_dequantize")
def uniform_dequantize(g, x, *, operand_types):
    return dequantized(g, x, operand_types[0].quantized)


@stablehlo_op("uniform_quantize")
def uniform_quantize(g, x, *, operand_types, result):
    """A quantized operand is dequantized first."""
    before = operand_types[0].quantized
    return quantized(g, x if before is None else dequantized(g, x, before), result.quantized)


def dequantized(g: Graph, x: ir.Value, how: Quantization) -> ir.Value:
    """The numbers that integers stand for."""
    if how.storage in _WHOLE_BYTES and how.expressed == ir.DataType.FLOAT:
        return g.DequantizeLinear(x, *_parameters(g, how), axis=how.axis or 0)
    zero = _along(g, how, how.zero_points.astype(np.int32), x)
    steps = g.Cast(g.Sub(g.Cast(x, to=ir.DataType.INT32), zero), to=how.expressed)
    return g.Mul(steps, _along(g, how, how.scales, x))


def quantized(g: Graph, x: ir.Value, how: Quantization) -> ir.Value:
    """The nearest integers, halves to the even one once the zero point is added, as StableHLO says.

    QuantizeLinear rounds before it adds the zero point, which is the same for even ones.
    """
    info = np.iinfo(how.storage.numpy()) if how.storage in _WHOLE_BYTES else None
    whole = info is not None and (how.least, how.most) == (info.min, info.max)
    if whole and how.expressed == ir.DataType.FLOAT and not (how.zero_points % 2).any():
        return g.QuantizeLinear(x, *_parameters(g, how), axis=how.axis or 0)
    steps = g.Add(g.Div(x, _along(g, how, how.scales, x)), _along(g, how, how.zero_points, x))
    least, most = (np.array(n, how.expressed.numpy()) for n in (how.least, how.most))
    if float(most) > how.most:  # the largest int32 is no float32
        most = np.nextafter(most, np.zeros_like(most))
    return g.Cast(g.Round(g.Clip(steps, g.const(least), g.const(most))), to=how.storage)


def _parameters(g: Graph, how: Quantization) -> tuple[ir.Value, ir.Value]:
    """Scale and zero point as ONNX's operators take them."""
    scales, zeros = how.scales.astype(np.float32), how.zero_points.astype(how.storage.numpy())
    if how.axis is None:
        scales, zeros = scales.reshape(()), zeros.reshape(())
    return g.const(scales), g.const(zeros)


def _along(g: Graph, how: Quantization, numbers: np.ndarray, x: ir.Value) -> ir.Value:
    """Numbers in a shape that broadcasts along the quantized axis, in the expressed dtype if they are no integers."""
    kept = numbers if numbers.dtype == np.int32 else numbers.astype(how.expressed.numpy())
    shape = [] if how.axis is None else [-1 if a == how.axis else 1 for a in range(g.rank(x))]
    return g.const(kept.reshape(shape))
