"""Fake quantisation."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

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
