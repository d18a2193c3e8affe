"""Polynomials, rational functions and Chebyshev series on values of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from convert.graph import Graph

Function = Callable[[Graph, ir.Value], ir.Value]


def constant_like(g: Graph, number: float, x: ir.Value) -> ir.Value:
    """Return a number as a constant of the dtype of `x`."""
    return g.const(float(number), g.dtype(x))


def horner(g: Graph, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Return a polynomial in x; coefficients start with the highest power."""
    out = constant_like(g, coefficients[0], x)
    for c in coefficients[1:]:
        out = g.Mul(out, x)
        out = g.Add(out, constant_like(g, c, x)) if c else out
    return out


def polynomial_ratio(g: Graph, x: ir.Value, above: Sequence[float], below: Sequence[float]) -> ir.Value:
    """Return the quotient of two polynomials in x."""
    return g.Div(horner(g, x, above), horner(g, x, below))


def chebyshev(g: Graph, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Return a Chebyshev series in x, which ranges over [-2, 2], by Clenshaw's recurrence."""
    before, last = constant_like(g, 0.0, x), constant_like(g, 0.0, x)
    out = constant_like(g, coefficients[0], x)
    for c in coefficients[1:]:
        before, last = last, out
        out = g.Add(g.Sub(g.Mul(x, last), before), constant_like(g, c, x))
    return g.Mul(g.Sub(out, before), constant_like(g, 0.5, x))
