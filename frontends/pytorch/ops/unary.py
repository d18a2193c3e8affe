"""Elementwise functions of one operand: roots, exponentials, angles, rounding, tests for infinities."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
import torch

from convert.graph import Graph
from convert.numerics import incomplete

from ..common.values import cast, cast_to_floating, constant_like, is_bool, is_float, torch_dtype
from ..rules import torch_op


def _floating_rule(operator: str) -> Any:
    def rule(g: Graph, x: ir.Value) -> ir.Value:
        return g.node(operator, [cast_to_floating(g, x)])

    return rule


torch_op.same(
    _floating_rule,
    exp="Exp",
    log="Log",
    sqrt="Sqrt",
    sin="Sin",
    cos="Cos",
    tan="Tan",
    asin="Asin",
    acos="Acos",
    atan="Atan",
    sinh="Sinh",
    cosh="Cosh",
    asinh="Asinh",
    acosh="Acosh",
    atanh="Atanh",
    tanh="Tanh",
    erf="Erf",
    sigmoid="Sigmoid",
    reciprocal="Reciprocal",
    special_erf="Erf",
    special_expit="Sigmoid",
    arcsin="Asin",
    arccos="Acos",
    arctan="Atan",
    arcsinh="Asinh",
    arccosh="Acosh",
    arctanh="Atanh",
)


def _rounding_rule(operator: str) -> Any:
    def rule(g: Graph, x: ir.Value) -> ir.Value:
        return g.node(operator, [x]) if is_float(g, x) else g.Identity(x)

    return rule


torch_op.same(_rounding_rule, ceil="Ceil", floor="Floor")


@torch_op("abs", "absolute")
def abs_(g, x):
    return g.Abs(x)


@torch_op("neg", "negative")
def neg(g, x):
    # ONNX's Neg takes signed dtypes only
    return g.Sub(constant_like(g, 0, x), x) if torch_dtype(g, x) == torch.uint8 else g.Neg(x)


@torch_op("sign", "sgn")
def sign(g, x):
    if is_bool(g, x):
        return g.Identity(x)
    found = g.Sign(x)
    return g.Where(g.IsNaN(x), constant_like(g, 0, x), found) if is_float(g, x) else found  # PyTorch's sign of NaN is 0


@torch_op(
    "positive",
    "clone",
    "alias",
    "detach",
    "contiguous",
    "lift_fresh",
    "lift_fresh_copy",
    "alias_copy",
    "detach_copy",
    "resolve_conj",
    "resolve_neg",
    "lift",
)
def positive(g, x):
    return x


@torch_op("round")
def round_(g, x):
    return g.Round(x) if is_float(g, x) else g.Identity(x)


@torch_op("round.decimals")
def round_decimals(g, x, *, decimals=0):
    if not is_float(g, x):
        return g.Identity(x)
    scale = constant_like(g, 10.0 ** abs(decimals), x)
    if decimals < 0:
        return g.Mul(g.Round(g.Div(x, scale)), scale)
    return g.Div(g.Round(g.Mul(x, scale)), scale)


@torch_op("trunc", "fix")
def trunc(g, x):
    return g.Mul(g.Sign(x), g.Floor(g.Abs(x))) if is_float(g, x) else g.Identity(x)


@torch_op("frac")
def frac(g, x):
    return g.Sub(x, trunc(g, x))


@torch_op("rsqrt")
def rsqrt(g, x):
    return g.Reciprocal(g.Sqrt(cast_to_floating(g, x)))


@torch_op("square")
def square(g, x):
    return cast(g, x, torch.int64) if is_bool(g, x) else g.Mul(x, x)


@torch_op("log2")
def log2(g, x):
    x = cast_to_floating(g, x)
    return g.Div(g.Log(x), constant_like(g, math.log(2), x))


@torch_op("log10")
def log10(g, x):
    x = cast_to_floating(g, x)
    return g.Div(g.Log(x), constant_like(g, math.log(10), x))


@torch_op("exp2", "special_exp2")
def exp2(g, x):
    x = cast_to_floating(g, x)
    return g.Pow(constant_like(g, 2.0, x), x)


@torch_op("log1p", "special_log1p")
def log1p(g, x):
    """log(1 + x), as 2 atanh(x / (2 + x)) where adding 1 would lose digits of x."""
    x = cast_to_floating(g, x)
    near = g.Mul(g.Atanh(g.Div(x, g.Add(x, constant_like(g, 2.0, x)))), constant_like(g, 2.0, x))
    small = g.Less(g.Abs(x), constant_like(g, 0.5, x))
    return g.Where(small, near, g.Log(g.Add(x, constant_like(g, 1.0, x))))


@torch_op("expm1", "special_expm1")
def expm1(g, x):
    """exp(x) - 1, as tanh(x / 2) (exp(x) + 1), which keeps the digits of small x."""
    x = cast_to_floating(g, x)
    exp = g.Exp(x)
    one, near = (
        constant_like(g, 1.0, x),
        g.Mul(g.Tanh(g.Mul(x, constant_like(g, 0.5, x))), g.Add(exp, constant_like(g, 1.0, x))),
    )
    return g.Where(g.Less(g.Abs(x), one), near, g.Sub(exp, one))


@torch_op("erfc", "special_erfc")
def erfc(g, x):
    return incomplete.erfc(g, cast_to_floating(g, x))


@torch_op("sinc", "special_sinc")
def sinc(g, x):
    x = cast_to_floating(g, x)
    scaled = g.Mul(x, constant_like(g, math.pi, x))
    return g.Where(g.Equal(x, constant_like(g, 0.0, x)), constant_like(g, 1.0, x), g.Div(g.Sin(scaled), scaled))


@torch_op("deg2rad")
def deg2rad(g, x):
    x = cast_to_floating(g, x)
    return g.Mul(x, constant_like(g, math.pi / 180, x))


@torch_op("rad2deg")
def rad2deg(g, x):
    x = cast_to_floating(g, x)
    return g.Mul(x, constant_like(g, 180 / math.pi, x))


@torch_op("logit", "special_logit")
def logit(g, x, eps=None):
    x = cast_to_floating(g, x)
    if eps is not None:
        x = g.Clip(x, constant_like(g, eps, x), constant_like(g, 1.0 - eps, x))
    return g.Log(g.Div(x, g.Sub(constant_like(g, 1.0, x), x)))


@torch_op("isnan")
def isnan(g, x):
    return g.IsNaN(x) if is_float(g, x) else g.Expand(g.const(False), g.dims(x))


@torch_op("isinf")
def isinf(g, x):
    return g.IsInf(x) if is_float(g, x) else g.Expand(g.const(False), g.dims(x))


@torch_op("isfinite")
def isfinite(g, x):
    if not is_float(g, x):
        return g.Expand(g.const(True), g.dims(x))
    return g.Less(g.Abs(x), constant_like(g, math.inf, x))


@torch_op("isposinf")
def isposinf(g, x):
    return g.IsInf(x, detect_negative=0) if is_float(g, x) else isinf(g, x)


@torch_op("isneginf")
def isneginf(g, x):
    return g.IsInf(x, detect_positive=0) if is_float(g, x) else isinf(g, x)


@torch_op("signbit")
def signbit(g, x):
    """Return whether x is below zero; the reciprocal shows the sign of a floating-point zero."""
    if is_bool(g, x):
        return g.Expand(g.const(False), g.dims(x))
    zero = constant_like(g, 0, x)
    below = g.Less(x, zero)
    return g.Or(below, g.Less(g.Reciprocal(x), zero)) if is_float(g, x) else below


@torch_op("nan_to_num")
def nan_to_num(g, x, nan=None, posinf=None, neginf=None):
    if not is_float(g, x):
        return g.Identity(x)
    info = torch.finfo(torch_dtype(g, x))
    out = g.Where(g.IsNaN(x), constant_like(g, 0.0 if nan is None else nan, x), x)
    out = g.Where(g.IsInf(x, detect_negative=0), constant_like(g, info.max if posinf is None else posinf, x), out)
    return g.Where(g.IsInf(x, detect_positive=0), constant_like(g, info.min if neginf is None else neginf, x), out)


@torch_op("real", "_conj_physical", "conj", "conj_physical")
def real(g, x):
    """Return the real part; a real tensor is returned as it is."""
    return x


@torch_op("angle")
def angle(g, x):
    """Return the angle, which is 0 or pi for real numbers; NaN stays NaN."""
    x = cast_to_floating(g, x)
    out = g.Where(g.Less(x, constant_like(g, 0, x)), constant_like(g, math.pi, x), constant_like(g, 0, x))
    return g.Where(g.IsNaN(x), x, out)


@torch_op("frexp")
def frexp(g, x):
    """Return a mantissa in [0.5, 1) and an exponent; rounding errors of the logarithm are corrected afterwards."""
    mantissa, exponent = _mantissa_and_exponent(g, x)
    plain = g.Or(g.Equal(x, constant_like(g, 0, x)), g.Not(isfinite(g, x)))
    zero = constant_like(g, 0, x)
    return [g.Where(plain, x, mantissa), g.Cast(g.Where(plain, zero, exponent), to=ir.DataType.INT32)]


def _mantissa_and_exponent(g: Graph, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    one, two, half = (constant_like(g, n, x) for n in (1.0, 2.0, 0.5))
    exponent = g.Add(g.Floor(log2(g, g.Abs(x))), one)
    # Two steps, because 2 to the power of the whole exponent may be out of range.
    first = g.Floor(g.Mul(exponent, half))
    mantissa = g.Div(g.Div(x, g.Pow(two, first)), g.Pow(two, g.Sub(exponent, first)))
    large, small = g.GreaterOrEqual(g.Abs(mantissa), one), g.Less(g.Abs(mantissa), half)
    exponent = g.Where(large, g.Add(exponent, one), g.Where(small, g.Sub(exponent, one), exponent))
    return g.Where(large, g.Mul(mantissa, half), g.Where(small, g.Mul(mantissa, two), mantissa)), exponent
