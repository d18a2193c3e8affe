"""Special functions in float64: gamma, Bessel and Airy functions, and orthogonal polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics import bessel, gamma, inverses
from convert.numerics.incomplete import erfcx, incomplete_gamma, log_ndtr
from convert.numerics.series import Function

from ..common.values import Operand, as_value, cast, cast_to_floating, constant_like, promote_operands
from ..rules import torch_op

# -- Bessel and Airy functions, without the coefficients that PyTorch leaves out --------------------------------------


def compute_in_double(function: Function) -> Function:
    """Return the rule of a `function` that is computed in float64 and rounded to the dtype of x."""

    @wraps(function)
    def rule(g: Graph, x: ir.Value) -> ir.Value:
        x = cast_to_floating(g, x)
        return cast(g, function(g, cast(g, x, ir.DataType.DOUBLE)), g.dtype(x))

    return rule


torch_op.same(
    compute_in_double,
    special_bessel_j0=partial(bessel.j0, monic=False),
    special_bessel_j1=partial(bessel.j1, monic=False),
    special_bessel_y0=partial(bessel.y0, monic=False),
    special_bessel_y1=partial(bessel.y1, monic=False),
    i0=bessel.i0,
    special_i0=bessel.i0,
    special_i0e=bessel.i0e,
    special_i1=bessel.i1,
    special_i1e=bessel.i1e,
    special_modified_bessel_i0=bessel.i0,
    special_modified_bessel_i1=bessel.i1,
    special_modified_bessel_k0=bessel.modified_k(0, False),
    special_modified_bessel_k1=bessel.modified_k(1, False),
    special_scaled_modified_bessel_k0=bessel.modified_k(0, True),
    special_scaled_modified_bessel_k1=bessel.modified_k(1, True),
    special_airy_ai=bessel.airy,
    special_spherical_bessel_j0=bessel.spherical_j0,
)


# -- the gamma function, its derivatives, and inverse error functions -------------------------------------------------


torch_op.same(
    compute_in_double,
    lgamma=gamma.lgamma,
    special_gammaln=gamma.lgamma,
    digamma=gamma.digamma,
    special_digamma=gamma.digamma,
    special_psi=gamma.digamma,
    special_ndtri=inverses.ndtri,
)


@torch_op("polygamma", "special_polygamma")
def polygamma(g, n, x):
    """(-1)^(n + 1) n! zeta(n + 1, x) for n of 2 and more."""
    if isinstance(n, ir.Value):
        raise Unsupported("polygamma of an order that is computed at run time")
    if n < 2:
        return compute_in_double((gamma.digamma, gamma.trigamma)[n])(g, x)
    factor = math.factorial(n) * (-1) ** (n + 1)

    def function(g: Graph, x: ir.Value) -> ir.Value:
        return g.Mul(gamma.zeta(g, constant_like(g, n + 1.0, x), x), constant_like(g, float(factor), x))

    return compute_in_double(function)(g, x)


@torch_op("special_zeta")
def zeta(g, x, q):
    a, b = (cast_to_floating(g, v) for v in promote_operands(g, x, q))
    wide = [cast(g, v, ir.DataType.DOUBLE) for v in (a, b)]
    return cast(g, gamma.zeta(g, *wide), g.dtype(a))


@torch_op("erfinv", "special_erfinv")
def erfinv(g, x):
    return inverses.erfinv(g, cast_to_floating(g, x))


# -- incomplete gamma functions and tails of the error function -------------------------------------------------------


@torch_op("igamma", "special_gammainc")
def igamma(g, a, x):
    return _incomplete_gamma_in_double(g, a, x, upper=False)


@torch_op("igammac", "special_gammaincc")
def igammac(g, a, x):
    return _incomplete_gamma_in_double(g, a, x, upper=True)


def _incomplete_gamma_in_double(g: Graph, a: ir.Value, x: ir.Value, *, upper: bool) -> ir.Value:
    a, x = (cast_to_floating(g, v) for v in promote_operands(g, a, x))
    wide = incomplete_gamma(g, *(cast(g, v, ir.DataType.DOUBLE) for v in (a, x)), upper=upper)
    return cast(g, wide, g.dtype(a))


torch_op.same(compute_in_double, special_erfcx=erfcx, special_log_ndtr=log_ndtr)


# -- orthogonal polynomials by three-term recurrences; the degree may be a tensor -------------------------------------


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
