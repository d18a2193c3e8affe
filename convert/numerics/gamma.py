"""Functions related to gamma: lgamma, digamma, trigamma and zeta of float64 values."""

from __future__ import annotations

import math

import onnx_ir as ir

from convert.graph import Graph
from convert.numerics.series import constant_like, horner

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SHIFT = 10


def _shift_argument(g: Graph, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return x, increased by `_SHIFT` if it is smaller than `_SHIFT`, and whether it was increased."""
    small = g.Less(x, constant_like(g, float(_SHIFT), x))
    return g.Where(small, g.Add(x, constant_like(g, float(_SHIFT), x)), x), small


def _inverse_powers(g: Graph, y: ir.Value, coefficients: list[float]) -> ir.Value:
    """Return the sum of c[k] / y^(2k + 1)."""
    inverse = g.Reciprocal(y)
    return g.Mul(inverse, horner(g, g.Mul(inverse, inverse), coefficients[::-1]))


def _sine_of_pi(g: Graph, x: ir.Value) -> ir.Value:
    """Return sin(pi x), whose sign alternates, from the distance to the nearest integer."""
    half = g.Floor(g.Add(x, constant_like(g, 0.5, x)))
    odd = g.Sub(half, g.Mul(constant_like(g, 2.0, x), g.Floor(g.Mul(half, constant_like(g, 0.5, x)))))
    sign = g.Sub(constant_like(g, 1.0, x), g.Mul(constant_like(g, 2.0, x), odd))
    return g.Mul(sign, g.Sin(g.Mul(g.Sub(x, half), constant_like(g, math.pi, x))))


def lgamma(g: Graph, x: ir.Value) -> ir.Value:
    """Return lgamma by Stirling's series beyond 10, the recurrence below, and the reflection formula below 0.5."""
    one, half = constant_like(g, 1.0, x), constant_like(g, 0.5, x)
    reflected = g.Less(x, half)
    z = g.Where(reflected, g.Sub(one, x), x)
    y, small = _shift_argument(g, z)
    series = _inverse_powers(g, y, [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)])
    out = g.Add(g.Sub(g.Mul(g.Sub(y, half), g.Log(y)), y), constant_like(g, math.log(2 * math.pi) / 2, x))
    out = g.Add(out, series)
    product = z
    for i in range(1, _SHIFT):
        product = g.Mul(product, g.Add(z, constant_like(g, float(i), x)))
    out = g.Where(small, g.Sub(out, g.Log(g.Where(small, product, one))), out)
    other = g.Sub(constant_like(g, math.log(math.pi), x), g.Add(g.Log(g.Abs(_sine_of_pi(g, x))), out))
    whole = g.And(g.LessOrEqual(x, constant_like(g, 0.0, x)), g.Equal(x, g.Floor(x)))
    out = g.Where(reflected, g.Where(whole, constant_like(g, math.inf, x), other), out)
    return g.Where(g.Equal(g.Abs(x), constant_like(g, math.inf, x)), constant_like(g, math.inf, x), out)


def digamma(g: Graph, x: ir.Value) -> ir.Value:
    """Return digamma by the asymptotic series beyond 10, the recurrence below, and the reflection formula below 0."""
    one, zero = constant_like(g, 1.0, x), constant_like(g, 0.0, x)
    reflected = g.Less(x, zero)
    z = g.Where(reflected, g.Sub(one, x), x)
    y, small = _shift_argument(g, z)
    inverse = g.Reciprocal(y)
    squares = g.Mul(inverse, _inverse_powers(g, y, [b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)]))
    out = g.Sub(g.Sub(g.Log(y), g.Mul(inverse, constant_like(g, 0.5, x))), squares)
    sums = g.Reciprocal(z)
    for i in range(1, _SHIFT):
        sums = g.Add(sums, g.Reciprocal(g.Add(z, constant_like(g, float(i), x))))
    out = g.Where(small, g.Sub(out, sums), out)
    offset = g.Sub(x, g.Floor(g.Add(x, constant_like(g, 0.5, x))))
    angle = g.Mul(offset, constant_like(g, math.pi, x))
    other = g.Sub(out, g.Div(g.Mul(g.Cos(angle), constant_like(g, math.pi, x)), g.Sin(angle)))
    whole = g.Equal(x, g.Floor(x))
    out = g.Where(reflected, g.Where(whole, constant_like(g, math.nan, x), other), out)
    # At zero: infinity with the opposite sign of zero.
    return g.Where(g.Equal(x, zero), g.Neg(g.Reciprocal(x)), out)


