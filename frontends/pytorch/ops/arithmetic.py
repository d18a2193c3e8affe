"""Arithmetic on two or three operands with PyTorch's dtype promotion; minima, maxima, and clamps."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.graph import Graph
from convert.graph.values import constant

from ..common.values import (
    NARROW_INTEGERS,
    Operand,
    as_value,
    cast,
    cast_to_floating,
    constant_like,
    is_bool,
    is_float,
    is_scalar,
    mark_if_scalars,
    promote_operands,
    result_dtype,
    torch_dtype,
)
from ..rules import torch_op
from .unary import frexp, log1p, signbit, trunc


@torch_op("add")
def add(g, x, y, *, alpha=1):
    a, b = promote_operands(g, x, y)
    if is_bool(g, a):
        return g.Or(a, b)
    return mark_if_scalars(g.Add(a, _scale_by_alpha(g, b, alpha)), x, y)


@torch_op("sub", "subtract")
def sub(g, x, y, *, alpha=1):
    a, b = promote_operands(g, x, y)
    return mark_if_scalars(g.Sub(a, _scale_by_alpha(g, b, alpha)), x, y)


@torch_op("rsub")
def rsub(g, x, y, alpha=1):
    return sub(g, y, x, alpha=alpha)


def _scale_by_alpha(g: Graph, x: ir.Value, alpha: Operand) -> ir.Value:
    if not isinstance(alpha, ir.Value) and alpha == 1:
        return x
    return g.Mul(x, as_value(g, alpha, g.dtype(x)))


@torch_op("mul", "multiply")
def mul(g, x, y):
    a, b = promote_operands(g, x, y)
    return g.And(a, b) if is_bool(g, a) else mark_if_scalars(g.Mul(a, b), x, y)


@torch_op("div", "divide", "true_divide")
def div(g, x, y, *, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(g, x, y)
    a, b = promote_operands(g, x, y)
    if rounding_mode == "trunc":
        return trunc(g, g.Div(a, b)) if is_float(g, a) else g.Div(a, b)
    return mark_if_scalars(g.Div(cast_to_floating(g, a), cast_to_floating(g, b)), x, y)


@torch_op("floor_divide", "floordiv")
def floor_divide(g, x, y):
    """floor(x / y), exact for integers: the truncated quotient, minus one if that is too large.

    Floats follow `c10::div_floor_floating`: -1 divided by infinity gives -1.
    """
    a, b = promote_operands(g, x, y)
    if is_scalar(x) and is_scalar(y) and not is_float(g, a):  # Python numbers, which are far from their limits
        return mark_if_scalars(g.Div(g.Sub(a, g.Mod(a, b)), b), x, y)
    if not is_float(g, a):
        return floor_divide_integers(g, a, b)
    rest, opposite = _truncated_remainder(g, a, b)
    quotient = g.Round(g.Sub(g.Div(g.Sub(a, rest), b), cast(g, opposite, g.dtype(a))))
    return mark_if_scalars(g.Where(g.Equal(b, constant_like(g, 0, b)), g.Div(a, b), quotient), x, y)


def _truncated_remainder(g: Graph, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the truncated remainder of floats, and whether its sign differs from the divisor's."""
    rest, zero = g.Mod(a, b, fmod=1), constant_like(g, 0, a)
    return rest, g.And(g.Not(g.Equal(rest, zero)), g.Xor(g.Less(rest, zero), g.Less(b, zero)))


