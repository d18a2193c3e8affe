"""Orthogonal polynomials by three-term recurrences in float64; the degree may be a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from convert.graph import Graph

from ..common.values import Operand, as_value, cast, cast_to_floating, constant_like, promote_operands
from ..rules import torch_op

Step = Callable[[Graph, ir.Value, ir.Value, ir.Value, ir.Value], ir.Value]


def _polynomial(first: Callable[[Graph, ir.Value], ir.Value], step: Step, limit: bool = False) -> Any:
    """Return the rule of a polynomial with P0 = 1, P1 = first(x), and P(k + 1) = step(x, k, Pk, P(k - 1)); 0 below
    degree 0.

    limit: PyTorch returns NaN above a degree that depends on the dtype.
    """

    def rule(g: Graph, x: Operand, n: Operand) -> ir.Value:
        a, b = (cast_to_floating(g, v) for v in promote_operands(g, x, n))
        dtype = g.dtype(a)
        dims = g.dims(g.Add(a, b))
        # Not by adding 0 · x, which is NaN for infinities.
        wide = g.Expand(cast(g, a, ir.DataType.DOUBLE), dims)
        degree = g.Expand(g.Cast(b, to=ir.DataType.INT64), dims)
        zero = constant_like(g, 0.0, wide)
        one = g.Expand(constant_like(g, 1.0, wide), dims)
        last = _recurrence_loop(g, wide, degree, one, first(g, wide), step)
        out = g.Where(g.Equal(degree, 0), constant_like(g, 1.0, wide), g.Where(g.Less(degree, 0), zero, last))
        if limit:
            most = {ir.DataType.FLOAT: 128, ir.DataType.DOUBLE: 512}.get(dtype, 1024)
            out = g.Where(g.Greater(degree, most), constant_like(g, math.nan, wide), out)
        return cast(g, out, dtype)

    return rule


def _recurrence_loop(g: Graph, x: ir.Value, degree: ir.Value, before: ir.Value, last: ir.Value, step: Step) -> ir.Value:
    """Return the polynomial of each element's own degree, from 1 on, by a loop up to the highest degree."""
    trips = g.Sub(
        g.Max(g.ReduceMax(degree, keepdims=0), 1), 1
    )  # the maximum of no elements is −2⁶³, which must give no iterations
    body = g.body("loop")
    number = body.input("iteration", ir.DataType.INT64, [])
    again = body.input("condition", ir.DataType.BOOL, [])
    p, q = (body.input("state", g.dtype(x), g.shape(v)) for v in (before, last))
    k = body.Cast(body.Add(number, 1), to=ir.DataType.DOUBLE)
    going = body.Less(body.Add(number, 1), degree)
    body.output(body.Identity(again), body.unique("again"))
    body.output(body.Where(going, q, p), body.unique("result"))
    body.output(body.Where(going, step(body, x, k, q, p), q), body.unique("result"))
    found = g.Loop(trips, g.const(True), before, last, body=body, outputs=2)
    return g.facts(found[1], g.dtype(x), g.shape(x))


def _twice(g: Graph, x: ir.Value) -> ir.Value:
    return g.Add(x, x)


def _chebyshev(g: Graph, x: ir.Value, k: ir.Value, q: ir.Value, p: ir.Value) -> ir.Value:
    return g.Sub(g.Mul(_twice(g, x), q), p)


def _hermite(g: Graph, x: ir.Value, k: ir.Value, q: ir.Value, p: ir.Value) -> ir.Value:
    return g.Sub(g.Mul(_twice(g, x), q), g.Mul(_twice(g, k), p))


def _hermite_e(g: Graph, x: ir.Value, k: ir.Value, q: ir.Value, p: ir.Value) -> ir.Value:
    return g.Sub(g.Mul(x, q), g.Mul(k, p))


def _laguerre(g: Graph, x: ir.Value, k: ir.Value, q: ir.Value, p: ir.Value) -> ir.Value:
    factor = g.Add(_twice(g, k), g.Sub(constant_like(g, 1.0, x), x))
    return g.Div(g.Sub(g.Mul(factor, q), g.Mul(k, p)), g.Add(k, constant_like(g, 1.0, k)))


def _legendre(g: Graph, x: ir.Value, k: ir.Value, q: ir.Value, p: ir.Value) -> ir.Value:
    factor = g.Mul(g.Add(_twice(g, k), constant_like(g, 1.0, k)), x)
    return g.Div(g.Sub(g.Mul(factor, q), g.Mul(k, p)), g.Add(k, constant_like(g, 1.0, k)))


def _linear_function(slope: float, offset: float) -> Callable[[Graph, ir.Value], ir.Value]:
    return lambda g, x: g.Add(g.Mul(x, constant_like(g, slope, x)), constant_like(g, offset, x))


def _shifted_polynomial(first: Callable[[Graph, ir.Value], ir.Value]) -> Any:
    """Return the rule of the same polynomial at 2x - 1."""
    plain = _polynomial(first, _chebyshev)

    def rule(g: Graph, x: Operand, n: Operand) -> ir.Value:
        a, b = (cast_to_floating(g, v) for v in promote_operands(g, x, n))
        wide = cast(g, a, ir.DataType.DOUBLE)
        moved = g.Sub(g.Add(wide, wide), constant_like(g, 1.0, wide))
        return cast(g, plain(g, moved, as_value(g, b, ir.DataType.DOUBLE)), g.dtype(a))

    return rule


for _name, _first in (
    ("t", _linear_function(1, 0)),
    ("u", _linear_function(2, 0)),
    ("v", _linear_function(2, -1)),
    ("w", _linear_function(2, 1)),
):
    torch_op(f"special_chebyshev_polynomial_{_name}")(_polynomial(_first, _chebyshev))
    torch_op(f"special_shifted_chebyshev_polynomial_{_name}")(_shifted_polynomial(_first))
torch_op("special_hermite_polynomial_h")(_polynomial(_linear_function(2, 0), _hermite, limit=True))
torch_op("special_hermite_polynomial_he")(_polynomial(_linear_function(1, 0), _hermite_e, limit=True))
torch_op("special_laguerre_polynomial_l")(_polynomial(_linear_function(-1, 1), _laguerre))
torch_op("special_legendre_polynomial_p")(_polynomial(_linear_function(1, 0), _legendre))
