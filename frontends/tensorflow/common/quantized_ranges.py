"""Integers that represent the numbers of a range: conversion from and to numbers, and between ranges.

The arithmetic is that of quantization_utils.h, in the same order and precision, so that every level equals
TensorFlow's.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from .quantization_levels import round_half_away

_F32, _F64 = np.float32, np.float64
_FLOAT, _DOUBLE, _INT32, _INT64 = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64

Range = tuple[ir.Value, ir.Value]
"""The real numbers of the lowest and the highest level, as float32 scalars."""

_LARGEST = _F32(2147483520)
"""The largest float32 that is a 32-bit integer."""


def static_zero_point(g: Graph, low: ir.Value, high: ir.Value, dtype: ir.DataType) -> int | None:
    """Return the level of zero in a range between constants (`FloatToQuantizedUnclamped`), else None."""
    least, most = g.static(low), g.static(high)
    if least is None or most is None:
        return None
    first, last = _F32(least.item()), _F32(most.item())
    limits = np.iinfo(dtype.numpy())
    if first == last:
        return int(limits.min)
    scaled = float(first) * _scale(limits.bits, float(last - first))
    return int(limits.min) - int(math.copysign(math.floor(abs(scaled) + 0.5), scaled))


def _scale(bits: int, span: float) -> float:
    steps = 2.0**bits
    return steps / (span * (steps / (steps - 1)))


def float_to_quantized_unclamped(
    g: Graph, x: ir.Value | np.float32, low: ir.Value, high: ir.Value, dtype: ir.DataType
) -> ir.Value:
    """Return the level of the number `x` as int64, also outside the range of `dtype` (`FloatToQuantizedUnclamped`)."""
    limits = np.iinfo(dtype.numpy())
    scale = g.Div(_F64(2.0**limits.bits), _range_width(g, low, high, limits.bits))
    above = g.Sub(
        round_half_away(g, g.Mul(_to_float64(g, x), scale)), round_half_away(g, g.Mul(_to_float64(g, low), scale))
    )
    return g.Add(g.Cast(g.Where(g.Equal(low, high), _F64(0), above), to=_INT64), np.int64(limits.min))


def _range_width(g: Graph, low: ir.Value, high: ir.Value, bits: int) -> ir.Value:
    """Return the width of a range in float64, plus one step.

    In 32 bits that is a product with 1 + 2⁻³², which onnxruntime removes because it treats the factor as 1. The sum is
    equally exact.
    """
    span = _to_float64(g, g.Sub(high, low))
    if bits == 32:
        return g.Add(span, g.Mul(span, _F64(2.0**-32)))
    return g.Mul(span, _F64(2.0**bits / (2.0**bits - 1)))


def _to_float64(g: Graph, x: ir.Value | np.float32) -> ir.Value:
    return g.Cast(x, to=_DOUBLE)


def saturate_cast(g: Graph, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Return int64 as `dtype`, saturated."""
    limits = np.iinfo(dtype.numpy())
    return g.Cast(g.Clip(x, np.int64(limits.min), np.int64(limits.max)), to=dtype)


