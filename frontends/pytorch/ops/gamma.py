"""The gamma function's kin (lgamma, digamma, polygamma, zeta) in float64, and inverses of error functions."""

from __future__ import annotations

import math

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import aten
from ..values import cast, floating, like, promoted
from . import special_tables as table
from .bessel import horner, in_double, ratio

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SHIFT = 10


def _moved(g: Graph, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """x, made larger by `_SHIFT` where it is below that, and where that was done."""
    small = g.Less(x, like(g, float(_SHIFT), x))
    return g.Where(small, g.Add(x, like(g, float(_SHIFT), x)), x), small


def _inverse_powers(g: Graph, y: ir.Value, coefficients: list[float]) -> ir.Value:
    """The sum of c[k] / y^(2k + 1)."""
    inverse = g.Reciprocal(y)
    return g.Mul(inverse, horner(g, g.Mul(inverse, inverse), coefficients[::-1]))


def _sine(g: Graph, x: ir.Value) -> ir.Value:
    """sin(pi x), whose sign alternates, through the distance from the nearest integer."""
    half = g.Floor(g.Add(x, like(g, 0.5, x)))
    odd = g.Sub(half, g.Mul(like(g, 2.0, x), g.Floor(g.Mul(half, like(g, 0.5, x)))))
    sign = g.Sub(like(g, 1.0, x), g.Mul(like(g, 2.0, x), odd))
    return g.Mul(sign, g.Sin(g.Mul(g.Sub(x, half), like(g, math.pi, x))))


def _lgamma(g: Graph, x: ir.Value) -> ir.Value:
    """Stirling's series beyond 10, the recurrence below, the reflection formula below 0.5."""
    one, half = like(g, 1.0, x), like(g, 0.5, x)
    reflected = g.Less(x, half)
    z = g.Where(reflected, g.Sub(one, x), x)
    y, small = _moved(g, z)
    series = _inverse_powers(g, y, [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)])
    out = g.Add(g.Sub(g.Mul(g.Sub(y, half), g.Log(y)), y), like(g, math.log(2 * math.pi) / 2, x))
    out = g.Add(out, series)
    product = z
    for i in range(1, _SHIFT):
        product = g.Mul(product, g.Add(z, like(g, float(i), x)))
    out = g.Where(small, g.Sub(out, g.Log(g.Where(small, product, one))), out)
    other = g.Sub(like(g, math.log(math.pi), x), g.Add(g.Log(g.Abs(_sine(g, x))), out))
    whole = g.And(g.LessOrEqual(x, like(g, 0.0, x)), g.Equal(x, g.Floor(x)))
    out = g.Where(reflected, g.Where(whole, like(g, math.inf, x), other), out)
    return g.Where(g.IsInf(g.Cast(x, to=ir.DataType.FLOAT)), like(g, math.inf, x), out)


def _digamma(g: Graph, x: ir.Value) -> ir.Value:
    """The asymptotic series beyond 10, the recurrence below, the reflection formula below 0."""
    one, zero = like(g, 1.0, x), like(g, 0.0, x)
    reflected = g.Less(x, zero)
    z = g.Where(reflected, g.Sub(one, x), x)
    y, small = _moved(g, z)
    inverse = g.Reciprocal(y)
    squares = g.Mul(inverse, _inverse_powers(g, y, [b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)]))
    out = g.Sub(g.Sub(g.Log(y), g.Mul(inverse, like(g, 0.5, x))), squares)
    sums = g.Reciprocal(z)
    for i in range(1, _SHIFT):
        sums = g.Add(sums, g.Reciprocal(g.Add(z, like(g, float(i), x))))
    out = g.Where(small, g.Sub(out, sums), out)
    offset = g.Sub(x, g.Floor(g.Add(x, like(g, 0.5, x))))
    angle = g.Mul(offset, like(g, math.pi, x))
    other = g.Sub(out, g.Div(g.Mul(g.Cos(angle), like(g, math.pi, x)), g.Sin(angle)))
    whole = g.Equal(x, g.Floor(x))
    out = g.Where(reflected, g.Where(whole, like(g, math.nan, x), other), out)
    # At zero, minus infinity with the sign of zero turned round.
    return g.Where(g.Equal(x, zero), g.Neg(g.Reciprocal(x)), out)


