"""Incomplete gamma functions and tails of the error function, of float64 values."""

from __future__ import annotations

import math

import onnx_ir as ir

from convert.graph import Graph
from convert.numerics import coefficients as table
from convert.numerics.gamma import lgamma
from convert.numerics.loops import finished, loop
from convert.numerics.series import horner, like, ratio

_ROUNDING = 2.0**-53


def incomplete_gamma(g: Graph, a: ir.Value, x: ir.Value, *, upper: bool) -> ir.Value:
    """The regularised integral from 0 to x (or, if `upper`, from x on) of t^(a - 1) e^-t.

    A power series up to about a, a continued fraction beyond (Numerical Recipes, 6.2); at the ends as PyTorch has it.
    """
    zero, one = like(g, 0.0, x), like(g, 1.0, x)
    shape = g.Shape(g.Add(a, x))
    a, x = g.Expand(a, shape), g.Expand(x, shape)
    inner = g.And(g.And(g.Greater(a, zero), g.Greater(x, zero)), g.Not(g.Or(_infinite(g, a), _infinite(g, x))))
    order, point = g.Where(inner, a, one), g.Where(inner, x, one)
    near = g.Less(point, g.Add(order, one))
    scale = g.Exp(g.Sub(g.Sub(g.Mul(order, g.Log(point)), point), lgamma(g, order)))
    lower_part = g.Mul(scale, _series(g, order, g.Where(near, point, order)))
    upper_part = g.Mul(scale, _fraction(g, order, g.Where(near, g.Add(order, like(g, 10.0, x)), point)))
    if upper:
        out = g.Where(near, g.Sub(one, lower_part), upper_part)
    else:
        out = g.Where(near, lower_part, g.Sub(one, upper_part))
    return g.Where(inner, out, _at_the_ends(g, a, x, upper=upper))


def _at_the_ends(g: Graph, a: ir.Value, x: ir.Value, *, upper: bool) -> ir.Value:
    """Where a or x is zero, infinite, negative or no number."""
    zero, nan = like(g, 0.0, x), like(g, math.nan, x)
    nothing, everything = like(g, float(upper), x), like(g, float(not upper), x)
    out = g.Where(_infinite(g, x), everything, nan)
    out = g.Where(_infinite(g, a), g.Where(_infinite(g, x), nan, nothing), out)
    out = g.Where(g.Equal(x, zero), nothing, out)
    out = g.Where(g.Equal(a, zero), g.Where(g.Greater(x, zero), everything, nan), out)
    return g.Where(g.Or(g.Less(a, zero), g.Less(x, zero)), nan, out)


def _infinite(g: Graph, x: ir.Value) -> ir.Value:
    return g.Equal(g.Abs(x), like(g, math.inf, x))


def _series(g: Graph, a: ir.Value, x: ir.Value) -> ir.Value:
    """The sum of x^n / (a (a + 1) … (a + n))."""
    first = g.Reciprocal(a)
    body, number, (term, total) = loop(g, first, 2)
    k = body.Add(body.Cast(number, to=g.dtype(x)), like(body, 1.0, x))
    term = body.Div(body.Mul(term, x), body.Add(a, k))
    total = body.Add(total, term)
    far = body.Greater(body.Abs(term), body.Mul(body.Abs(total), like(body, _ROUNDING, x)))
    return finished(g, body, far, [term, total], [first, first])[1]


def _fraction(g: Graph, a: ir.Value, x: ir.Value) -> ir.Value:
    """1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - …)) by Lentz's method, for x above a."""
    one = like(g, 1.0, x)
    start = g.Sub(g.Add(x, one), a)
    inverse = g.Reciprocal(start)
    huge = g.Add(g.Mul(start, like(g, 0.0, x)), like(g, 1e300, x))
    body, number, (b, c, d, out) = loop(g, start, 4)
    k = body.Add(body.Cast(number, to=g.dtype(x)), one)
    factor = body.Mul(k, body.Sub(a, k))
    b = body.Add(b, like(body, 2.0, x))
    d = body.Reciprocal(body.Add(body.Mul(factor, d), b))
    c = body.Add(b, body.Div(factor, c))
    change = body.Mul(c, d)
    out = body.Mul(out, change)
    far = body.Greater(body.Abs(body.Sub(change, one)), like(body, 4 * _ROUNDING, x))
    return finished(g, body, far, [b, c, d, out], [start, huge, inverse, inverse])[3]


# -- error functions --------------------------------------------------------------------------------------------------


def _scaled_tail(g: Graph, x: ir.Value) -> ir.Value:
    """exp(x²) erfc(x) for x of 0 and more, by the approximations of the Cephes library."""
    one = like(g, 1.0, x)
    z = g.Mul(x, x)
    inner = g.Min(z, one)
    near = g.Mul(g.Exp(inner), g.Sub(one, g.Mul(x, ratio(g, inner, table.ERF_T, table.ERF_U))))
    middle = ratio(g, g.Min(x, like(g, 8.0, x)), table.ERFC_P, table.ERFC_Q)
    far = ratio(g, g.Min(x, like(g, 1e40, x)), table.ERFC_R, table.ERFC_S)
    far = g.Where(_infinite(g, x), like(g, 0.0, x), far)
    return g.Where(g.Less(x, one), near, g.Where(g.Less(x, like(g, 8.0, x)), middle, far))


def erfcx(g: Graph, x: ir.Value) -> ir.Value:
    tail = _scaled_tail(g, g.Abs(x))
    mirrored = g.Sub(g.Mul(like(g, 2.0, x), g.Exp(g.Mul(x, x))), tail)
    return g.Where(g.Less(x, like(g, 0.0, x)), mirrored, tail)


def log_ndtr(g: Graph, x: ir.Value) -> ir.Value:
    """log of the normal distribution's integral up to x: of the tail below 0, of 1 less the other tail above."""
    t = g.Mul(x, like(g, math.sqrt(0.5), x))
    half, square = like(g, 0.5, x), g.Mul(t, t)
    tail = g.Mul(_scaled_tail(g, g.Abs(t)), half)
    below = g.Sub(g.Log(tail), square)
    rest = g.Mul(tail, g.Exp(g.Neg(square)))
    # log(1 - r): its series where r is small.
    small = g.Neg(g.Mul(rest, horner(g, rest, (1 / 3, 1 / 2, 1.0))))
    above = g.Where(g.Less(rest, like(g, 1e-5, x)), small, g.Log(g.Sub(like(g, 1.0, x), rest)))
    out = g.Where(g.Less(x, like(g, 0.0, x)), below, above)
    return g.Where(g.Equal(x, like(g, -math.inf, x)), x, out)
