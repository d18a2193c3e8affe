"""Element-wise arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.values import constant
from convert.rules.table import Rule

from ..rules import elementwise_op, stablehlo_op
from ..types import FEW_BITS, FLOATS, UNSIGNED

MEAN_KEY = "convert.jax.mean"
"""Key in the `meta` of a sum over windows: their mean, and the number of elements in a window."""


def like(g: Graph, number: float, x: ir.Value) -> ir.Value:
    """Return a number in the dtype of `x`."""
    return g.const(number, g.dtype(x))


def is_bool(x: ir.Value) -> bool:
    """Return whether a value holds booleans."""
    return x.dtype == ir.DataType.BOOL


def is_float(x: ir.Value) -> bool:
    """Return whether a value holds floating numbers."""
    return x.dtype in FLOATS


def same(operator: str) -> Rule:
    """Return the rule of an operator that ONNX also has."""
    return lambda g, *operands: g.node(operator, operands)


for _name, _operator in {
    "abs": "Abs", "ceil": "Ceil", "cosine": "Cos", "exponential": "Exp", "floor": "Floor", "log": "Log",
    "logistic": "Sigmoid", "round_nearest_even": "Round", "sine": "Sin", "sqrt": "Sqrt",
    "tanh": "Tanh", "tan": "Tan",
}.items():  # fmt: skip
    elementwise_op(_name)(same(_operator))


def _on_booleans(operator: str, of_booleans: str) -> Callable[[Graph, ir.Value, ir.Value], ir.Value]:
    def rule(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
        return g.node(of_booleans if is_bool(x) else operator, [x, y])

    return rule


for _name, _operator, _of_booleans in (
    ("minimum", "Min", "And"),
    ("and", "BitwiseAnd", "And"), ("or", "BitwiseOr", "Or"), ("xor", "BitwiseXor", "Xor"),
):  # fmt: skip
    elementwise_op(_name)(_on_booleans(_operator, _of_booleans))


@elementwise_op("add")
def add(g, x, y):
    return g.Or(x, y) if is_bool(x) else g.Add(x, y)


@elementwise_op("multiply")
def multiply(g, x, y):
    return g.And(x, y) if is_bool(x) else g.Mul(x, y)


@elementwise_op("maximum")
def maximum(g, x, y):
    """Return the maximum. JAX starts each maximum at −∞, which is then left out."""
    if is_bool(x):
        return g.Or(x, y)
    for one, other in ((x, y), (y, x)):
        least = constant(one)
        if is_float(x) and least is not None and least.size == 1 and np.isneginf(least.numpy().ravel()[0]):
            return other
    return g.Max(x, y)


@elementwise_op("divide")
def divide(g, x, y):
    """A window's sum divided by its size is its mean, which the pool has computed already (`ops/window.py`)."""
    mean, size = x.meta.get(MEAN_KEY, (None, 0))
    divisor = constant(y)
    if mean is not None and divisor is not None and divisor.size == 1 and divisor.numpy().ravel()[0] == size:
        return mean
    zero, other = _zero_divisor(g, y)
    return g.Div(x, y) if zero is None else g.Where(zero, _all_bits(g, x), g.Div(x, other))


def _all_bits(g: Graph, x: ir.Value) -> ir.Value:
    """Return -1, or the largest number of an unsigned dtype."""
    return like(g, -1 if x.dtype not in UNSIGNED else np.iinfo(g.dtype(x).numpy()).max, x)


def _zero_divisor(g: Graph, y: ir.Value) -> tuple[ir.Value | None, ir.Value]:
    """Return where an integer divisor is 0, and the divisor with 1 there; None for one that cannot be 0.

    Runtimes end the process at an integer division by 0. XLA returns -1, and the dividend as the remainder: a program
    may compute these for elements that it does not use, as `jnp.gcd` does.
    """
    known = constant(y)
    if is_float(y) or (known is not None and bool(np.asarray(known.numpy()).all())):
        return None, y
    zero = g.Equal(y, like(g, 0, y))
    return zero, g.Where(zero, like(g, 1, y), y)