def _trigamma(g: Graph, x: ir.Value) -> ir.Value:
    one, half = like(g, 1.0, x), like(g, 0.5, x)
    reflected = g.Less(x, half)
    z = g.Where(reflected, g.Sub(one, x), x)
    y, small = _moved(g, z)
    inverse = g.Reciprocal(y)
    square = g.Mul(inverse, inverse)
    out = g.Add(inverse, g.Mul(square, g.Add(half, _inverse_powers(g, y, list(_BERNOULLI)))))
    sums = g.Reciprocal(g.Mul(z, z))
    for i in range(1, _SHIFT):
        term = g.Add(z, like(g, float(i), x))
        sums = g.Add(sums, g.Reciprocal(g.Mul(term, term)))
    out = g.Where(small, g.Add(out, sums), out)
    sine = _sine(g, x)
    other = g.Sub(g.Div(like(g, math.pi**2, x), g.Mul(sine, sine)), out)
    return g.Where(reflected, other, out)


aten.same(
    in_double,
    lgamma=_lgamma,
    special_gammaln=_lgamma,
    digamma=_digamma,
    special_digamma=_digamma,
    special_psi=_digamma,
)


@aten("polygamma", "special_polygamma")
def polygamma(g, n, x):
    """(-1)^(n + 1) n! zeta(n + 1, x) from the second derivative on."""
    if isinstance(n, ir.Value):
        raise Unsupported("polygamma of an order that is computed at run time")
    if n < 2:
        return in_double((_digamma, _trigamma)[n])(g, x)
    factor = math.factorial(n) * (-1) ** (n + 1)

    def function(g: Graph, x: ir.Value) -> ir.Value:
        return g.Mul(_zeta(g, like(g, n + 1.0, x), x), like(g, float(factor), x))

    return in_double(function)(g, x)


@aten("special_zeta")
def zeta(g, x, q):
    a, b = (floating(g, v) for v in promoted(g, x, q))
    wide = [cast(g, v, ir.DataType.DOUBLE) for v in (a, b)]
    return cast(g, _zeta(g, *wide), g.dtype(a))


def _zeta(g: Graph, x: ir.Value, q: ir.Value) -> ir.Value:
    """Hurwitz' zeta by Euler and Maclaurin: terms until q + k is over 9, in a loop, then the series in 1 / (q + k)."""
    one, zero = like(g, 1.0, q), like(g, 0.0, q)
    steps = g.Max(g.Ceil(g.Sub(like(g, 10.0, q), q)), like(g, 9.0, q))
    steps = g.Where(g.Less(steps, like(g, 1e5, q)), steps, like(g, 1e5, q))
    total = _leading_terms(g, x, q, steps)
    a = g.Add(q, steps)
    power = g.Pow(a, g.Neg(x))
    total = g.Add(total, g.Div(g.Mul(a, power), g.Sub(x, one)))
    total = g.Add(total, g.Mul(power, like(g, 0.5, q)))
    factor, term = g.Div(g.Mul(x, power), a), None
    for k, b in enumerate(_BERNOULLI, 1):
        term = g.Mul(factor, like(g, b / math.factorial(2 * k), q))
        total = g.Add(total, term)
        pair = g.Mul(g.Add(x, like(g, 2.0 * k - 1, q)), g.Add(x, like(g, 2.0 * k, q)))
        factor = g.Div(g.Mul(factor, pair), g.Mul(a, a))
    below = g.LessOrEqual(q, zero)
    total = g.Where(g.And(below, g.Not(g.Equal(x, g.Floor(x)))), like(g, math.nan, q), total)
    total = g.Where(g.And(below, g.Equal(q, g.Floor(q))), like(g, math.inf, q), total)
    total = g.Where(g.Less(x, one), like(g, math.nan, q), total)
    return g.Where(g.Equal(x, one), like(g, math.inf, q), total)


