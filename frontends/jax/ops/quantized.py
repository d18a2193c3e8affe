"""Quantization, by ONNX's operators where they round as StableHLO does.

Before rules are called, `context.separate_quantization` replaces operators on quantized tensors by floating-point ones.
Only operators that move elements stay.
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
    """Quantize a tensor; dequantize the operand first if it is quantized."""
    before = operand_types[0].quantized
    return quantized(g, x if before is None else dequantized(g, x, before), result.quantized)


def dequantized(g: Graph, x: ir.Value, how: Quantization) -> ir.Value:
    """Return the real numbers that the integers represent."""
    if how.storage in _WHOLE_BYTES and how.expressed == ir.DataType.FLOAT:
        return g.DequantizeLinear(x, *_parameters(g, how), axis=how.axis or 0)
    zero = _along(g, how, how.zero_points.astype(np.int32), x)
    steps = g.Cast(g.Sub(g.Cast(x, to=ir.DataType.INT32), zero), to=how.expressed)
    return g.Mul(steps, _along(g, how, how.scales, x))


def quantized(g: Graph, x: ir.Value, how: Quantization) -> ir.Value:
    """Return the nearest integers. StableHLO adds the zero point and then rounds halves to even.

    QuantizeLinear rounds first, which gives the same for an even zero point.
    """
    info = np.iinfo(how.storage.numpy()) if how.storage in _WHOLE_BYTES else None
    whole = info is not None and (how.least, how.most) == (info.min, info.max)
    if whole and how.expressed == ir.DataType.FLOAT and not (how.zero_points % 2).any():
        return g.QuantizeLinear(x, *_parameters(g, how), axis=how.axis or 0)
    steps = g.Add(g.Div(x, _along(g, how, how.scales, x)), _along(g, how, how.zero_points, x))
    least, most = (np.array(n, how.expressed.numpy()) for n in (how.least, how.most))
    if float(most) > how.most:  # float32 cannot represent the largest int32
        most = np.nextafter(most, np.zeros_like(most))
    return g.Cast(g.Round(g.Clip(steps, g.const(least), g.const(most))), to=how.storage)


def _parameters(g: Graph, how: Quantization) -> tuple[ir.Value, ir.Value]:
    """Return scale and zero point in the form of ONNX's operators."""
    scales, zeros = how.scales.astype(np.float32), how.zero_points.astype(how.storage.numpy())
    if how.axis is None:
        scales, zeros = scales.reshape(()), zeros.reshape(())
    return g.const(scales), g.const(zeros)


def _along(g: Graph, how: Quantization, numbers: np.ndarray, x: ir.Value) -> ir.Value:
    """Return one number per index of the quantized axis, in a shape that broadcasts; floats in the expressed dtype."""
    kept = numbers if numbers.dtype == np.int32 else numbers.astype(how.expressed.numpy())
    shape = [] if how.axis is None else [-1 if a == how.axis else 1 for a in range(g.rank(x))]
    return g.const(kept.reshape(shape))
