"""Special functions that ONNX lacks, composed of the core's arithmetic in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from convert.graph import Graph
from convert.numerics import bessel, gamma, inverses
from convert.numerics.beta import incomplete_beta
from convert.numerics.incomplete import incomplete_gamma
from convert.numerics.series import Function, constant_like

from ..rules import tf_op

_DOUBLE = ir.DataType.DOUBLE


def to_float64(g: Graph, x: ir.Value) -> ir.Value:
    """Return x in float64."""
    return x if x.dtype == _DOUBLE else g.Cast(x, to=_DOUBLE)


def cast_like(g: Graph, x: ir.Value, like_: ir.Value) -> ir.Value:
    """Return x in the dtype of `like_`."""
    return x if x.dtype == like_.dtype else g.Cast(x, to=g.dtype(like_))


def _float64_rule(function: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    """Return the rule of a `function` that is computed in float64 and rounded to the dtype of its inputs."""
    return lambda g, *inputs: cast_like(g, function(g, *(to_float64(g, x) for x in inputs)), inputs[0])


def _digamma(g: Graph, x: ir.Value) -> ir.Value:
    """Digamma; NaN at zero, where the one-sided limits differ."""
    return g.Where(g.Equal(x, constant_like(g, 0.0, x)), constant_like(g, math.nan, x), gamma.digamma(g, x))


def _limit_below(function: Function, limit: float) -> Function:
    """Return a Bessel function of the second kind with its limit at zero for negative x too, as in Eigen."""

    def with_limit(g: Graph, x: ir.Value) -> ir.Value:
        return g.Where(g.Less(x, constant_like(g, 0.0, x)), constant_like(g, limit, x), function(g, x))

    return with_limit


def _zeta(g: Graph, x: ir.Value, q: ir.Value) -> ir.Value:
    """Zeta with Eigen's limits: infinite x and q, poles for even x only, and NaN."""
    zero, half, one, infinity, nan = (constant_like(g, n, q) for n in (0.0, 0.5, 1.0, math.inf, math.nan))
    out = gamma.zeta(g, x, q)
    halves = g.Mul(x, half)
    poles = g.Where(g.Equal(halves, g.Floor(halves)), infinity, nan)
    at_pole = g.And(g.LessOrEqual(q, zero), g.Equal(q, g.Floor(q)))
    out = g.Where(g.And(at_pole, g.Not(g.LessOrEqual(x, one))), poles, out)
    far = g.Where(g.Greater(q, one), zero, g.Where(g.Less(q, one), infinity, q))
    out = g.Where(g.And(g.Equal(q, infinity), g.Greater(x, one)), zero, out)
    return g.Where(g.Equal(x, infinity), far, out)


tf_op.same(
    _float64_rule, Lgamma=gamma.lgamma, Digamma=_digamma, Zeta=_zeta, Ndtri=inverses.ndtri,
    Erfinv=inverses.erfinv_of_quantile,
    BesselJ0=bessel.j0, BesselJ1=bessel.j1,
    BesselY0=_limit_below(bessel.y0, -math.inf), BesselY1=_limit_below(bessel.y1, -math.inf),
    BesselI0=bessel.i0, BesselI1=bessel.i1, BesselI0e=bessel.i0e, BesselI1e=bessel.i1e,
    BesselK0=_limit_below(bessel.modified_k(0, False), math.inf),
    BesselK1=_limit_below(bessel.modified_k(1, False), math.inf),
    BesselK0e=_limit_below(bessel.modified_k(0, True), math.inf),
    BesselK1e=_limit_below(bessel.modified_k(1, True), math.inf), Betainc=incomplete_beta,
)  # fmt: skip


@tf_op("Igamma")
def igamma(g: Graph, a: ir.Value, x: ir.Value) -> ir.Value:
    out = _incomplete_gamma(g, a, x, upper=False)
    return g.Where(g.Equal(x, constant_like(g, 0.0, x)), constant_like(g, 0.0, x), out)


@tf_op("Igammac")
def igammac(g: Graph, a: ir.Value, x: ir.Value) -> ir.Value:
    return _incomplete_gamma(g, a, x, upper=True)


def _incomplete_gamma(g: Graph, a: ir.Value, x: ir.Value, *, upper: bool) -> ir.Value:
    """Incomplete gamma; NaN for non-positive orders and NaN; 0 for two infinities, as in Eigen."""
    out = cast_like(g, incomplete_gamma(g, to_float64(g, a), to_float64(g, x), upper=upper), x)
    both = g.Add(a, x)
    g.facts(out, shape=g.shape(both))
    infinity, nothing = constant_like(g, math.inf, a), g.Or(g.IsNaN(a), g.LessOrEqual(a, constant_like(g, 0.0, a)))
    infinite = g.And(g.Equal(a, infinity), g.Equal(x, infinity))
    out = g.Where(infinite, constant_like(g, 0.0, x), g.Where(g.IsNaN(both), both, out))
    return g.Where(nothing, constant_like(g, math.nan, x), out)


@tf_op("Polygamma")
def polygamma(g: Graph, a: ir.Value, x: ir.Value) -> ir.Value:
    """Polygamma: (-1)^(a + 1) a! zeta(a + 1, x) for integer orders from 1 on, NaN between them."""
    order, point = to_float64(g, a), to_float64(g, x)
    zero, one, two = (constant_like(g, n, order) for n in (0.0, 1.0, 2.0))
    odd = g.Sub(order, g.Mul(two, g.Floor(g.Div(order, two))))
    # Above 2⁵³ all floats are even, and so is the order plus 1, whose power of -1 TensorFlow takes.
    is_huge = g.Greater(order, constant_like(g, 2.0**53, order))
    sign = g.Where(is_huge, one, g.Sub(g.Mul(two, odd), one))
    factor = g.Mul(sign, g.Exp(gamma.lgamma(g, g.Add(order, one))))
    above = g.Mul(factor, _zeta(g, g.Add(order, one), point))
    out = g.Where(g.Equal(order, zero), _digamma(g, point), above)
    return cast_like(g, g.Where(g.Equal(order, g.Floor(order)), out, constant_like(g, math.nan, out)), x)