def trigamma(g: Graph, x: ir.Value) -> ir.Value:
    one, half = constant_like(g, 1.0, x), constant_like(g, 0.5, x)
    reflected = g.Less(x, half)
    z = g.Where(reflected, g.Sub(one, x), x)
    y, small = _shift_argument(g, z)
    inverse = g.Reciprocal(y)
    square = g.Mul(inverse, inverse)
    out = g.Add(inverse, g.Mul(square, g.Add(half, _inverse_powers(g, y, list(_BERNOULLI)))))
    sums = g.Reciprocal(g.Mul(z, z))
    for i in range(1, _SHIFT):
        term = g.Add(z, constant_like(g, float(i), x))
        sums = g.Add(sums, g.Reciprocal(g.Mul(term, term)))
    out = g.Where(small, g.Add(out, sums), out)
    sine = _sine_of_pi(g, x)
    other = g.Sub(g.Div(constant_like(g, math.pi**2, x), g.Mul(sine, sine)), out)
    return g.Where(reflected, other, out)


def zeta(g: Graph, x: ir.Value, q: ir.Value) -> ir.Value:
    """Return Hurwitz' zeta by Euler-Maclaurin.

    A Loop adds terms until q + k exceeds 9; then comes the series in 1 / (q + k).
    """
    one, zero = constant_like(g, 1.0, q), constant_like(g, 0.0, q)
    steps = g.Max(g.Ceil(g.Sub(constant_like(g, 10.0, q), q)), constant_like(g, 9.0, q))
    steps = g.Where(g.Less(steps, constant_like(g, 1e5, q)), steps, constant_like(g, 1e5, q))
    total = _leading_terms(g, x, q, steps)
    a = g.Add(q, steps)
    power = g.Pow(a, g.Neg(x))
    total = g.Add(total, g.Div(g.Mul(a, power), g.Sub(x, one)))
    total = g.Add(total, g.Mul(power, constant_like(g, 0.5, q)))
    factor, term = g.Div(g.Mul(x, power), a), None
    for k, b in enumerate(_BERNOULLI, 1):
        term = g.Mul(factor, constant_like(g, b / math.factorial(2 * k), q))
        total = g.Add(total, term)
        pair = g.Mul(g.Add(x, constant_like(g, 2.0 * k - 1, q)), g.Add(x, constant_like(g, 2.0 * k, q)))
        factor = g.Div(g.Mul(factor, pair), g.Mul(a, a))
    below = g.LessOrEqual(q, zero)
    total = g.Where(g.And(below, g.Not(g.Equal(x, g.Floor(x)))), constant_like(g, math.nan, q), total)
    total = g.Where(g.And(below, g.Equal(q, g.Floor(q))), constant_like(g, math.inf, q), total)
    infinite = g.Where(g.Less(q, one), constant_like(g, math.inf, q), g.Where(g.Equal(q, one), one, zero))
    total = g.Where(g.And(g.IsInf(x), g.Greater(q, zero)), infinite, total)  # 1 / q to an infinite power
    total = g.Where(g.Less(x, one), constant_like(g, math.nan, q), total)
    return g.Where(g.Equal(x, one), constant_like(g, math.inf, q), total)


def _leading_terms(g: Graph, x: ir.Value, q: ir.Value, steps: ir.Value) -> ir.Value:
    """Return the sum of (q + k)^-x over the first `steps` k of each element."""
    start = g.Mul(g.Add(q, x), constant_like(g, 0.0, q))
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
