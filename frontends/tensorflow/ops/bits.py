"""Numbers by their bits: the next one that a dtype holds, the same bits as another dtype, and shifted bits."""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import tf_op

_INT64, _DOUBLE = ir.DataType.INT64, ir.DataType.DOUBLE
_FLOATS = {
    ir.DataType.FLOAT: np.dtype(np.float32), ir.DataType.FLOAT16: np.dtype(np.float16),
    ir.DataType.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
}  # fmt: skip
_UNSIGNED_LIKE = {
    ir.DataType.INT8: ir.DataType.UINT8, ir.DataType.INT16: ir.DataType.UINT16,
    ir.DataType.INT32: ir.DataType.UINT32, ir.DataType.INT64: ir.DataType.UINT64,
}  # fmt: skip
_UNSIGNED = frozenset(_UNSIGNED_LIKE.values())
DOUBLES = tf_op.limit("Bitcast", "the bits of float64 and bool: exponents go beyond what arithmetic in float64 reaches")


@tf_op("NextAfter")
def next_after(g: Graph, x1: ir.Value, x2: ir.Value) -> ir.Value:
    """The neighbour of x1 on the side of x2.

    Adding slightly more than half of a unit in the last place rounds to the neighbour (Rump, Zimmermann, Boldo and
    Melquiond, 2009); small numbers are scaled first, the smallest have a fixed distance.
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


@tf_op("Bitcast")
def bitcast(g: Graph, input: ir.Value, *, type: ir.DataType) -> ir.Value:
    """The same bits; several numbers of a last dim for a wider one, or a further dim of narrower ones.

    A NaN keeps no more of its bits than that it is one.
    """
    source, target = g.dtype(input), type
    if source == target:
        return input
    if _DOUBLE in (source, target) or ir.DataType.BOOL in (source, target):
        raise Unsupported(DOUBLES)
    have, want = (k.numpy().itemsize if k not in _FLOATS else _FLOATS[k].itemsize for k in (source, target))
    word = _float_to_bits(g, input, _FLOATS[source]) if source in _FLOATS else g.Cast(input, to=_INT64)
    word = _unsigned_word(g, word, have)
    if have > want:
        parts = [_unsigned_word(g, g.Div(g.Sub(word, _low_bytes(g, word, i * want)), np.int64(256 ** (i * want))), want)
                 for i in range(have // want)]  # fmt: skip
        word = g.Concat(*(g.Unsqueeze(p, [-1]) for p in parts), axis=-1)
    elif have < want:
        count = want // have
        weights = np.array([256 ** (i * have) for i in range(count)], np.uint64).astype(np.int64)
        word = g.ReduceSum(g.Mul(word, weights), [-1], keepdims=0)
    return _bits_to_float(g, word, _FLOATS[target]) if target in _FLOATS else _word_to_integer(g, word, target)


def _low_bytes(g: Graph, word: ir.Value, count: int) -> Any:
    """The lowest `count` bytes."""
    return g.Mod(word, np.int64(256**count)) if count else np.int64(0)


def _unsigned_word(g: Graph, word: ir.Value, count: int) -> ir.Value:
    """The lowest `count` bytes as a number that is not negative; eight of them stay as they are."""
    return word if count == 8 else g.Mod(word, np.int64(256**count))


def _word_to_integer(g: Graph, word: ir.Value, target: ir.DataType) -> ir.Value:
    info = np.iinfo(target.numpy())
    if info.min and info.bits < 64:
        word = g.Where(g.Greater(word, np.int64(info.max)), g.Sub(word, np.int64(2**info.bits)), word)
    return g.Cast(word, to=target) if target != _INT64 else word


def _float_format(kind: np.dtype) -> tuple[int, int, int]:
    """Bits of the fraction and of the whole number, and the lowest exponent."""
    info = ml_dtypes.finfo(kind)
    return int(info.nmant), kind.itemsize * 8, int(info.minexp)


def _float_to_bits(g: Graph, x: ir.Value, kind: np.dtype) -> ir.Value:
    """As int64; exact, because float64 holds every product by a power of two."""
    fraction, bits, lowest = _float_format(kind)
    wide = g.Cast(x, to=_DOUBLE)
    size = g.Abs(wide)
    highest = -lowest + 1
    powers = g.const(np.ldexp(1.0, np.arange(lowest, highest + 2)))
    back = g.const(np.ldexp(1.0, fraction - np.arange(lowest, highest + 2)))
    one, zero = np.float64(1), np.float64(0)
    infinite, none = g.Equal(size, np.float64(np.inf)), g.IsNaN(wide)
    finite = g.Where(g.Or(infinite, none), one, size)
    guess = g.Floor(g.Div(g.Log(g.Max(finite, np.float64(2.0**lowest))), np.float64(math.log(2))))
    place = g.Cast(g.Sub(guess, np.float64(lowest)), to=_INT64)
    place = g.Min(g.Max(place, np.int64(0)), np.int64(highest - lowest))
    above = g.GreaterOrEqual(finite, g.Gather(powers, g.Add(place, np.int64(1)), axis=0))
    below = g.And(g.Less(finite, g.Gather(powers, place, axis=0)), g.Greater(place, np.int64(0)))
    place = g.Add(place, g.Sub(g.Cast(above, to=_INT64), g.Cast(below, to=_INT64)))
    mantissa = g.Cast(g.Mul(finite, g.Gather(back, place, axis=0)), to=_INT64)
    word = g.Add(g.Mul(place, np.int64(2**fraction)), mantissa)
    top = np.int64((2 ** (bits - fraction - 1) - 1) << fraction)
    word = g.Where(infinite, top, g.Where(none, top + np.int64(1 << (fraction - 1)), word))
    negative = g.Or(g.Less(wide, zero), g.And(g.Equal(wide, zero), g.Less(g.Div(one, wide), zero)))
    return g.Add(word, g.Mul(g.Cast(negative, to=_INT64), np.int64(2 ** (bits - 1))))


def _bits_to_float(g: Graph, word: ir.Value, kind: np.dtype) -> ir.Value:
    fraction, bits, lowest = _float_format(kind)
    sign = np.int64(2 ** (bits - 1))
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
    target = next(k for k, v in _FLOATS.items() if v == kind)
    return g.Cast(g.Where(negative, g.Neg(size), size), to=target)


@tf_op("PopulationCount")
def population_count(g: Graph, x: ir.Value) -> ir.Value:
    """How many bits of each integer are set, negative ones in two's complement, as uint8."""
    kind = g.dtype(x)
    if kind.itemsize == 8:
        word = g.Cast(x, to=ir.DataType.UINT64)
        high = g.BitShift(word, g.const(32, ir.DataType.UINT64), direction="RIGHT")
        low = g.BitwiseAnd(word, g.const(2**32 - 1, ir.DataType.UINT64))
        words, count = [g.Cast(half, to=_INT64) for half in (high, low)], 4
    else:
        count = int(kind.itemsize)
        words = [_unsigned_word(g, g.Cast(x, to=_INT64), count)]
    ones = g.const(np.array([i.bit_count() for i in range(256)], np.int64))
    parts = [g.Mod(g.Div(word, np.int64(256**i)), np.int64(256)) for word in words for i in range(count)]
    counts = [g.Gather(ones, part, axis=0) for part in parts]
    return g.Cast(functools.reduce(g.Add, counts), to=ir.DataType.UINT8)