@elementwise_op("not")
def not_(g, x):
    return g.Not(x) if is_bool(x) else g.BitwiseNot(x)


@elementwise_op("subtract")
def subtract(g, x, y):
    """Flax's RMSNorm subtracts a mean of 0."""
    known = constant(y)
    if known is not None and known.size == 1 and g.rank(y) == 0 and is_float(x):
        number = float(known.numpy().ravel()[0])
        if number == 0 and not math.copysign(1, number) < 0:
            return x
    return g.Sub(x, y)


@elementwise_op("negate")
def negate(g, x):
    """Return -x; unsigned integers wrap around."""
    return g.Sub(like(g, 0, x), x) if x.dtype in UNSIGNED else g.Neg(x)


@elementwise_op("remainder")
def remainder(g, x, y):
    """The remainder has the sign of the dividend."""
    zero, divisor = _zero_divisor(g, y)
    return g.Mod(x, y, fmod=1) if zero is None else g.Where(zero, x, g.Mod(x, divisor, fmod=1))


@elementwise_op("power")
def power(g, x, y):
    """Return the power. Integers are squared and multiplied; for negative exponents the result is 1 / xⁿ truncated."""
    if is_float(x):
        return g.Pow(x, y)
    dtype, one = g.dtype(x), like(g, 1, x)
    signed = dtype not in UNSIGNED
    bits, exponent = dtype.bitwidth - signed, g.Cast(y, to=ir.DataType.UINT64)
    base, found = x, one
    for bit in range(bits):
        if bit:
            base = g.Mul(base, base)
        odd = g.BitwiseAnd(g.BitShift(exponent, like(g, bit, exponent), direction="RIGHT"), like(g, 1, exponent))
        found = g.Where(g.Equal(odd, like(g, 1, odd)), g.Mul(found, base), found)
    if not signed:
        return found
    zero, minus = like(g, 0, x), like(g, -1, x)
    truncated = g.Where(g.Equal(x, one), one, g.Where(g.Equal(x, minus), found, zero))
    return g.Where(g.Less(y, zero), truncated, found)


@elementwise_op("rsqrt")
def rsqrt(g, x):
    return g.Reciprocal(g.Sqrt(x))


@elementwise_op("cbrt")
def cbrt(g, x):
    """Return the signed cube root of |x|, corrected by a Newton step, because 1/3 is rounded; 0 and infinity stay."""
    root = g.Pow(g.Abs(x), like(g, 1 / 3, x))
    square = g.Mul(root, root)
    better = g.Sub(root, g.Div(g.Sub(root, g.Div(g.Abs(x), square)), like(g, 3.0, x)))
    kept = g.Or(g.Equal(x, like(g, 0.0, x)), g.IsInf(x))
    return g.Where(kept, x, g.Mul(g.Sign(x), better))


@elementwise_op("atan2")
def atan2(g, y, x):
    """Return the angle of (x, y), with the quadrants and signed zeros of C."""
    zero, pi = like(g, 0.0, x), like(g, math.pi, x)
    both_zero = g.And(g.Equal(x, zero), g.Equal(y, zero))
    both_infinite = g.And(g.IsInf(x), g.IsInf(y))
    quotient = g.Div(y, x)
    angle = g.Atan(g.Where(both_zero, y, g.Where(both_infinite, g.Mul(g.Sign(y), g.Sign(x)), quotient)))
    # 1 / x distinguishes -0 from 0, and so does 1 / y.
    left = g.Less(g.Where(g.Equal(x, zero), g.Reciprocal(x), x), zero)
    below = g.Less(g.Where(g.Equal(y, zero), g.Reciprocal(y), y), zero)
    turned = g.Add(angle, g.Where(below, g.Neg(pi), pi))
    # For a zero y and a negative x, the quotient is a zero with the opposite sign of y.
    straight = g.Where(below, g.Neg(pi), pi)
    result = g.Where(left, g.Where(g.Equal(y, zero), straight, turned), angle)
    right_angle = g.Where(below, like(g, -math.pi / 2, x), like(g, math.pi / 2, x))
    upright = g.And(g.Equal(x, zero), g.Not(g.Equal(y, zero)))
    return g.Where(upright, right_angle, result)


