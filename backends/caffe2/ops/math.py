"""Rules for element-wise arithmetic, with the casts that Caffe2's kernels need."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.rules import Rule

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..common.shapes import broadcast
from ..net import Net
from ..rules import onnx_op
from .integer import float_remainder, integer_power, mixed_power


def unary_rule(operator: str) -> Rule:
    """Return the rule of an operator that has a float32 kernel only."""

    def rule(net: Net, x: Blob) -> Blob:
        return cast(net, net.op(operator, [widen(net, x, FLOAT)]), x.dtype)

    return rule


def arithmetic_rule(operator: str) -> Rule:
    """Return the rule of a binary operator that broadcasts; small dtypes are computed in wide ones."""

    def rule(net: Net, a: Blob, b: Blob) -> Blob:
        return compute_binary(net, operator, a, b)

    return rule


def compute_binary(net: Net, operator: str, a: Blob, b: Blob) -> Blob:
    """Apply a binary operator that computes in the dtype of `a`."""
    return cast(net, net.op(operator, [widen(net, a), widen(net, b)]), a.dtype)


onnx_op.same(
    unary_rule,
    Acos="Acos", Asin="Asin", Atan="Atan", Ceil="Ceil", Cos="Cos", Cosh="Cosh", Erf="Erf", Exp="Exp", Floor="Floor",
    Log="Log", Sin="Sin", Sinh="Sinh", Tan="Tan",
)  # fmt: skip
onnx_op.same(arithmetic_rule, Add="Add", Sub="Sub", Mul="Mul")


@onnx_op("Div")
def div(net: Net, a: Blob, b: Blob) -> Blob:
    divisor = net.static(b)
    if not a.dtype.is_floating_point() and divisor is not None and np.any(divisor == 0):
        raise Unsupported("an integer division by zero, which ends Caffe2's process")
    return compute_binary(net, "Div", a, b)


@onnx_op("Reciprocal")
def reciprocal(net: Net, x: Blob) -> Blob:
    return compute_binary(net, "Div", net.const(np.ones((), x.dtype.numpy())), x)


@onnx_op("Neg")
def neg(net: Net, x: Blob) -> Blob:
    return cast(net, net.Negative(widen(net, x)), x.dtype)


@onnx_op("Sign")
def sign(net: Net, x: Blob) -> Blob:
    """Sign-13. Caffe2's Sign of NaN is 0; ONNX's is NaN."""
    wide = widen(net, x)
    y = net.Sign(wide)
    return cast(net, net.Where(net.NE(wide, wide), wide, y) if x.dtype.is_floating_point() else y, x.dtype)


@onnx_op("Sqrt")
def sqrt(net: Net, x: Blob) -> Blob:
    return cast(net, net.Sqrt(widen(net, x, (ir.DataType.FLOAT, ir.DataType.DOUBLE))), x.dtype)


@onnx_op("Abs")
def absolute(net: Net, x: Blob) -> Blob:
    if x.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        return unary_rule("Abs")(net, x)
    wide = widen(net, x)
    return cast(net, net.Mul(wide, net.Sign(wide)), x.dtype)


@onnx_op("Round")
def round_half_even(net: Net, x: Blob) -> Blob:
    """Round-22 by adding and subtracting 1.5·2²³ (2⁵² in float64), which rounds half to even; larger numbers are
    integers.
    """
    wide = widen(net, x, (ir.DataType.FLOAT, ir.DataType.DOUBLE))
    bits = 23 if wide.dtype == ir.DataType.FLOAT else 52
    shift = net.const(1.5 * 2.0**bits, wide.dtype)
    rounded = net.Sub(net.Add(wide, shift), shift)
    small = net.LT(net.Mul(wide, net.Sign(wide)), net.const(2.0 ** (bits - 1), wide.dtype))
    return cast(net, net.Where(small, rounded, wide), x.dtype)


def log1p(net: Net, y: Blob) -> Blob:
    """Return log(1 + y) of float32 y ≥ 0, exact to rounding for small y.

    Let u be the rounded 1 + y. The result is log(u)·y / (u − 1), or y if u is 1 (W. Kahan's correction of the
    rounding).
    """
    one = net.const(1.0)
    u = net.Add(y, one)
    tiny = net.EQ(u, one)
    # For u = 1 the quotient would be 0/0: divide by 1 there.
    step = net.Add(net.Sub(u, one), cast(net, tiny, ir.DataType.FLOAT))
    return net.Where(tiny, y, net.Mul(net.Log(u), net.Div(y, step)))


@onnx_op("Asinh")
def asinh(net: Net, x: Blob) -> Blob:
    """sign(x)·log1p(|x| + x² / (1 + sqrt(x² + 1))); |x| is halved and log(2) added if the square overflows."""
    wide = widen(net, x, FLOAT)
    size, one = net.Abs(wide), net.const(1.0)
    near = net.Clip(size, max=_SQUARED)
    square = net.Mul(near, near)
    small = log1p(net, net.Add(near, net.Div(square, net.Add(net.Sqrt(net.Add(square, one)), one))))
    return cast(net, net.Mul(_log_for_large(net, size, small), net.Sign(wide)), x.dtype)


@onnx_op("Acosh")
def acosh(net: Net, x: Blob) -> Blob:
    """log1p(t + sqrt(t·(t + 2))) for t = x − 1."""
    wide = widen(net, x, FLOAT)
    t = net.Sub(net.Clip(wide, max=_SQUARED), net.const(1.0))
    small = log1p(net, net.Add(t, net.Sqrt(net.Mul(t, net.Add(t, net.const(2.0))))))
    return cast(net, _log_for_large(net, wide, small), x.dtype)


@onnx_op("Atanh")
def atanh(net: Net, x: Blob) -> Blob:
    """sign(x)·log1p(2·|x| / (1 − |x|)) / 2."""
    wide = widen(net, x, FLOAT)
    size = net.Abs(wide)
    one = net.const(1.0)
    ratio = net.Div(net.Add(size, size), net.Sub(one, size))
    # For infinity, the correction factor of log1p is NaN.
    whole = net.Where(net.EQ(size, one), ratio, log1p(net, ratio))
    return cast(net, net.Mul(net.Mul(whole, net.Sign(wide)), net.const(0.5)), x.dtype)


_SQUARED = 1e9
"""Largest number whose square fits float32; above it, asinh and acosh equal log(x) + log(2) up to rounding."""


def _log_for_large(net: Net, x: Blob, small: Blob) -> Blob:
    large = net.Add(net.Log(net.Clip(x, min=1.0, max=np.inf)), net.const(math.log(2)))
    return net.Where(*broadcast(net, net.GT(x, net.const(_SQUARED)), large, small))


@onnx_op("Sum")
def total(net: Net, *xs: Blob) -> Blob:
    """Sum-13 as a chain of Add; Caffe2's Sum needs equal shapes."""
    wide = [widen(net, x) for x in xs]
    sum_ = wide[0]
    for x in wide[1:]:
        sum_ = net.Add(sum_, x)
    return cast(net, sum_, xs[0].dtype)


