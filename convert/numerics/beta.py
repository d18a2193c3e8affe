"""The regularized incomplete beta function of float64 values."""

from __future__ import annotations

import math

import onnx_ir as ir

from convert.graph import Graph
from convert.numerics.gamma import lgamma
from convert.numerics.loops import loop_body, run_until_converged
from convert.numerics.series import constant_like

_ROUNDING = 2.0**-53


def incomplete_beta(g: Graph, a: ir.Value, b: ir.Value, x: ir.Value) -> ir.Value:
    """Return the integral of t^(a - 1) (1 - t)^(b - 1) from 0 to x, divided by the integral from 0 to 1.

    A continued fraction (Abramowitz and Stegun, 26.5.8) converges fast for x below the mean; beyond it, the other tail
    is computed.
    """
    zero, one = constant_like(g, 0.0, x), constant_like(g, 1.0, x)
    shape = g.Shape(g.Add(g.Add(a, b), x))
    a, b, x = (g.Expand(v, shape) for v in (a, b, x))
    inside = g.And(g.And(g.Greater(a, zero), g.Greater(b, zero)), g.And(g.Greater(x, zero), g.Less(x, one)))
    p, q, at = g.Where(inside, a, one), g.Where(inside, b, one), g.Where(inside, x, constant_like(g, 0.5, x))
    mean = g.Div(g.Add(p, one), g.Add(g.Add(p, q), constant_like(g, 2.0, x)))
    turned = g.Greater(at, mean)
    first, second = g.Where(turned, q, p), g.Where(turned, p, q)
    point, rest = g.Where(turned, g.Sub(one, at), at), g.Where(turned, at, g.Sub(one, at))
    logs = g.Add(g.Mul(first, g.Log(point)), g.Mul(second, g.Log(rest)))
    scale = g.Sub(lgamma(g, g.Add(first, second)), g.Add(lgamma(g, first), lgamma(g, second)))
    part = g.Div(g.Mul(g.Exp(g.Add(logs, scale)), _continued_fraction(g, first, second, point)), first)
    out = g.Where(turned, g.Sub(one, part), part)
    ends = g.Where(g.Equal(x, zero), zero, g.Where(g.Equal(x, one), one, constant_like(g, math.nan, x)))
    # NaN parameters are ignored at the boundaries, as in TensorFlow.
    ends = g.Where(g.Or(g.LessOrEqual(a, zero), g.LessOrEqual(b, zero)), constant_like(g, math.nan, x), ends)
    return g.Where(inside, out, ends)


def _continued_fraction(g: Graph, a: ir.Value, b: ir.Value, x: ir.Value) -> ir.Value:
    """Return 1 / (1 + d₁ / (1 + d₂ / …)) by Lentz's method, two terms per step."""
    one = constant_like(g, 1.0, x)
    both, above, below = g.Add(a, b), g.Add(a, one), g.Sub(a, one)
    start = g.Reciprocal(g.Sub(one, g.Div(g.Mul(both, x), above)))
    ones = g.Add(g.Mul(start, constant_like(g, 0.0, x)), one)
    body, number, (c, d, out) = loop_body(g, start, 3)
    m = body.Add(body.Cast(number, to=g.dtype(x)), one)
    twice = body.Add(m, m)
    even = body.Div(body.Mul(body.Mul(m, body.Sub(b, m)), x), body.Mul(body.Add(below, twice), body.Add(a, twice)))
    odd = body.Div(
        body.Neg(body.Mul(body.Mul(body.Add(a, m), body.Add(both, m)), x)),
        body.Mul(body.Add(a, twice), body.Add(above, twice)),
    )
    change = one
    for term in (even, odd):
        d = body.Reciprocal(body.Add(one, body.Mul(term, d)))
        c = body.Add(one, body.Div(term, c))
        change = body.Mul(c, d)
        out = body.Mul(out, change)
    far = body.Greater(body.Abs(body.Sub(change, one)), constant_like(body, 4 * _ROUNDING, x))
    return run_until_converged(g, body, far, [c, d, out], [ones, start, start])[2]
