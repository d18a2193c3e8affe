"""The bits of numbers as arithmetic: reinterpretation as another dtype, and the next representable number."""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convert.graph import Graph

_INT64, _DOUBLE = ir.DataType.INT64, ir.DataType.DOUBLE
_FLOATS = {
    ir.DataType.FLOAT: np.dtype(np.float32), ir.DataType.FLOAT16: np.dtype(np.float16),
    ir.DataType.BFLOAT16: np.dtype(ml_dtypes.bfloat16), ir.DataType.DOUBLE: np.dtype(np.float64),
}  # fmt: skip


def next_after(g: Graph, x1: ir.Value, x2: ir.Value) -> ir.Value:
    """Return the neighbour of x1 towards x2.

    Adding slightly more than half a unit in the last place rounds to the neighbour (Rump, Zimmermann, Boldo and
    Melquiond, 2009). Small numbers are scaled first; the smallest have a fixed distance.
    """
    info = np.finfo(g.dtype(x1).numpy())
    kind = info.dtype.type
    half, least = float(info.eps) / 2, float(info.smallest_subnormal)
    number = lambda value: g.const(np.array(value, kind))  # noqa: E731
    factor = number(half * (1 + 2 * half))
    shape = g.Shape(g.Add(x1, x2))
    x, towards = g.Expand(x1, shape), g.Expand(x2, shape)
    size = g.Abs(x)
    direction = g.Where(g.Greater(towards, x), number(1), number(-1))
    large = g.Add(x, g.Mul(direction, g.Mul(factor, size)))
    scaled = g.Mul(x, number(1 / half))
    middle = g.Mul(g.Add(scaled, g.Mul(direction, g.Mul(factor, g.Abs(scaled)))), number(half))
    small = g.Add(x, g.Mul(direction, number(least)))
    out = g.Where(g.Less(size, number(least / half)), small, middle)
    out = g.Where(g.GreaterOrEqual(size, number(least / half / half)), large, out)
    out = g.Where(g.Equal(size, number(np.inf)), g.Mul(g.Sign(x), number(info.max)), out)
    out = g.Where(g.Equal(x, towards), towards, out)
    return g.Where(g.Or(g.IsNaN(x), g.IsNaN(towards)), number(np.nan), out)