@onnx_op("Mean")
def mean(net: Net, *xs: Blob) -> Blob:
    return compute_binary(net, "Div", total(net, *xs), net.const(np.array(len(xs), xs[0].dtype.numpy())))


def extremum_rule(operator: str, compare: str) -> Callable[..., Blob]:
    """Return the rule of Max or Min. Caffe2's operators read past the end of a smaller operand, so shapes are made
    equal first.

    The operators support float32 only. Other dtypes are compared and selected. A NaN in the first operand is kept
    explicitly; comparing keeps a NaN in the second.
    """

    def rule(net: Net, *xs: Blob) -> Blob:
        wide = [widen(net, x) for x in xs]
        best = wide[0]
        for x in wide[1:]:
            a, b = broadcast(net, best, x)
            if a.dtype == ir.DataType.FLOAT:
                best = net.op(operator, [a, b])
                continue
            first = net.op(compare, [a, b])
            best = net.Where(net.Or(first, net.NE(a, a)) if a.dtype.is_floating_point() else first, a, b)
        return cast(net, best, xs[0].dtype)

    return rule


maximum, minimum = extremum_rule("Max", "GT"), extremum_rule("Min", "LT")
onnx_op("Max")(maximum)
onnx_op("Min")(minimum)


@onnx_op("Clip")
def clip(net: Net, x: Blob, low: Blob | None, high: Blob | None) -> Blob:
    if x.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        # ONNX's schema sets missing bounds to float32's largest finite numbers, so infinities are clipped to them.
        largest = np.array(np.finfo(np.float32).max)
        least, most = (-largest if low is None else net.static(low)), (largest if high is None else net.static(high))
        # If min is above max, ONNX returns max; Caffe2 asserts.
        if least is not None and most is not None and float(least) <= float(most):
            return cast(net, net.Clip(widen(net, x, FLOAT), min=float(least), max=float(most)), x.dtype)
    if low is not None:
        x = maximum(net, x, low)
    return x if high is None else minimum(net, x, high)


