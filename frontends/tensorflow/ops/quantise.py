"""Fake quantisation: numbers rounded to levels and kept as numbers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from .. import known
from ..rules import node


@node("FakeQuantWithMinMaxArgs")
def fake_quant_args(
    g: Graph, inputs: ir.Value, *, min: float, max: float, num_bits: int, narrow_range: bool
) -> ir.Value:
    return _quantised(g, inputs, np.float32(min), np.float32(max), num_bits, narrow_range)


@node("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_vars(
    g: Graph, inputs: ir.Value, min: ir.Value, max: ir.Value, *, num_bits: int, narrow_range: bool
) -> ir.Value:
    low, high = g.static(min), g.static(max)
    if low is None or high is None:
        raise Unsupported("a range of quantisation that depends on data")
    return _quantised(g, inputs, low.astype(np.float32), high.astype(np.float32), num_bits, narrow_range)


def _quantised(g: Graph, x: ir.Value, low: np.ndarray, high: np.ndarray, bits: int, narrow: bool) -> ir.Value:
    """Rounded to 2ᵇⁱᵗˢ levels between `low` and `high`, moved so that zero is one of them (fake_quant_ops_functor.h).

    In float32 throughout, as TensorFlow does it, so that the levels are the same to the last bit.
    """
    least, most = np.float32(1 if narrow else 0), np.float32(2**bits - 1)
    scale = (high - low) / (most - least)
    start = least - low / scale
    zero = np.where(start < least, least, np.where(start > most, most, np.floor(start + np.float32(0.5))))
    bottom, top = ((least - zero) * scale).astype(np.float32), ((most - zero) * scale).astype(np.float32)
    inverse = (np.float32(1) / scale).astype(np.float32)
    clamped = g.Min(g.Max(x, np.float32(bottom)), np.float32(top))
    shifted = g.Sub(clamped, np.float32(bottom))
    steps = g.Floor(g.Add(g.Mul(shifted, np.float32(inverse)), np.float32(0.5)))
    return g.Add(g.Mul(steps, np.float32(scale)), np.float32(bottom))


@node("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")
def quantize_and_dequantize(
    g: Graph, input: ir.Value, input_min: ir.Value, input_max: ir.Value, *, signed_input: bool, num_bits: int,
    range_given: bool, round_mode: str, narrow_range: bool, axis: int,
) -> ir.Value:  # fmt: skip
    """Levels that are symmetrical about zero, over a range that is given or that of the numbers.

    The arithmetic is that of quantize_and_dequantize_op.h: the side that asks for the coarser levels decides.
    """
    if range_given:  # scalars: kernels take no range for each of an axis
        low, high = input_min, input_max
    else:
        axes = [i for i in range(g.rank(input)) if axis == -1 or i != axis % g.rank(input)]
        low, high = g.ReduceMin(input, axes), g.ReduceMax(input, axes)
    kind = g.dtype(input).numpy()
    least = -(2 ** (num_bits - 1)) + int(narrow_range) if signed_input else 0
    most = 2 ** (num_bits - 1) - 1 if signed_input else 2**num_bits - 1
    bottom, top = np.array(least, kind), np.array(most, kind)
    huge, zero = np.array(np.finfo(kind).max, kind), np.array(0, kind)
    from_low = g.Where(g.Greater(g.Mul(bottom, low), zero), g.Div(bottom, low), huge)
    from_high = g.Where(g.Greater(g.Mul(top, high), zero), g.Div(top, high), huge)
    by_low = g.Less(from_low, from_high)
    below = g.Div(low, bottom) if least else g.Mul(low, zero)
    step = g.Where(by_low, below, g.Div(high, top))
    scale = g.Where(by_low, from_low, from_high)
    if range_given:
        first, last = g.Where(by_low, low, g.Mul(bottom, step)), g.Where(by_low, g.Mul(top, step), high)
        input = g.Max(g.Min(input, last), first)
    scaled = g.Mul(input, scale)
    rounded = g.Floor(g.Add(scaled, np.array(0.5, kind))) if round_mode == "HALF_UP" else g.Round(scaled)
    return g.Mul(rounded, step)


@node("QuantizeAndDequantizeV3")
def quantize_and_dequantize_v3(
    g: Graph, input: ir.Value, input_min: ir.Value, input_max: ir.Value, num_bits: ir.Value, *, signed_input: bool,
    range_given: bool, narrow_range: bool, axis: int,
) -> ir.Value:  # fmt: skip
    return quantize_and_dequantize(
        g, input, input_min, input_max, signed_input=signed_input, num_bits=known.integer(num_bits, "num_bits"),
        range_given=range_given, round_mode="HALF_TO_EVEN", narrow_range=narrow_range, axis=axis,
    )  # fmt: skip