def bitcast(g: Graph, x: ir.Value, target: ir.DataType) -> ir.Value:
    """Return the bits of `x` as another dtype. If the widths differ, numbers along the last dim are joined, or a last
    dim is added.

    A NaN stays a NaN, but its bits may change. Booleans are not supported.
    """
    source = g.dtype(x)
    if source == target:
        return x
    have, want = (k.numpy().itemsize for k in (source, target))
    word = _float_to_bits(g, x, _FLOATS[source]) if source in _FLOATS else g.Cast(x, to=_INT64)
    word = _unsigned_word(g, word, have)
    if have > want:
        parts = [_unsigned_word(g, g.Div(g.Sub(word, _low_bytes(g, word, i * want)), np.int64(256 ** (i * want))), want)
                 for i in range(have // want)]  # fmt: skip
        word = g.Concat(*(g.Unsqueeze(p, [-1]) for p in parts), axis=-1)
    elif have < want:
        count = want // have
        weights = np.array([256 ** (i * have) for i in range(count)], np.uint64).astype(np.int64)
        # onnxruntime 1.32 sums int64 in float64, so the parts are added one by one.
        parts = [g.Gather(g.Mul(word, weights), np.int64(i), axis=-1) for i in range(count)]
        word = functools.reduce(g.Add, parts)
    return _bits_to_float(g, word, _FLOATS[target]) if target in _FLOATS else _word_to_integer(g, word, target)


def _low_bytes(g: Graph, word: ir.Value, count: int) -> Any:
    """Return the lowest `count` bytes."""
    return g.Mod(word, np.int64(256**count)) if count else np.int64(0)


def _unsigned_word(g: Graph, word: ir.Value, count: int) -> ir.Value:
    """Return the lowest `count` bytes as a non-negative number; eight bytes stay unchanged."""
    return word if count == 8 else g.Mod(word, np.int64(256**count))


def _word_to_integer(g: Graph, word: ir.Value, target: ir.DataType) -> ir.Value:
    info = np.iinfo(target.numpy())
    if info.min and info.bits < 64:
        word = g.Where(g.Greater(word, np.int64(info.max)), g.Sub(word, np.int64(2**info.bits)), word)
    return g.Cast(word, to=target) if target != _INT64 else word


def _float_format(dtype: np.dtype) -> tuple[int, int, int]:
    """Return the number of bits of the fraction and of the whole number, and the lowest exponent."""
    info = ml_dtypes.finfo(dtype)
    return int(info.nmant), dtype.itemsize * 8, int(info.minexp)


def _sign_bit(bits: int) -> np.int64:
    """Return the number that the highest bit of a word stands for; of 64 bits the lowest int64."""
    return np.int64(2 ** (bits - 1) if bits < 64 else -(2**63))


def _float_to_bits(g: Graph, x: ir.Value, dtype: np.dtype) -> ir.Value:
    """Return the bits as int64; exact, because float64 holds every product with a power of two.

    The power is applied in two halves, because that of the smallest float64 is beyond the largest one.
    """
    fraction, bits, lowest = _float_format(dtype)
    wide = g.Cast(x, to=_DOUBLE)
    size = g.Abs(wide)
    highest = -lowest + 1
    exponents = np.arange(lowest, highest + 2)
    with np.errstate(over="ignore"):
        powers = g.const(np.ldexp(1.0, exponents))
    halves = [g.const(np.ldexp(1.0, (fraction - exponents + i) // 2)) for i in (0, 1)]
    one, zero = np.float64(1), np.float64(0)
    infinite, none = g.Equal(size, np.float64(np.inf)), g.IsNaN(wide)
    finite = g.Where(g.Or(infinite, none), one, size)
    guess = g.Floor(g.Div(g.Log(g.Max(finite, np.float64(2.0**lowest))), np.float64(math.log(2))))
    place = g.Cast(g.Sub(guess, np.float64(lowest)), to=_INT64)
    place = g.Min(g.Max(place, np.int64(0)), np.int64(highest - lowest))
    above = g.GreaterOrEqual(finite, g.Gather(powers, g.Add(place, np.int64(1)), axis=0))
    below = g.And(g.Less(finite, g.Gather(powers, place, axis=0)), g.Greater(place, np.int64(0)))
    place = g.Add(place, g.Sub(g.Cast(above, to=_INT64), g.Cast(below, to=_INT64)))
    scaled = g.Mul(g.Mul(finite, g.Gather(halves[0], place, axis=0)), g.Gather(halves[1], place, axis=0))
    word = g.Add(g.Mul(place, np.int64(2**fraction)), g.Cast(scaled, to=_INT64))
    top = np.int64((2 ** (bits - fraction - 1) - 1) << fraction)
    word = g.Where(infinite, top, g.Where(none, top + np.int64(1 << (fraction - 1)), word))
    negative = g.Or(g.Less(wide, zero), g.And(g.Equal(wide, zero), g.Less(g.Div(one, wide), zero)))
    return g.Add(word, g.Mul(g.Cast(negative, to=_INT64), _sign_bit(bits)))


def _bits_to_float(g: Graph, word: ir.Value, dtype: np.dtype) -> ir.Value:
    fraction, bits, lowest = _float_format(dtype)
    sign = _sign_bit(bits)
    if bits == 64:
        negative = g.Less(word, np.int64(0))
        word = g.Where(negative, g.Sub(word, sign), word)
    else:
        negative = g.GreaterOrEqual(word, sign)
        word = g.Mod(word, sign)
    exponent, mantissa = g.Div(word, np.int64(2**fraction)), g.Mod(word, np.int64(2**fraction))
    most = 2 ** (bits - fraction - 1) - 1
    scales = np.ldexp(1.0, np.maximum(np.arange(most), 1) + (lowest - 1 - fraction))
    scale = g.Gather(g.const(scales), g.Min(exponent, np.int64(most - 1)), axis=0)
    normal = g.Cast(g.Greater(exponent, np.int64(0)), to=_INT64)
    whole = g.Add(mantissa, g.Mul(normal, np.int64(2**fraction)))
    size = g.Mul(g.Cast(whole, to=_DOUBLE), scale)
    special = g.Where(g.Equal(mantissa, np.int64(0)), np.float64(np.inf), np.float64(np.nan))
    size = g.Where(g.Equal(exponent, np.int64(most)), special, size)
    target = next(k for k, v in _FLOATS.items() if v == dtype)
    return g.Cast(g.Where(negative, g.Neg(size), size), to=target)