@onnx_op("Pow")
def power(net: Net, x: Blob, exponent: Blob) -> Blob:
    """Pow-15. Some constant exponents use a better kernel than pow; integers use repeated multiplication."""
    constant = net.static(exponent)
    if constant is not None and constant.size == 1 and constant.ndim <= net.rank(x):
        number = float(constant.ravel()[0])
        if number == 1:
            return x
        if number.is_integer() and 2 <= number <= (2 if x.dtype.is_floating_point() else 64):
            return cast(net, _power_by_squaring(net, widen(net, x), int(number)), x.dtype)
        if x.dtype.is_floating_point():
            wide = widen(net, x, FLOAT)
            return cast(net, net.Sqrt(wide) if number == 0.5 else net.Pow(wide, exponent=number), x.dtype)
    if not x.dtype.is_floating_point():
        return mixed_power(net, x, exponent) if exponent.dtype.is_floating_point() else integer_power(net, x, exponent)
    a, b = broadcast(net, widen(net, x, FLOAT), cast(net, exponent, ir.DataType.FLOAT))
    return cast(net, net.Pow(a, b), x.dtype)


def _power_by_squaring(net: Net, x: Blob, times: int) -> Blob:
    """Return x to the power of `times`, by squaring."""
    result: Blob | None = None
    while times:
        if times & 1:
            result = x if result is None else net.Mul(result, x)
        times >>= 1
        if times:
            x = net.Mul(x, x)
    assert result is not None
    return result


@onnx_op("Mod")
def mod(net: Net, a: Blob, b: Blob, *, fmod: int) -> Blob:
    """Mod-13 as a − b·trunc(a / b) for integers; without `fmod` the result takes the sign of b."""
    if a.dtype.is_floating_point():
        return float_remainder(net, a, b, fmod)
    divisor = net.static(b)
    if divisor is not None and np.any(divisor == 0):
        raise Unsupported("an integer remainder by zero, which ends Caffe2's process")
    x, y = widen(net, a), widen(net, b)
    rest = net.Sub(x, net.Mul(net.Div(x, y), y))
    if not fmod:
        # The remainder of a truncated quotient has the sign of a. If it is not zero and b has the other sign, adding b
        # gives the remainder of a floored quotient.
        zero = net.const(np.zeros((), x.dtype.numpy()))
        wrong = net.LT(net.Mul(net.Sign(rest), y), zero)
        rest = net.Add(rest, net.Mul(cast(net, wrong, x.dtype), y))
    return cast(net, rest, a.dtype)


@onnx_op("Cast")
def cast_to(net: Net, x: Blob, *, to: int, saturate: int) -> Blob:
    """Cast-23. `saturate` concerns float8 only, which Caffe2 lacks."""
    return cast(net, x, ir.DataType(to))


@onnx_op("CastLike")
def cast_like(net: Net, x: Blob, like: Blob, *, saturate: int) -> Blob:
    return cast(net, x, like.dtype)
