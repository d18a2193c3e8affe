"""Quantization levels of numbers, computed by TensorFlow's arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.metadata import EXACT_KEY
from convert.graph.tensors import dims_of, lazy_tensor

from .lazy_reshape import unsqueeze

_F32 = np.float32


@dataclass(frozen=True)
class Levels:
    """Levels of an unsigned integer of `bits`, float32, scalars or one for each index of the last axis.

    A number x has the level floor((x - bottom) · inverse - start + ½) + origin, and the level `zero` stands for 0.0;
    `divisor` is 1 / inverse. For a range [0, 0], every number has the level of zero.
    """

    scale: np.ndarray | ir.Value
    inverse: np.ndarray | ir.Value
    divisor: np.ndarray | ir.Value
    bottom: np.ndarray | ir.Value
    start: np.ndarray | ir.Value
    origin: np.ndarray | ir.Value
    zero: np.ndarray | ir.Value
    bits: int
    narrow: bool

    @property
    def least(self) -> int:
        """The lowest level."""
        return 1 if self.narrow else 0

    @property
    def most(self) -> int:
        """The highest level."""
        return int(2**self.bits - 1)

    @property
    def kind(self) -> ir.DataType:
        """The integer dtype that holds a level."""
        return ir.DataType.UINT8 if self.bits <= 8 else ir.DataType.UINT16


def check_bits(bits: int, least: int, most: int) -> None:
    """Raise `Unsupported` for a bit count that the kernels reject; the levels of a billion bits would fill memory."""
    if not least <= bits <= most:
        raise Unsupported(f"num_bits={bits}, which TensorFlow refuses")


def constant_levels(
    low: float | np.ndarray, high: float | np.ndarray, bits: int, narrow: bool, *, lite: bool = False
) -> Levels:
    """Return the levels between two numbers, shifted so that zero is one of them (`Nudge` in fake_quant_ops_functor.h).

    TensorFlow Lite counts levels from the lowest, and uses the reciprocal of the scale as the inverse.
    """
    check_bits(bits, 2, 16)
    low, high = np.asarray(low, _F32), np.asarray(high, _F32)
    least, most = _F32(1 if narrow else 0), _F32(2**bits - 1)
    none = (low == 0) & (high == 0)
    span = np.where(none, _F32(1), high - low)
    scale, inverse = np.where(none, _F32(1), span / (most - least)), np.where(none, _F32(0), (most - least) / span)
    place = np.clip(least - low / scale, least, most)
    whole = np.floor(place)
    zero = whole + (place - whole >= _F32(0.5)).astype(_F32)
    bottom = (least - zero) * scale
    start, origin = np.floor(-bottom * inverse + _F32(0.5)), zero
    if lite:
        inverse, start, origin = _F32(1) / scale, np.zeros_like(zero), np.full_like(zero, least)
    divisor = np.where(none, _F32(np.inf), scale)
    scale, inverse, divisor, bottom, start, origin, zero = (
        np.asarray(p, _F32) for p in (scale, inverse, divisor, bottom, start, origin, zero)
    )
    return Levels(scale, inverse, divisor, bottom, start, origin, zero, bits, narrow)


def run_time_levels(g: Graph, low: ir.Value, high: ir.Value, bits: int, narrow: bool) -> Levels:
    """Return the levels between two numbers that the model computes."""
    check_bits(bits, 2, 16)
    least, most = _F32(1 if narrow else 0), _F32(2**bits - 1)
    none = g.And(g.Equal(low, _F32(0)), g.Equal(high, _F32(0)))
    span = g.Sub(high, low)
    scale = g.Where(none, _F32(1), g.Div(span, most - least))
    inverse = g.Where(none, _F32(0), g.Div(most - least, span))
    place = g.Min(g.Max(g.Sub(least, g.Div(low, scale)), least), most)
    whole = g.Floor(place)
    zero = g.Add(whole, g.Cast(g.GreaterOrEqual(g.Sub(place, whole), _F32(0.5)), to=ir.DataType.FLOAT))
    bottom = g.Mul(g.Sub(least, zero), scale)
    start = g.Floor(g.Add(g.Mul(g.Neg(bottom), inverse), _F32(0.5)))
    return Levels(scale, inverse, g.Where(none, _F32(np.inf), scale), bottom, start, zero, zero, bits, narrow)


def fake_quantize(g: Graph, x: ir.Value, levels: Levels, *, divided: bool) -> ir.Value:
    """Return `x` rounded to its levels, as numbers. Some TensorFlow kernels divide by the scale and others multiply."""
    if isinstance(levels.zero, np.ndarray) and isinstance(levels.scale, np.ndarray) and x.const_value is not None:
        return _quantize_weight(g, x, levels, divided=divided)
    steps = x if _is_constant(levels.bottom, 0) else g.Sub(x, _as_computed(g, levels.bottom))
    by = _as_computed(g, levels.divisor if divided else levels.inverse)
    steps = g.Div(steps, by) if divided else g.Mul(steps, by)
    steps = steps if _is_constant(levels.start, 0) else g.Sub(steps, levels.start)
    steps = g.Floor(g.Add(steps, _F32(0.5)))
    if levels.narrow or levels.bits not in (8, 16):  # otherwise the integer saturates
        least, most = (_offset_from_zero(g, _F32(n), levels.origin) for n in (levels.least, levels.most))
        steps = g.Min(g.Max(steps, least), most)
    scale = _as_computed(g, levels.scale)
    origin, zero = (
        g.Cast(v, to=levels.kind) if isinstance(v, ir.Value) else g.const(v.astype(levels.kind.numpy()))
        for v in (levels.origin, levels.zero)
    )
    axis = g.rank(x) - 1 if g.rank(scale) else None
    one = g.const(1.0, ir.DataType.FLOAT) if axis is None else g.Expand(_F32(1), g.dims(scale))
    return g.DequantizeLinear(g.QuantizeLinear(steps, one, origin, axis=axis), scale, zero, axis=axis)


def _as_computed(g: Graph, parameter: np.ndarray | ir.Value) -> ir.Value:
    """Return a float32 parameter that TensorFlow computes in float32, even if it looks like a number that was
    written.
    """
    if isinstance(parameter, ir.Value):
        return parameter
    tensor = ir.Tensor(parameter)
    tensor.meta[EXACT_KEY] = parameter.astype(np.float64)
    return g.const(tensor)


def _offset_from_zero(g: Graph, level: np.float32, zero: np.ndarray | ir.Value) -> np.ndarray | ir.Value:
    return level - zero if isinstance(zero, np.ndarray) else g.Sub(level, zero)


def _is_constant(parameter: np.ndarray | ir.Value, number: float) -> bool:
    return isinstance(parameter, np.ndarray) and bool((parameter == number).all())


def _quantize_weight(g: Graph, x: ir.Value, levels: Levels, *, divided: bool) -> ir.Value:
    """Return a weight as integers, which stay unsigned even for a symmetrical range.

    Products of unsigned with signed bytes saturate in onnxruntime on processors without VNNI.
    """
    tensor, zero = x.const_value, levels.zero
    assert tensor is not None
    assert isinstance(zero, np.ndarray)
    assert isinstance(levels.scale, np.ndarray)
    shape, kind = list(dims_of(tensor)), levels.kind.numpy()

    def make() -> np.ndarray:
        steps = tensor.numpy() - levels.bottom
        steps = (steps / levels.divisor if divided else steps * levels.inverse) - levels.start
        return np.clip(np.floor(steps + _F32(0.5)) + levels.origin, levels.least, levels.most).astype(kind)

    stored = g.initializer(x.name or "const", lazy_tensor(levels.kind, shape, make))
    axis = len(shape) - 1 if zero.ndim else None
    return g.DequantizeLinear(stored, _as_computed(g, levels.scale), g.const(zero.astype(kind)), axis=axis)


def quantize_dequantize(
    g: Graph, x: ir.Value, low: ir.Value, high: ir.Value, ends: tuple[int, int], axis: int, *, up: bool, given: bool
) -> ir.Value:
    """Return `x` rounded to steps between `ends`, with zero at zero; the scale is that of the side that needs the
    larger step.

    The arithmetic is that of quantize_and_dequantize_op.h: halves go to the even step, or upwards; numbers outside a
    given range go to its end.
    """
    dtype = g.dtype(x).numpy()
    bottom, top = np.array(ends[0], dtype), np.array(ends[1], dtype)
    huge, zero = np.array(np.finfo(dtype).max, dtype), np.array(0, dtype)
    from_low = g.Where(g.Greater(g.Mul(bottom, low), zero), g.Div(bottom, low), huge)
    from_high = g.Where(g.Greater(g.Mul(top, high), zero), g.Div(top, high), huge)
    by_low = g.Less(from_low, from_high)
    step = g.Where(by_low, g.Div(low, bottom) if ends[0] else g.Mul(low, zero), g.Div(high, top))
    scale = g.Where(by_low, from_low, from_high)
    integer = _unsigned_dtype_for(ends) if dtype == _F32 else None
    if given and not (integer and integer[1] == ends):
        first, last = g.Where(by_low, low, g.Mul(bottom, step)), g.Where(by_low, g.Mul(top, step), high)
        x = g.Max(g.Min(x, broadcast_along_axis(g, last, x, axis)), broadcast_along_axis(g, first, x, axis))
    steps = g.Mul(x, broadcast_along_axis(g, scale, x, axis))
    if up:
        steps = g.Floor(g.Add(steps, np.array(0.5, dtype)))
    if integer is None:
        return g.Mul(steps if up else g.Round(steps), broadcast_along_axis(g, step, x, axis))
    nought = g.const(np.array(-integer[1][0], integer[0].numpy()))
    whole = g.QuantizeLinear(steps, g.const(1.0, ir.DataType.FLOAT), nought)
    if axis == -1:
        return g.DequantizeLinear(whole, step, nought)
    return g.DequantizeLinear(whole, step, g.Expand(nought, g.dims(step)), axis=axis)


def _unsigned_dtype_for(ends: tuple[int, int]) -> tuple[ir.DataType, tuple[int, int]] | None:
    """Return the unsigned integer dtype that holds the numbers between `ends`, and the ends of its range around
    zero.
    """
    for kind, count in ((ir.DataType.UINT8, 256), (ir.DataType.UINT16, 65536)):
        first = -count // 2 if ends[0] < 0 else 0
        if first <= ends[0] and ends[1] < first + count:
            return kind, (first, first + count - 1)
    return None


def round_half_away(g: Graph, x: ir.Value) -> ir.Value:
    """Return the nearest integer, with halves rounded away from zero."""
    size = g.Abs(x)
    whole = g.Floor(size)
    up = g.Cast(g.GreaterOrEqual(g.Sub(size, whole), np.array(0.5, g.dtype(x).numpy())), to=g.dtype(x))
    return g.Mul(g.Sign(x), g.Add(whole, up))


def broadcast_along_axis(g: Graph, parameter: ir.Value, x: ir.Value, axis: int) -> ir.Value:
    """Return a parameter, per tensor or per index of `axis`, in a shape that broadcasts against `x`."""
    return parameter if axis == -1 or not g.rank(parameter) else unsqueeze(g, parameter, range(1, g.rank(x) - axis))