def _leading_terms(g: Graph, x: ir.Value, q: ir.Value, steps: ir.Value) -> ir.Value:
    """The sum of (q + k)^-x over the first `steps` k of each element."""
    start = g.Mul(g.Add(q, x), like(g, 0.0, q))
    trips = g.ReduceMax(g.Cast(steps, to=ir.DataType.INT64), keepdims=0)
    body = g.body("loop")
    number = body.input("iteration", ir.DataType.INT64, [])
    again = body.input("condition", ir.DataType.BOOL, [])
    total = body.input("state", g.dtype(q), g.shape(start))
    k = body.Cast(number, to=g.dtype(q))
    term = body.Pow(body.Add(q, k), body.Neg(x))
    body.output(body.Identity(again), body.unique("again"))
    body.output(body.Where(body.Less(k, steps), body.Add(total, term), total), body.unique("result"))
    return g.facts(g.Loop(trips, g.const(True), start, body=body), g.dtype(q), g.shape(start))


# -- inverses ---------------------------------------------------------------------------------------------------------


@aten("erfinv", "special_erfinv")
def erfinv(g, x):
    """A rational approximation, mended by two of Newton's steps."""
    x = floating(g, x)
    z = g.Mul(x, x)
    one, size = like(g, 1.0, x), g.Abs(x)
    near = g.Mul(
        x,
        ratio(
            g,
            z,
            (-0.140543331, 0.914624893, -1.645349621, 0.886226899),
            (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0),
        ),
    )
    root = g.Sqrt(g.Neg(g.Log(g.Mul(g.Sub(one, size), like(g, 0.5, x)))))
    far = ratio(g, root, (1.641345311, 3.429567803, -1.624906493, -1.970840454), (1.6370678, 3.5438892, 1.0))
    far = g.Mul(far, g.Sign(x))
    out = g.Where(g.LessOrEqual(size, like(g, 0.7, x)), near, far)
    for _ in range(2):
        slope = g.Mul(like(g, 2 / math.sqrt(math.pi), x), g.Exp(g.Neg(g.Mul(out, out))))
        out = g.Sub(out, g.Div(g.Sub(g.Erf(out), x), slope))
    end = g.Mul(g.Sign(x), like(g, math.inf, x))
    out = g.Where(g.Equal(size, one), end, out)
    return g.Where(g.Greater(size, one), like(g, math.nan, x), out)


def _ndtri(g: Graph, p: ir.Value) -> ir.Value:
    """The normal distribution's quantile (Cephes): one approximation about the middle, two for the tails."""
    one, half = like(g, 1.0, p), like(g, 0.5, p)
    tail = like(g, 0.13533528323661269189, p)
    upper = g.Greater(p, g.Sub(one, tail))
    y = g.Where(upper, g.Sub(one, p), p)
    centred = g.Sub(y, half)
    square = g.Mul(centred, centred)
    middle = g.Add(centred, g.Mul(centred, g.Mul(square, ratio(g, square, table.NDTRI_P0, table.NDTRI_Q0))))
    middle = g.Mul(middle, like(g, math.sqrt(2 * math.pi), p))
    x = g.Sqrt(g.Mul(like(g, -2.0, p), g.Log(y)))
    z = g.Reciprocal(x)
    rest = g.Where(
        g.Less(x, like(g, 8.0, p)),
        ratio(g, z, table.NDTRI_P1, table.NDTRI_Q1),
        ratio(g, z, table.NDTRI_P2, table.NDTRI_Q2),
    )
    ends = g.Sub(g.Sub(x, g.Div(g.Log(x), x)), g.Mul(z, rest))
    ends = g.Where(upper, ends, g.Neg(ends))
    out = g.Where(g.Greater(y, tail), middle, ends)
    out = g.Where(g.Equal(p, like(g, 0.0, p)), like(g, -math.inf, p), out)
    out = g.Where(g.Equal(p, one), like(g, math.inf, p), out)
    outside = g.Or(g.Less(p, like(g, 0.0, p)), g.Greater(p, one))
    return g.Where(outside, like(g, math.nan, p), out)


aten.same(in_double, special_ndtri=_ndtri)
