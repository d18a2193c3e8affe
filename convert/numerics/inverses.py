"""Inverses of the error function and of the normal distribution."""

from __future__ import annotations

import math

import onnx_ir as ir

from convert.graph import Graph
from convert.numerics import coefficients as table
from convert.numerics.series import constant_like, horner, polynomial_ratio


def erfinv(g: Graph, x: ir.Value) -> ir.Value:
    """Return a rational approximation, corrected by two Newton steps, in the dtype of x."""
    z = g.Mul(x, x)
    one, size = constant_like(g, 1.0, x), g.Abs(x)
    near = g.Mul(
        x,
        polynomial_ratio(
            g,
            z,
            (-0.140543331, 0.914624893, -1.645349621, 0.886226899),
            (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0),
        ),
    )
    root = g.Sqrt(g.Neg(g.Log(g.Mul(g.Sub(one, size), constant_like(g, 0.5, x)))))
    far = polynomial_ratio(g, root, (1.641345311, 3.429567803, -1.624906493, -1.970840454), (1.6370678, 3.5438892, 1.0))
    far = g.Mul(far, g.Sign(x))
    out = g.Where(g.LessOrEqual(size, constant_like(g, 0.7, x)), near, far)
    for _ in range(2):
        slope = g.Mul(constant_like(g, 2 / math.sqrt(math.pi), x), g.Exp(g.Neg(g.Mul(out, out))))
        out = g.Sub(out, g.Div(g.Sub(g.Erf(out), x), slope))
    end = g.Mul(g.Sign(x), constant_like(g, math.inf, x))
    out = g.Where(g.Equal(size, one), end, out)
    return g.Where(g.Greater(size, one), constant_like(g, math.nan, x), out)


def ndtri(g: Graph, p: ir.Value) -> ir.Value:
    """Return the normal distribution's quantile (Cephes): one approximation around the middle, two for the tails."""
    one, half = constant_like(g, 1.0, p), constant_like(g, 0.5, p)
    tail = constant_like(g, 0.13533528323661269189, p)
    upper = g.Greater(p, g.Sub(one, tail))
    y = g.Where(upper, g.Sub(one, p), p)
    centred = g.Sub(y, half)
    square = g.Mul(centred, centred)
    middle = g.Add(centred, g.Mul(centred, g.Mul(square, polynomial_ratio(g, square, table.NDTRI_P0, table.NDTRI_Q0))))
    middle = g.Mul(middle, constant_like(g, math.sqrt(2 * math.pi), p))
    x = g.Sqrt(g.Mul(constant_like(g, -2.0, p), g.Log(y)))
    z = g.Reciprocal(x)
    rest = g.Where(
        g.Less(x, constant_like(g, 8.0, p)),
        polynomial_ratio(g, z, table.NDTRI_P1, table.NDTRI_Q1),
        polynomial_ratio(g, z, table.NDTRI_P2, table.NDTRI_Q2),
    )
    ends = g.Sub(g.Sub(x, g.Div(g.Log(x), x)), g.Mul(z, rest))
    ends = g.Where(upper, ends, g.Neg(ends))
    out = g.Where(g.Greater(y, tail), middle, ends)
    out = g.Where(g.Equal(p, constant_like(g, 0.0, p)), constant_like(g, -math.inf, p), out)
    out = g.Where(g.Equal(p, one), constant_like(g, math.inf, p), out)
    outside = g.Or(g.Less(p, constant_like(g, 0.0, p)), g.Greater(p, one))
    return g.Where(outside, constant_like(g, math.nan, p), out)


def erfinv_of_quantile(g: Graph, x: ir.Value) -> ir.Value:
    """Return erfinv of float64 values without Erf: from the normal quantile, around zero from its series."""
    z = g.Mul(x, x)
    pi = math.pi
    terms = (4369 * pi**4 / 5806080, 127 * pi**3 / 40320, 7 * pi**2 / 480, pi / 12, 1.0)
    near = g.Mul(g.Mul(x, constant_like(g, math.sqrt(pi) / 2, x)), horner(g, z, terms))
    half = constant_like(g, 0.5, x)
    far = g.Mul(ndtri(g, g.Add(g.Mul(x, half), half)), constant_like(g, math.sqrt(0.5), x))
    return g.Where(g.Less(g.Abs(x), constant_like(g, 0.01, x)), near, far)