@elementwise_op("log_plus_one")
def log_plus_one(g, x):
    """Return log(1 + x), as 2 atanh(x / (2 + x)) where adding 1 would lose digits of x."""
    near = g.Mul(g.Atanh(g.Div(x, g.Add(x, like(g, 2.0, x)))), like(g, 2.0, x))
    small = g.Less(g.Abs(x), like(g, 0.5, x))
    return g.Where(small, near, g.Log(g.Add(x, like(g, 1.0, x))))


@elementwise_op("exponential_minus_one")
def exponential_minus_one(g, x):
    """Return exp(x) - 1 as tanh(x / 2) (exp(x) + 1), which keeps the digits of small x."""
    exp, one = g.Exp(x), like(g, 1.0, x)
    near = g.Mul(g.Tanh(g.Mul(x, like(g, 0.5, x))), g.Add(exp, one))
    return g.Where(g.Less(g.Abs(x), one), near, g.Sub(exp, one))


@elementwise_op("sign")
def sign(g, x):
    """NaN stays NaN."""
    if x.dtype in UNSIGNED:
        return g.Min(x, like(g, 1, x))
    return g.Where(g.IsNaN(x), x, g.Sign(x)) if is_float(x) else g.Sign(x)


@elementwise_op("round_nearest_afz")
def round_nearest_afz(g, x):
    """Round half away from zero. Adding a half would round up the number just below it."""
    down = g.Floor(g.Abs(x))
    up = g.GreaterOrEqual(g.Sub(g.Abs(x), down), like(g, 0.5, x))
    found = g.Mul(g.Sign(x), g.Where(up, g.Add(down, like(g, 1.0, x)), down))
    return g.Where(g.Or(g.IsInf(x), g.IsNaN(x)), x, found)


@elementwise_op("is_finite")
def is_finite(g, x):
    return g.Not(g.Or(g.IsInf(x), g.IsNaN(x)))


@elementwise_op("clamp")
def clamp(g, low, x, high):
    if all(v.shape is not None and len(v.shape) == 0 for v in (low, high)) and not is_bool(x):
        return g.Clip(x, low, high)
    if is_bool(x):
        return g.And(g.Or(x, low), high)
    return g.Min(g.Max(x, low), high)


_COMPARED = {"EQ": "Equal", "LT": "Less", "LE": "LessOrEqual", "GT": "Greater", "GE": "GreaterOrEqual"}


@elementwise_op("compare")
def compare(g, x, y, *, comparison_direction, compare_type=None):
    """Return the comparison. TOTALORDER orders -0 before 0, and NaN after all numbers; JAX passes no negative NaN."""
    if compare_type == "TOTALORDER" and is_float(x):
        return _in_total_order(g, x, y, comparison_direction)
    if is_bool(x) and comparison_direction not in ("EQ", "NE"):
        x, y = (g.Cast(v, to=ir.DataType.INT32) for v in (x, y))
    if comparison_direction == "NE":
        if x is y and is_float(x):
            return g.IsNaN(x)
        return g.Xor(x, y) if is_bool(x) else g.Not(g.Equal(x, y))
    return g.node(_COMPARED[comparison_direction], [x, y])


def _in_total_order(g: Graph, x: ir.Value, y: ir.Value, direction: str) -> ir.Value:
    """Return the comparison of numbers by ranks: NaN ranks 1 above infinity, zeros rank by their signs, which 1 / x
    shows.
    """
    if direction in ("GT", "GE"):
        return _in_total_order(g, y, x, {"GT": "LT", "GE": "LE"}[direction])
    zero = like(g, 0.0, x)
    x_nan, y_nan = g.IsNaN(x), g.IsNaN(y)
    both_zero = g.And(g.Equal(x, zero), g.Equal(y, zero))
    x_sign, y_sign = (g.Less(g.Reciprocal(v), zero) for v in (x, y))
    less = g.Where(both_zero, g.And(x_sign, g.Not(y_sign)), g.Or(g.Less(x, y), g.And(y_nan, g.Not(x_nan))))
    same_zero = g.And(both_zero, g.Not(g.Xor(x_sign, y_sign)))
    same = g.Where(both_zero, same_zero, g.Or(g.Equal(x, y), g.And(x_nan, y_nan)))
    if direction == "LT":
        return less
    if direction == "LE":
        return g.Or(less, same)
    return same if direction == "EQ" else g.Not(same)


