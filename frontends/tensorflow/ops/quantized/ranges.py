"""Numbers stored as integers with a range: QuantizeV2 and Dequantize in TensorFlow's three modes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...common.quantization_levels import broadcast_along_axis, round_half_away
from ...rules import tf_op

_F32 = np.float32
_FLOAT, _DOUBLE, _INT32 = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32
WIDE = tf_op.limit("QuantizeV2", "integers of 32 bits, which ONNX does not quantize to")


@tf_op("QuantizeV2")
def quantize_v2(
    g: Graph, input: ir.Value, min_range: ir.Value, max_range: ir.Value, *, T: ir.DataType, mode: str,
    round_mode: str, narrow_range: bool, axis: int, ensure_minimum_range: float,
) -> list[ir.Value]:  # fmt: skip
    """QuantizeV2: the integers, and the range that they represent (quantize_op.cc).

    QuantizeLinear gets numbers that are already rounded away from zero at halves, or unrounded ones if halves should go
    to even.
    """
    if T == _INT32:
        raise Unsupported(WIDE)
    limits = np.iinfo(T.numpy())
    low, high = _range_with_zero(g, min_range, max_range, _F32(ensure_minimum_range))
    if mode == "SCALED":
        first = _F32(limits.min + int(narrow_range))
        factor = _steps_per_unit(g, low, high, first, _F32(limits.max))
        low, high = g.Div(first, factor), g.Div(_F32(limits.max), factor)
        steps = g.Mul(_clip_to_range(g, input, low, high, axis), broadcast_along_axis(g, factor, input, axis))
        steps = steps if round_mode == "HALF_TO_EVEN" else round_half_away(g, steps)
    else:
        span = g.Cast(g.Sub(high, low), to=_DOUBLE)
        factor = g.Cast(g.Div(np.float64(limits.max - limits.min), span), to=_FLOAT)
        if mode == "MIN_FIRST":
            shift = g.Sub(round_half_away(g, g.Mul(low, factor)), _F32(limits.min))
            steps = g.Sub(round_half_away(g, g.Mul(input, factor)), shift)
        else:
            shifted = g.Sub(_clip_to_range(g, input, low, high, axis), broadcast_along_axis(g, low, input, axis))
            steps = g.Mul(shifted, broadcast_along_axis(g, factor, input, axis))
            steps = (
                round_half_away(g, g.Add(steps, _F32(limits.min))) if limits.min else g.Floor(g.Add(steps, _F32(0.5)))
            )
    return [g.QuantizeLinear(steps, _F32(1), np.array(0, T.numpy())), low, high]


def _range_with_zero(g: Graph, first: ir.Value, last: ir.Value, least: np.float32) -> tuple[ir.Value, ir.Value]:
    """Return a range that includes zero and is not too narrow. It is constant for constants, because kernels need its
    zero point.
    """
    known = g.static(first), g.static(last)
    if known[0] is not None and known[1] is not None:
        epsilon = np.maximum(np.maximum(np.abs(known[0]), np.abs(known[1])), _F32(1)) * least
        bottom = np.minimum(known[0], _F32(0))
        return g.const(bottom), g.const(np.maximum(np.maximum(known[1], bottom + epsilon), _F32(0)))
    epsilon = g.Mul(g.Max(g.Max(g.Abs(first), g.Abs(last)), _F32(1)), least)
    low = g.Min(first, _F32(0))
    return low, g.Max(g.Max(last, g.Add(low, epsilon)), _F32(0))


def _clip_to_range(g: Graph, x: ir.Value, low: ir.Value, high: ir.Value, axis: int) -> ir.Value:
    return g.Max(g.Min(x, broadcast_along_axis(g, high, x, axis)), broadcast_along_axis(g, low, x, axis))


def _steps_per_unit(g: Graph, low: ir.Value, high: ir.Value, first: np.float32, last: np.float32) -> ir.Value:
    """Return the steps per unit, for the side of the range that has fewer."""
    huge = np.finfo(_F32).max
    sides = [
        g.Where(g.Greater(g.Mul(end, limit), _F32(0)), g.Div(limit, end), huge)
        for end, limit in ((low, first), (high, last))
    ]
    return g.Min(*sides)


@tf_op("Dequantize")
def dequantize(
    g: Graph, input: ir.Value, min_range: ir.Value, max_range: ir.Value, *, mode: str, narrow_range: bool, axis: int,
    dtype: ir.DataType,
) -> ir.Value:  # fmt: skip
    """Dequantize: the numbers that integers between two ends of a range represent (dequantize_op.cc)."""
    kind = g.dtype(input)
    limits = np.iinfo(kind.numpy())
    if mode == "SCALED":
        scale = g.Div(max_range, _F32(limits.max))
        if limits.min:
            scale = g.Max(g.Div(min_range, _F32(limits.min + int(narrow_range))), scale)
        out = _dequantize(g, input, scale, 0, axis)
    else:
        count = _F32(limits.max) - _F32(limits.min)
        if mode == "MIN_FIRST":
            wide = g.Div(g.Cast(g.Sub(max_range, min_range), to=_DOUBLE), np.float64(limits.max - limits.min))
            scale = g.Cast(wide, to=_FLOAT)
            start = g.Mul(round_half_away(g, g.Div(min_range, scale)), scale)
            start = g.Where(g.Equal(max_range, min_range), min_range, start)
            out = g.Add(_dequantize(g, input, scale, 0, -1), g.Sub(start, g.Mul(scale, _F32(limits.min))))
        else:
            scale = g.Div(g.Sub(max_range, min_range), count)
            out = g.Add(_dequantize(g, input, scale, limits.min, axis), broadcast_along_axis(g, min_range, input, axis))
    return out if dtype == _FLOAT else g.Cast(out, to=dtype)


def _dequantize(g: Graph, x: ir.Value, scale: ir.Value, zero: int, axis: int) -> ir.Value:
    """Return (x - zero) · scale; ONNX has no 32-bit zero point."""
    dtype = g.dtype(x)
    if dtype == _INT32:
        return g.Mul(g.Sub(g.Cast(x, to=_FLOAT), _F32(zero)), broadcast_along_axis(g, scale, x, axis))
    nought = g.const(np.array(zero, dtype.numpy()))
    if axis == -1 or not g.rank(scale):
        return g.DequantizeLinear(x, scale, nought)
    return g.DequantizeLinear(x, scale, g.Expand(nought, g.dims(scale)), axis=axis)