def floor_divide_integers(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the floored quotient of integers, without an intermediate overflow: x minus its remainder would overflow
    near the least integer.
    """
    if not g.dtype(a).is_signed():
        return g.Div(a, b)
    zero = constant_like(g, 0, a)
    above = g.And(g.Xor(g.Less(a, zero), g.Less(b, zero)), g.Not(g.Equal(g.Mod(a, b), zero)))
    return g.Sub(g.Div(a, b), cast(g, above, g.dtype(a)))


@torch_op("remainder")
def remainder(g, x, y):
    """Return the remainder with the sign of the divisor."""
    a, b = promote_operands(g, x, y)
    if not is_float(g, a):
        return mark_if_scalars(g.Mod(a, b), x, y)
    rest, opposite = _truncated_remainder(g, a, b)
    return mark_if_scalars(g.Where(opposite, g.Add(rest, b), rest), x, y)


@torch_op("fmod")
def fmod(g, x, y):
    """Return the remainder with the sign of the dividend."""
    a, b = promote_operands(g, x, y)
    # Runtimes call the C function on floats, and floats cannot hold large integers.
    return g.Mod(a, b, fmod=1) if is_float(g, a) else g.Sub(a, g.Mul(g.Div(a, b), b))


@torch_op("pow")
def pow_(g, x, exponent):
    a, b = promote_operands(g, x, exponent)
    if torch_dtype(g, a) in NARROW_INTEGERS:
        return _narrow_power(g, a, b)
    return mark_if_scalars(g.Pow(a, b), x, exponent)


def _narrow_power(g: Graph, x: ir.Value, exponent: ir.Value) -> ir.Value:
    """Return a power that wraps around: a product in the dtype for a small constant, else by squaring in int32.

    Runtimes compute Pow in floats. For negative exponents PyTorch returns powers of 1 and −1, and 0 otherwise.
    """
    known = constant(exponent)
    times = int(known.numpy()) if known is not None and g.rank(exponent) == 0 else 0
    if 1 <= times <= 8:
        return functools.reduce(g.Mul, [x] * times)
    square, left = g.Cast(x, to=ir.DataType.INT32), g.Cast(exponent, to=ir.DataType.INT32)
    zero, one, two = (constant_like(g, n, square) for n in range(3))
    negative = g.Less(left, zero)
    base, left = square, g.Abs(left)
    odd = g.Equal(g.Mod(left, two), one)
    out = g.Where(odd, base, one)
    parity = g.Where(odd, base, one)
    for _ in range(g.dtype(x).bitwidth - 1):
        square, left = g.Mul(square, square), g.Div(left, two)
        out = g.Where(g.Equal(g.Mod(left, two), one), g.Mul(out, square), out)
    inverse = g.Where(g.Equal(g.Abs(base), one), parity, zero)
    return g.Cast(g.Where(negative, inverse, out), to=g.dtype(x))


@torch_op("float_power")
def float_power(g, x, exponent):
    return g.Pow(as_value(g, x, torch.float64), as_value(g, exponent, torch.float64))


def _promote_to_floating(g: Graph, x: Operand, y: Operand) -> tuple[ir.Value, ir.Value]:
    a, b = promote_operands(g, x, y)
    return cast_to_floating(g, a), cast_to_floating(g, b)


@torch_op("atan2", "arctan2")
def atan2(g, y, x):
    """Return the angle of (x, y): atan(y / x) in the right quadrant, with signed zeros and infinities as in C."""
    b, a = _promote_to_floating(g, y, x)
    diagonal = g.And(g.IsInf(a), g.IsInf(b))
    b, a = (g.Where(diagonal, g.Sign(v), v) for v in (b, a))
    zero, pi, half = constant_like(g, 0.0, a), constant_like(g, math.pi, a), constant_like(g, math.pi / 2, a)
    negative_y = signbit(g, b)
    turn = g.Where(negative_y, g.Neg(pi), pi)
    both_zero = g.And(g.Equal(a, zero), g.Equal(b, zero))
    # Never divide by zero, even if another branch is taken, because the gradient would be NaN.
    one = constant_like(g, 1.0, a)
    slope = g.Div(b, g.Where(g.Equal(a, zero), one, a))
    base = g.Where(both_zero, g.Where(negative_y, g.Neg(zero), zero), g.Atan(slope))
    upright = g.And(g.Equal(a, zero), g.Greater(g.Abs(b), zero))  # False for NaN
    # Here a / b is zero, and has the gradient of the angle.
    steep = g.Sub(g.Where(negative_y, g.Neg(half), half), g.Div(a, g.Where(g.Equal(b, zero), one, b)))
    base = g.Where(upright, steep, base)
    return g.Where(g.And(signbit(g, a), g.Not(upright)), g.Add(base, turn), base)


@torch_op("hypot")
def hypot(g, x, y):
    a, b = promote_operands(g, x, y)
    a, b = g.Abs(a), g.Abs(b)
    large, small = g.Max(a, b), g.Min(a, b)
    ratio = g.Div(small, g.Where(g.Equal(large, constant_like(g, 0.0, large)), constant_like(g, 1.0, large), large))
    length = g.Mul(large, g.Sqrt(g.Add(g.Mul(ratio, ratio), constant_like(g, 1.0, ratio))))
    infinite = g.Or(g.IsInf(a), g.IsInf(b))  # infinity even if the other part is NaN, as in C
    return g.Where(infinite, constant_like(g, math.inf, length), length)


@torch_op("logaddexp")
def logaddexp(g, x, y):
    a, b = promote_operands(g, x, y)
    gap = g.Abs(g.Sub(a, b))
    half = constant_like(g, 0.5, a)  # if both numbers are equal, even infinite, each gets half of the gradient
    same = g.Add(g.Add(g.Mul(a, half), g.Mul(b, half)), constant_like(g, math.log(2), a))
    return g.Where(g.Equal(a, b), same, g.Add(g.Max(a, b), log1p(g, g.Exp(g.Neg(gap)))))


@torch_op("logaddexp2")
def logaddexp2(g, x, y):
    a, b = promote_operands(g, x, y)
    two = constant_like(g, math.log(2), a)
    return g.Div(logaddexp(g, g.Mul(a, two), g.Mul(b, two)), two)


@torch_op("xlogy", "special_xlogy")
def xlogy(g, x, y):
    a, b = _promote_to_floating(g, x, y)
    zero = constant_like(g, 0.0, a)
    return g.Where(g.And(g.Equal(a, zero), g.Not(g.IsNaN(b))), zero, g.Mul(a, g.Log(b)))


@torch_op("copysign")
def copysign(g, x, y):
    a, b = _promote_to_floating(g, x, y)
    return g.Where(signbit(g, b), g.Neg(g.Abs(a)), g.Abs(a))


@torch_op("heaviside")
def heaviside(g, x, values):
    if is_bool(g, x):
        return g.Or(x, values)
    zero = constant_like(g, 0, x)
    step = cast(g, g.Greater(x, zero), g.dtype(x))
    return g.Where(g.Equal(x, zero), values, step)


def _extreme_rule(operator: str) -> Any:
    def rule(g: Graph, x: Operand, y: Operand) -> ir.Value:
        a, b = promote_operands(g, x, y)
        if is_bool(g, a):
            return g.Or(a, b) if operator == "Max" else g.And(a, b)
        return mark_if_scalars(g.node(operator, [a, b]), x, y)

    return rule


torch_op.same(
    _extreme_rule,
    maximum="Max",
    minimum="Min",
    **{"max.other": "Max", "min.other": "Min", "sym_max": "Max", "sym_min": "Min"},
)


def _extreme_number_rule(operator: str) -> Any:
    def rule(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
        a, b = promote_operands(g, x, y)
        if is_bool(g, a):
            return g.Or(a, b) if operator == "Max" else g.And(a, b)
        out = g.node(operator, [a, b])
        return g.Where(g.IsNaN(a), b, g.Where(g.IsNaN(b), a, out)) if is_float(g, a) else out

    return rule


torch_op.same(_extreme_number_rule, fmax="Max", fmin="Min")


@torch_op("clamp", "clip")
def clamp(g, x, min=None, max=None):
    dtype = result_dtype(g, x, min, max)
    out = cast(g, x, dtype)
    if dtype == torch.bool:
        out = out if min is None else g.Or(out, as_value(g, min, dtype))
        return out if max is None else g.And(out, as_value(g, max, dtype))
    if all(_is_finite_bound(g, b) for b in (min, max)):
        # A missing bound of Clip is the largest finite number, to which infinity would be clipped.
        bounds = [None if b is None and not dtype.is_floating_point else as_value(g, end if b is None else b, dtype)
                  for b, end in ((min, -math.inf), (max, math.inf))]  # fmt: skip
        return g.Clip(out, *bounds)
    out = out if min is None else g.Max(out, as_value(g, min, dtype))
    return out if max is None else g.Min(out, as_value(g, max, dtype))


def _is_finite_bound(g: Graph, bound: Any) -> bool:
    """Return True if there is no bound, or if it is a number other than NaN; Clip ignores NaN and PyTorch does not."""
    if isinstance(bound, ir.Value):
        known = constant(bound)
        return known is not None and g.rank(bound) == 0 and not np.isnan(known.numpy()).any()
    return bound is None or bound == bound


@torch_op("clamp_min")
def clamp_min(g, x, min):
    return clamp(g, x, min=min)


@torch_op("clamp_max")
def clamp_max(g, x, max):
    return clamp(g, x, max=max)


# -- three operands ---------------------------------------------------------------------------------------------------


@torch_op("addcmul")
def addcmul(g, x, tensor1, tensor2, *, value=1):
    start, a, b = promote_operands(g, x, tensor1, tensor2)
    return g.Add(start, _scale_by_alpha(g, g.Mul(a, b), value))


@torch_op("addcdiv")
def addcdiv(g, x, tensor1, tensor2, *, value=1):
    start, a, b = promote_operands(g, x, tensor1, tensor2)
    return g.Add(start, _scale_by_alpha(g, g.Div(a, b), value))


@torch_op("lerp")
def lerp(g, x, end, weight):
    """x + weight (end - x), computed from the other end if weight is 0.5 or more, as in PyTorch."""
    weight = as_value(g, weight, g.dtype(x))
    gap, one = g.Sub(end, x), constant_like(g, 1.0, x)
    near = g.Less(g.Abs(weight), constant_like(g, 0.5, weight))
    return g.Where(near, g.Add(x, g.Mul(weight, gap)), g.Sub(end, g.Mul(gap, g.Sub(one, weight))))


_DIGITS = {torch.float32: (24, -149), torch.float64: (53, -1074), torch.float16: (11, -24), torch.bfloat16: (8, -133)}


@torch_op("nextafter")
def nextafter(g, x, y):
    """Return the neighbour of x towards y: x plus or minus the spacing of floats there, half of it below a power of
    two.
    """
    a, b = promote_operands(g, x, y)
    digits, lowest = _DIGITS[torch_dtype(g, a)]
    mantissa, exponent = frexp(g, a)
    up = g.Greater(b, a)
    inwards = g.Equal(up, g.Less(a, constant_like(g, 0, a)))
    edge = g.And(inwards, g.Equal(g.Abs(mantissa), constant_like(g, 0.5, a)))
    wide = g.Cast(exponent, to=g.dtype(a))
    power = g.Sub(wide, g.Where(edge, constant_like(g, digits + 1, a), constant_like(g, digits, a)))
    gap = g.Pow(constant_like(g, 2.0, a), g.Max(power, constant_like(g, lowest, a)))
    gap = g.Where(g.Equal(a, constant_like(g, 0, a)), constant_like(g, 2.0**lowest, a), gap)
    moved = g.Where(up, g.Add(a, gap), g.Sub(a, gap))
    moved = g.Where(g.IsInf(a), g.Mul(g.Sign(a), constant_like(g, torch.finfo(torch_dtype(g, a)).max, a)), moved)
    return g.Where(g.Or(g.IsNaN(a), g.IsNaN(b)), constant_like(g, math.nan, a), g.Where(g.Equal(a, b), b, moved))
