"""Incomplete gamma functions, and tails of the error function, of float64 values."""

from __future__ import annotations

import math

import onnx_ir as ir

from convert.graph import Graph
from convert.numerics import coefficients as table
from convert.numerics.gamma import lgamma
from convert.numerics.loops import loop_body, run_until_converged
from convert.numerics.series import constant_like, horner, polynomial_ratio

_ROUNDING = 2.0**-53
_LARGE = 1e8
"""Series and fraction need about eight times the square root of the order in steps; beyond this order, too many
for a Loop.
"""


def incomplete_gamma(g: Graph, a: ir.Value, x: ir.Value, *, upper: bool) -> ir.Value:
    """Return the regularized integral of t^(a - 1) e^-t from 0 to x or, if `upper`, from x to infinity.

    Uses a power series for x up to about a, and a continued fraction beyond (Numerical Recipes, 6.2). These would not
    converge for large orders, which use an expansion in 1/a. Boundary values follow PyTorch.
    """
    zero, one = constant_like(g, 0.0, x), constant_like(g, 1.0, x)
    shape = g.Shape(g.Add(a, x))
    a, x = g.Expand(a, shape), g.Expand(x, shape)
    inner = g.And(g.And(g.Greater(a, zero), g.Greater(x, zero)), g.Not(g.Or(_is_infinite(g, a), _is_infinite(g, x))))
    by_terms = g.And(inner, g.Not(g.Greater(a, constant_like(g, _LARGE, x))))
    order, point = g.Where(by_terms, a, one), g.Where(by_terms, x, one)
    near = g.Less(point, g.Add(order, one))
    scale = g.Exp(g.Sub(g.Sub(g.Mul(order, g.Log(point)), point), lgamma(g, order)))
    lower_part = g.Mul(scale, _power_series(g, order, g.Where(near, point, order)))
    upper_part = g.Mul(
        scale, _continued_fraction(g, order, g.Where(near, g.Add(order, constant_like(g, 10.0, x)), point))
    )
    if upper:
        out = g.Where(near, g.Sub(one, lower_part), upper_part)
    else:
        out = g.Where(near, lower_part, g.Sub(one, upper_part))
    out = g.Where(by_terms, out, _for_large_order(g, a, x, upper=upper))
    return g.Where(inner, out, _boundary_values(g, a, x, upper=upper))


def _for_large_order(g: Graph, a: ir.Value, x: ir.Value, *, upper: bool) -> ir.Value:
    """Return the first term of Temme's uniform expansion (DLMF 8.12.3 and 8.12.4); the next is smaller by 1/a.

    If x is farther than a / 100 from a, the result is 0 or 1 in float64.
    """
    edge, one = constant_like(g, 0.01, x), constant_like(g, 1.0, x)
    off = g.Min(g.Max(g.Div(g.Sub(x, a), a), g.Neg(edge)), edge)
    # (off - log(1 + off)) · 2 / off²
    series = horner(g, off, [2 * (-1) ** k / k for k in range(9, 1, -1)])
    eta = g.Mul(off, g.Sqrt(series))
    z = g.Mul(eta, g.Sqrt(g.Mul(a, constant_like(g, 0.5, x))))
    bell = g.Exp(g.Neg(g.Mul(z, z)))
    first = horner(g, eta, (1 / 2835, 1 / 864, -2 / 135, 1 / 12, -1 / 3))
    rest = g.Div(g.Mul(bell, first), g.Sqrt(g.Mul(a, constant_like(g, 2 * math.pi, x))))
    tail = g.Mul(g.Mul(_scaled_tail(g, g.Abs(z)), bell), constant_like(g, 0.5, x))
    above = g.Add(g.Where(g.Less(z, constant_like(g, 0.0, x)), g.Sub(one, tail), tail), rest)
    return above if upper else g.Sub(one, above)


def _boundary_values(g: Graph, a: ir.Value, x: ir.Value, *, upper: bool) -> ir.Value:
    """Return the value if a or x is zero, infinite, negative or NaN."""
    zero, nan = constant_like(g, 0.0, x), constant_like(g, math.nan, x)
    nothing, everything = constant_like(g, float(upper), x), constant_like(g, float(not upper), x)
    out = g.Where(_is_infinite(g, x), everything, nan)
    out = g.Where(_is_infinite(g, a), g.Where(_is_infinite(g, x), nan, nothing), out)
    out = g.Where(g.Equal(x, zero), nothing, out)
    out = g.Where(g.Equal(a, zero), g.Where(g.Greater(x, zero), everything, nan), out)
    return g.Where(g.Or(g.Less(a, zero), g.Less(x, zero)), nan, out)


def _is_infinite(g: Graph, x: ir.Value) -> ir.Value:
    return g.Equal(g.Abs(x), constant_like(g, math.inf, x))


