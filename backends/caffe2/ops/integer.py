"""Rules for integers that need several Caffe2 operators: shifts, powers, remainders."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..common.dtypes import ARITHMETIC, FLOAT, cast, widen
from ..common.shapes import broadcast
from ..net import Net
from ..rules import onnx_op

_INT64 = ir.DataType.INT64


@onnx_op("BitShift")
def bit_shift(net: Net, x: Blob, by: Blob, *, direction: str) -> Blob:
    """BitShift-11: multiply or divide by a power of 2 from a table; for negative numbers, divide the complement."""
    if x.dtype == _INT64 and direction == "LEFT":
        raise Unsupported(_LEFT)
    wide, places = cast(net, x, _INT64), cast(net, by, _INT64)
    # A shift beyond the width gives 0; a negative amount is read as an unsigned number.
    within = net.And(net.GE(places, net.const(np.array(0))), net.LE(places, net.const(np.array(62))))
    inside = cast(net, net.facts(within, shape=by.shape), _INT64)
    powers = net.Gather(net.const(np.array([1 << i for i in range(63)], np.int64)), net.Mul(places, inside))
    net.facts(powers, _INT64, by.shape)
    if direction == "LEFT":
        return cast(net, net.Mul(net.Mul(wide, powers), inside), x.dtype)
    if x.dtype in (ir.DataType.UINT8, ir.DataType.UINT16):
        return cast(net, net.Mul(net.Div(wide, powers), inside), x.dtype)
    minus = net.Negative(cast(net, net.LT(wide, net.const(np.array(0))), _INT64))
    a, m = broadcast(net, wide, minus)
    quotient = net.facts(net.Mul(net.Div(net.BitwiseXor(a, m), powers), inside), _INT64)
    return cast(net, net.BitwiseXor(*broadcast(net, quotient, m)), x.dtype)


_LEFT = onnx_op.limit("BitShift", "a shift of int64 to the left: Caffe2 has no wider integer to lose bits in")


def integer_power(net: Net, x: Blob, exponent: Blob) -> Blob:
    """Return integers raised to integer powers from 0 to 63, one bit of the exponent at a time.

    From 64 on, only −1, 0 and 1 have powers that fit, and those equal their powers of 62 or 63. For negative exponents
    the quotient is truncated.
    """
    base, e = widen(net, x, ARITHMETIC), cast(net, exponent, _INT64)
    negative = net.LT(e, net.const(np.array(0)))
    size = net.Mul(e, net.Sign(e))
    odd = net.Sub(size, net.Mul(net.Div(size, _two(net)), _two(net)))
    large = net.GT(size, net.const(np.array(63)))
    size = net.Where(*broadcast(net, large, net.Add(odd, net.const(np.array(62))), size))
    one = net.const(np.ones((), base.dtype.numpy()))
    result: Blob | None = None
    for bit in range(6):
        half = net.Div(size, _two(net))
        set_ = cast(net, net.Sub(size, net.Mul(half, _two(net))), base.dtype)
        # base if the bit is set, else 1
        factor = net.Add(net.Mul(set_, net.Sub(base, one)), one)
        result = factor if result is None else net.Mul(result, factor)
        size = half
        if bit < 5:
            base = net.Mul(base, base)
    assert result is not None
    unit = net.EQ(net.Mul(result, result), one)  # among negative powers, only those of 1 and −1 are integers
    inverse = net.Mul(result, cast(net, unit, result.dtype))
    kept = net.Where(*broadcast(net, negative, inverse, result))
    return cast(net, kept, x.dtype)


def _two(net: Net) -> Blob:
    return net.const(np.array(2, np.int64))


def mixed_power(net: Net, x: Blob, exponent: Blob) -> Blob:
    """Return integers raised to floating-point powers: integral exponents exactly, others in float32 and truncated."""
    whole = cast(net, exponent, _INT64)
    wide = widen(net, exponent, FLOAT)
    is_whole = net.EQ(cast(net, whole, ir.DataType.FLOAT), wide)
    exact = cast(net, integer_power(net, x, whole), x.dtype)
    rounded = net.Pow(*broadcast(net, cast(net, x, ir.DataType.FLOAT), wide))
    wide_exact = widen(net, exact, ARITHMETIC)
    return cast(net, net.Where(*broadcast(net, is_whole, wide_exact, cast(net, rounded, wide_exact.dtype))), x.dtype)


def float_remainder(net: Net, a: Blob, b: Blob, fmod: int) -> Blob:
    """Return the remainder of a / b by long division in float64 with 28-bit digits, with the sign of a (C's fmod) or of
    b.

    A quotient of float32 numbers has at most 277 bits before the point; each digit times the divisor is exact.
    """
    if a.dtype == ir.DataType.DOUBLE:
        raise Unsupported(_DOUBLE)
    digits = 2 if a.dtype == ir.DataType.FLOAT16 else 10
    x, y = (cast(net, cast(net, v, ir.DataType.FLOAT), ir.DataType.DOUBLE) for v in (a, b))
    rest, divisor = broadcast(net, x, y)
    for digit in reversed(range(digits)):
        scale = net.const(np.array(2.0 ** (28 * digit)))
        step = net.Mul(divisor, scale) if digit else divisor
        quotient = cast(net, cast(net, net.Div(rest, step), _INT64), ir.DataType.DOUBLE)
        rest = net.Sub(rest, net.Mul(quotient, step))
    infinite = net.EQ(net.Mul(y, net.Sign(y)), net.const(np.array(np.inf)))
    rest = net.Where(*broadcast(net, infinite, x, rest))
    if not fmod:
        other = net.LT(net.Mul(net.Sign(rest), y), net.const(np.array(0.0)))
        rest = net.Where(*broadcast(net, other, net.Add(rest, y), rest))
    # NaN if a is infinite, b is 0, or either is NaN.
    none = net.Add(net.Sub(x, x), net.Div(net.const(np.array(0.0)), y))
    return cast(net, cast(net, net.Add(rest, none), ir.DataType.FLOAT), a.dtype)


_DOUBLE = onnx_op.limit("Mod", "a remainder of float64: Caffe2 has nothing wider to divide exactly in")