@elementwise_op("select")
def select(g, which, x, y):
    return g.Where(which, x, y)


@elementwise_op("convert")
def convert(g, x, *, result):
    """Return x in another dtype. A constant number is rounded here, and keeps its digits for a run in float64.

    For a number outside the range of 8 or 16 bits, XLA returns the nearest integer; ONNX's Cast leaves it undefined.
    """
    number = constant(x) if result.dtype in FLOATS and not is_bool(x) else None
    if number is not None and number.size == 1 and (is_float(x) or abs(int(number.numpy().ravel()[0])) < 2**53):
        return g.const(np.asarray(number.numpy()).astype(np.float64), result.dtype)
    if is_float(x) and result.dtype in FEW_BITS and result.dtype != ir.DataType.BOOL:
        x = g.Cast(x, to=ir.DataType.FLOAT) if x.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) else x
        info = np.iinfo(result.dtype.numpy())
        x = g.Clip(x, like(g, info.min, x), like(g, info.max, x))
    return x if x.dtype == result.dtype else g.Cast(x, to=result.dtype)


@elementwise_op("reduce_precision")
def reduce_precision(g, x, *, exponent_bits, mantissa_bits):
    """Round to a format of the given numbers of bits; if a dtype has these, cast to it and back."""
    narrow = {(8, 23): ir.DataType.FLOAT, (8, 7): ir.DataType.BFLOAT16, (5, 10): ir.DataType.FLOAT16,
              (11, 52): ir.DataType.DOUBLE}.get((exponent_bits, mantissa_bits))  # fmt: skip
    if narrow is None:
        raise Unsupported(f"a format of {exponent_bits} bits of exponent and {mantissa_bits} of mantissa")
    wide = {ir.DataType.FLOAT16: 0, ir.DataType.BFLOAT16: 0, ir.DataType.FLOAT: 1, ir.DataType.DOUBLE: 2}
    if wide[narrow] >= wide[g.dtype(x)] and narrow != ir.DataType.BFLOAT16 and g.dtype(x) != ir.DataType.BFLOAT16:
        return x
    return g.Cast(g.Cast(x, to=narrow), to=g.dtype(x))


_WIDTH = {1: 8, 2: 16, 4: 32, 8: 64}


@elementwise_op("shift_left")
def shift_left(g, x, y):
    """Return the shift; bits beyond the width are lost, and shifts by the width or more give 0."""
    return _shifted(g, x, y, "LEFT")


@elementwise_op("shift_right_logical")
def shift_right_logical(g, x, y):
    return _shifted(g, x, y, "RIGHT")


@elementwise_op("shift_right_arithmetic")
def shift_right_arithmetic(g, x, y):
    """Return the shift that copies the highest bit, for unsigned numbers too: with that bit set, it is ~(~x >> y)."""
    dtype = g.dtype(x)
    if dtype in UNSIGNED:
        signed = ir.DataType[dtype.name.removeprefix("U")]
        return g.Cast(shift_right_arithmetic(g, g.Cast(x, to=signed), y), to=dtype)
    negative = g.Less(x, like(g, 0, x))
    size = g.Where(negative, g.BitwiseNot(x), x)
    moved = _shifted(g, size, y, "RIGHT")
    return g.Where(negative, g.BitwiseNot(moved), moved)