def quantized_to_float(g: Graph, x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """Return the numbers that levels represent, computed in float64 (`QuantizedToFloat`)."""
    limits = np.iinfo(g.dtype(x).numpy())
    scale = g.Div(_range_width(g, low, high, limits.bits), _F64(2.0**limits.bits))
    narrow = g.Cast(scale, to=_FLOAT)
    start = g.Mul(round_half_away(g, g.Div(low, narrow)), narrow)
    above = g.Mul(g.Sub(_to_float64(g, x), _F64(limits.min)), scale)
    return g.Where(g.Equal(low, high), low, g.Cast(g.Add(_to_float64(g, start), above), to=_FLOAT))


def dequantize_tensor(g: Graph, x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """Return the numbers that a tensor of levels represents, computed in float32 (`DEQUANTIZE_WITH_EIGEN`)."""
    limits = np.iinfo(g.dtype(x).numpy())
    scale = g.Cast(g.Div(_to_float64(g, g.Sub(high, low)), _F64(2.0**limits.bits - 1)), to=_FLOAT)
    start = g.Where(g.Equal(low, high), low, g.Mul(round_half_away(g, g.Div(low, scale)), scale))
    return g.Add(g.Sub(start, g.Mul(_F32(limits.min), scale)), g.Mul(g.Cast(x, to=_FLOAT), scale))


def quantize_tensor(g: Graph, x: ir.Value, low: ir.Value, high: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Return the levels of a tensor of numbers, computed in float32 (`QUANTIZE_WITH_EIGEN`)."""
    limits = np.iinfo(dtype.numpy())
    wide = g.Div(_F64(2.0**limits.bits - 1), _to_float64(g, g.Sub(high, low)))
    scale = g.Where(g.Equal(low, high), _F32(0), g.Cast(wide, to=_FLOAT))
    shift = g.Sub(round_half_away(g, g.Mul(low, scale)), _F32(limits.min))
    steps = g.Sub(round_half_away(g, g.Mul(x, scale)), shift)
    return g.Cast(g.Min(g.Max(steps, _F32(limits.min)), min(_F32(limits.max), _LARGEST)), to=dtype)


def product_range(g: Graph, first: Range, second: Range) -> list[ir.Value]:
    """Return the range that 32-bit products of bytes represent (`QuantizationRangeForMultiplication`)."""
    steps = [g.Div(g.Sub(high, low), _F32(255)) for low, high in (first, second)]
    one = g.Mul(*steps)
    return [g.Mul(one, _F32(-(2.0**31))), g.Mul(one, _F32(2.0**31))]


def requantize_to_uint8(g: Graph, x: ir.Value, old: Range, new: Range) -> ir.Value:
    """Requantize int32 to uint8 of another range, in fixed point with 16 fractional bits
    (`RequantizeManyInNewRange`).
    """
    was, span = g.Sub(old[1], old[0]), g.Sub(new[1], new[0])
    none, wide = g.Equal(span, _F32(0)), g.Cast(span, to=_DOUBLE)
    inverse = g.Cast(g.Div(_F64(255), wide), to=_FLOAT)
    middle = g.Cast(g.Div(_to_float64(g, g.Add(*old)), _F64(2)), to=_FLOAT)
    factor = g.Div(g.Mul(_F64(255 * 2**16), _to_float64(g, was)), wide)
    before = g.Mul(g.Mul(middle, inverse), _F32(2**16))
    after = round_half_away(g, g.Div(g.Mul(g.Mul(_to_float64(g, new[0]), _F64(255)), _F64(2**16)), wide))
    factor, before, after = (g.Cast(g.Where(none, np.zeros((), g.dtype(v).numpy()), v), to=_INT64)
                             for v in (factor, before, after))  # fmt: skip
    rest = g.Add(g.Sub(before, after), np.int64(2**15))
    steps = g.Add(_shift_right(g, g.Mul(g.Cast(x, to=_INT64), factor), 32), rest)
    return saturate_cast(g, _shift_right(g, steps, 16), ir.DataType.UINT8)


def _shift_right(g: Graph, x: ir.Value, bits: int) -> ir.Value:
    """Shift int64 right with its sign; BitShift takes unsigned integers only."""
    unit = np.int64(2**bits)
    return g.Div(g.Sub(x, g.Mod(x, unit)), unit)


def requantize_tensor(g: Graph, x: ir.Value, old: Range, new: Range, dtype: ir.DataType) -> ir.Value:
    """Return levels of one range as levels of `dtype` of another."""
    if g.dtype(x) == _INT32 and dtype == ir.DataType.UINT8:
        return requantize_to_uint8(g, x, old, new)
    return quantize_tensor(g, dequantize_tensor(g, x, *old), *new, dtype)