def _power_series(g: Graph, a: ir.Value, x: ir.Value) -> ir.Value:
    """Return the sum of x^n / (a (a + 1) … (a + n))."""
    first = g.Reciprocal(a)
    body, number, (term, total) = loop_body(g, first, 2)
    k = body.Add(body.Cast(number, to=g.dtype(x)), constant_like(body, 1.0, x))
    term = body.Div(body.Mul(term, x), body.Add(a, k))
    total = body.Add(total, term)
    far = body.Greater(body.Abs(term), body.Mul(body.Abs(total), constant_like(body, _ROUNDING, x)))
    return run_until_converged(g, body, far, [term, total], [first, first])[1]


def _continued_fraction(g: Graph, a: ir.Value, x: ir.Value) -> ir.Value:
    """Return 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - …)) by Lentz's method, for x above a."""
    one = constant_like(g, 1.0, x)
    start = g.Sub(g.Add(x, one), a)
    inverse = g.Reciprocal(start)
    huge = g.Add(g.Mul(start, constant_like(g, 0.0, x)), constant_like(g, 1e300, x))
    body, number, (b, c, d, out) = loop_body(g, start, 4)
    k = body.Add(body.Cast(number, to=g.dtype(x)), one)
    factor = body.Mul(k, body.Sub(a, k))
    b = body.Add(b, constant_like(body, 2.0, x))
    d = body.Reciprocal(body.Add(body.Mul(factor, d), b))
    c = body.Add(b, body.Div(factor, c))
    change = body.Mul(c, d)
    out = body.Mul(out, change)
    far = body.Greater(body.Abs(body.Sub(change, one)), constant_like(body, 4 * _ROUNDING, x))
    return run_until_converged(g, body, far, [b, c, d, out], [start, huge, inverse, inverse])[3]


# -- error functions --------------------------------------------------------------------------------------------------


def _scaled_tail(g: Graph, x: ir.Value) -> ir.Value:
    """Return exp(x²) erfc(x) for x >= 0, by the approximations of the Cephes library."""
    one = constant_like(g, 1.0, x)
    z = g.Mul(x, x)
    inner = g.Min(z, one)
    near = g.Mul(g.Exp(inner), g.Sub(one, g.Mul(x, polynomial_ratio(g, inner, table.ERF_T, table.ERF_U))))
    middle = polynomial_ratio(g, g.Min(x, constant_like(g, 8.0, x)), table.ERFC_P, table.ERFC_Q)
    far = polynomial_ratio(g, g.Min(x, constant_like(g, 1e40, x)), table.ERFC_R, table.ERFC_S)
    far = g.Where(_is_infinite(g, x), constant_like(g, 0.0, x), far)
    return g.Where(g.Less(x, one), near, g.Where(g.Less(x, constant_like(g, 8.0, x)), middle, far))


def erfc(g: Graph, x: ir.Value) -> ir.Value:
    """Return 1 - erf(x) in any floating dtype; from 0.5 on, where that loses digits, exp(-x²)·erfcx(x) in float64."""
    dtype = g.dtype(x)
    wide = x if dtype == ir.DataType.DOUBLE else g.Cast(x, to=ir.DataType.DOUBLE)
    tail = g.Mul(g.Exp(g.Neg(g.Mul(wide, wide))), _scaled_tail(g, g.Abs(wide)))
    tail = tail if dtype == ir.DataType.DOUBLE else g.Cast(tail, to=dtype)
    return g.Where(g.Greater(x, constant_like(g, 0.5, x)), tail, g.Sub(constant_like(g, 1.0, x), g.Erf(x)))


def erfcx(g: Graph, x: ir.Value) -> ir.Value:
    tail = _scaled_tail(g, g.Abs(x))
    mirrored = g.Sub(g.Mul(constant_like(g, 2.0, x), g.Exp(g.Mul(x, x))), tail)
    return g.Where(g.Less(x, constant_like(g, 0.0, x)), mirrored, tail)


def log_ndtr(g: Graph, x: ir.Value) -> ir.Value:
    """Return the log of the normal distribution's integral up to x.

    Below 0 it is the log of the lower tail, above 0 the log of 1 minus the upper tail.
    """
    t = g.Mul(x, constant_like(g, math.sqrt(0.5), x))
    half, square = constant_like(g, 0.5, x), g.Mul(t, t)
    tail = g.Mul(_scaled_tail(g, g.Abs(t)), half)
    below = g.Sub(g.Log(tail), square)
    rest = g.Mul(tail, g.Exp(g.Neg(square)))
    # log(1 - r), by its series for small r
    small = g.Neg(g.Mul(rest, horner(g, rest, (1 / 3, 1 / 2, 1.0))))
    above = g.Where(g.Less(rest, constant_like(g, 1e-5, x)), small, g.Log(g.Sub(constant_like(g, 1.0, x), rest)))
    out = g.Where(g.Less(x, constant_like(g, 0.0, x)), below, above)
    return g.Where(g.Equal(x, constant_like(g, -math.inf, x)), x, out)