def _shifted(g: Graph, x: ir.Value, y: ir.Value, direction: str) -> ir.Value:
    """Return the shift of the bits as unsigned numbers, because ONNX shifts no others; casts between the two keep the
    bits.
    """
    dtype = g.dtype(x)
    bits = _WIDTH[np.dtype(dtype.numpy()).itemsize]
    unsigned = ir.DataType[f"UINT{bits}"]
    a, b = (v if v.dtype == unsigned else g.Cast(v, to=unsigned) for v in (x, y))
    moved = g.BitShift(a, b, direction=direction)
    inside = g.Less(b, g.const(bits, unsigned))
    found = g.Where(inside, moved, g.const(0, unsigned))
    return found if dtype == unsigned else g.Cast(found, to=dtype)


@elementwise_op("chlo.mulhi")
def mulhi(g, x, y):
    """Return the upper half of the product's bits; 64 bits are multiplied as halves of 32."""
    dtype = g.dtype(x)
    bits = _WIDTH[np.dtype(dtype.numpy()).itemsize]
    if bits < 64:
        wide = ir.DataType.UINT64 if dtype in UNSIGNED else ir.DataType.INT64
        product = g.Mul(*(g.Cast(v, to=wide) for v in (x, y)))
        upper = _shifted(g, product, g.const(bits, wide), "RIGHT")
        return g.Cast(g.BitwiseAnd(upper, g.const(2**bits - 1, wide)), to=dtype)
    unsigned, half = ir.DataType.UINT64, g.const(32, ir.DataType.UINT64)
    low = g.const(2**32 - 1, unsigned)
    a, b = (v if v.dtype == unsigned else g.Cast(v, to=unsigned) for v in (x, y))
    (a_low, a_high), (b_low, b_high) = ((g.BitwiseAnd(v, low), _shifted(g, v, half, "RIGHT")) for v in (a, b))
    middle = g.Add(g.Mul(a_high, b_low), _shifted(g, g.Mul(a_low, b_low), half, "RIGHT"))
    other = g.Add(g.Mul(a_low, b_high), g.BitwiseAnd(middle, low))
    upper = g.Add(g.Mul(a_high, b_high), g.Add(*(_shifted(g, v, half, "RIGHT") for v in (middle, other))))
    if dtype == unsigned:
        return upper
    found, zero = g.Cast(upper, to=dtype), like(g, 0, x)
    for one, factor in ((x, y), (y, x)):  # a negative number is 2⁶⁴ too large as an unsigned one
        found = g.Sub(found, g.Where(g.Less(one, zero), factor, zero))
    return found


@elementwise_op("popcnt")
def popcnt(g, x):
    """Return the number of set bits, looked up byte by byte."""
    dtype = g.dtype(x)
    bits = _WIDTH[np.dtype(dtype.numpy()).itemsize]
    unsigned = ir.DataType[f"UINT{bits}"]
    a = x if dtype == unsigned else g.Cast(x, to=unsigned)
    table = g.const(np.array([i.bit_count() for i in range(256)], np.int64))
    total = None
    for byte in range(bits // 8):
        part = g.BitShift(a, g.const(8 * byte, unsigned), direction="RIGHT") if byte else a
        low = g.BitwiseAnd(part, g.const(255, unsigned)) if bits > 8 else part
        count = g.Gather(table, g.Cast(low, to=ir.DataType.INT64))
        total = count if total is None else g.Add(total, count)
    return g.Cast(total, to=dtype)


@elementwise_op("count_leading_zeros")
def count_leading_zeros(g, x):
    """Return the width minus the number of set bits, after every bit below the highest set one is set as well."""
    dtype = g.dtype(x)
    bits = _WIDTH[np.dtype(dtype.numpy()).itemsize]
    unsigned = ir.DataType[f"UINT{bits}"]
    a = x if dtype == unsigned else g.Cast(x, to=unsigned)
    step = 1
    while step < bits:
        a = g.BitwiseOr(a, g.BitShift(a, g.const(step, unsigned), direction="RIGHT"))
        step *= 2
    return g.Cast(g.Sub(g.const(bits, unsigned), popcnt(g, a)), to=dtype)


@stablehlo_op("map")
def map_rule(g, *operands, dimensions, regions):
    return regions[0].apply(g, operands)


@elementwise_op("optimization_barrier")
def optimization_barrier(g, *operands):
    return list(operands)