@tf_op("LeftShift")
def left_shift(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    return _bit_shift(g, x, y, "LEFT")


@tf_op("RightShift")
def right_shift(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    return _bit_shift(g, x, y, "RIGHT")


def _bit_shift(g: Graph, x: ir.Value, y: ir.Value, direction: str) -> ir.Value:
    """ONNX shifts unsigned integers only; a negative number shifts to the right as its complement does.

    TensorFlow shifts by no more than the width less 1, and by 0 where the amount is negative.
    """
    kind = g.dtype(x)
    y = _amount(g, y, int(8 * kind.itemsize) - 1)
    if kind not in _UNSIGNED:
        negative = g.Less(x, g.const(0, kind))
        x = g.Where(negative, g.BitwiseNot(x), x) if direction == "RIGHT" else x
        shifted = g.BitShift(*(g.Cast(v, to=_UNSIGNED_LIKE[kind]) for v in (x, y)), direction=direction)
        shifted = g.Cast(shifted, to=kind)
        return g.Where(negative, g.BitwiseNot(shifted), shifted) if direction == "RIGHT" else shifted
    return g.BitShift(x, y, direction=direction)


def _amount(g: Graph, y: ir.Value, most: int) -> ir.Value:
    kind, known = g.dtype(y), g.static(y)
    if known is not None:
        return g.const(np.clip(known, 0, most))
    return g.Clip(y, g.const(0, kind), g.const(most, kind))
