"""Operators on bits: the next representable number, reinterpretation as another dtype, and shifts."""

from __future__ import annotations

import functools

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics import bits

from ..rules import tf_op

_INT64 = ir.DataType.INT64
_UNSIGNED_LIKE = {
    ir.DataType.INT8: ir.DataType.UINT8, ir.DataType.INT16: ir.DataType.UINT16,
    ir.DataType.INT32: ir.DataType.UINT32, ir.DataType.INT64: ir.DataType.UINT64,
}  # fmt: skip
_UNSIGNED = frozenset(_UNSIGNED_LIKE.values())
BOOLEANS = tf_op.limit("Bitcast", "the bits of bool")


@tf_op("NextAfter")
def next_after(g: Graph, x1: ir.Value, x2: ir.Value) -> ir.Value:
    return bits.next_after(g, x1, x2)


@tf_op("Bitcast")
def bitcast(g: Graph, input: ir.Value, *, type: ir.DataType) -> ir.Value:
    if ir.DataType.BOOL in (g.dtype(input), type) and g.dtype(input) != type:
        raise Unsupported(BOOLEANS)
    return bits.bitcast(g, input, type)


@tf_op("PopulationCount")
def population_count(g: Graph, x: ir.Value) -> ir.Value:
    """Count the set bits of each integer, negative ones in two's complement, as uint8."""
    dtype = g.dtype(x)
    if dtype.itemsize == 8:
        word = g.Cast(x, to=ir.DataType.UINT64)
        high = g.BitShift(word, g.const(32, ir.DataType.UINT64), direction="RIGHT")
        low = g.BitwiseAnd(word, g.const(2**32 - 1, ir.DataType.UINT64))
        words, count = [g.Cast(half, to=_INT64) for half in (high, low)], 4
    else:
        count = int(dtype.itemsize)
        words = [g.Mod(g.Cast(x, to=_INT64), np.int64(256**count))]
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
    """ONNX shifts unsigned integers only; a negative number is shifted right by way of its complement.

    TensorFlow clamps the amount to the width minus 1, and a negative amount to 0.
    """
    dtype = g.dtype(x)
    y = _amount(g, y, int(8 * dtype.itemsize) - 1)
    if dtype not in _UNSIGNED:
        negative = g.Less(x, g.const(0, dtype))
        x = g.Where(negative, g.BitwiseNot(x), x) if direction == "RIGHT" else x
        shifted = g.BitShift(*(g.Cast(v, to=_UNSIGNED_LIKE[dtype]) for v in (x, y)), direction=direction)
        shifted = g.Cast(shifted, to=dtype)
        return g.Where(negative, g.BitwiseNot(shifted), shifted) if direction == "RIGHT" else shifted
    return g.BitShift(x, y, direction=direction)


def _amount(g: Graph, y: ir.Value, most: int) -> ir.Value:
    dtype, known = g.dtype(y), g.static(y)
    if known is not None:
        return g.const(np.clip(known, 0, most))
    return g.Clip(y, g.const(0, dtype), g.const(most, dtype))
