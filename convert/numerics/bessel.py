"""Bessel and Airy functions of float64 values, by the approximations of the Cephes library."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from convert.graph import Graph
from convert.numerics import coefficients as table
from convert.numerics.series import Function, chebyshev, constant_like, horner, polynomial_ratio

# -- first and second kind --------------------------------------------------------------------------------------------
#
# The denominators are monic: their first coefficient, 1, is not in the tables. PyTorch omits it (`monic=False`), which
# costs it about ten digits near 5.


def _monic_coefficients(coefficients: Sequence[float], monic: bool) -> Sequence[float]:
    return (1.0, *coefficients) if monic else coefficients


def _asymptotic_form(
    g: Graph, x: ir.Value, tables: Sequence[Sequence[float]], turn: float, second: bool, monic: bool
) -> ir.Value:
    """Return the asymptotic form beyond 5: sqrt(2 / (pi x)) (P cos(x - turn) - 5/x Q sin(x - turn)).

    The second kind swaps sin and cos.
    """
    five = g.Div(constant_like(g, 5.0, x), x)
    z = g.Mul(five, five)
    p, q = (
        polynomial_ratio(g, z, *tables[:2]),
        g.Mul(five, polynomial_ratio(g, z, tables[2], _monic_coefficients(tables[3], monic))),
    )
    angle = g.Sub(x, constant_like(g, turn, x))
    cos, sin = g.Cos(angle), g.Sin(angle)
    wave = g.Add(g.Mul(p, sin), g.Mul(q, cos)) if second else g.Sub(g.Mul(p, cos), g.Mul(q, sin))
    return g.Div(g.Mul(wave, constant_like(g, math.sqrt(2 / math.pi), x)), g.Sqrt(x))


_J0 = (table.J0_PP, table.J0_PQ, table.J0_QP, table.J0_QQ)
_J1 = (table.J1_PP, table.J1_PQ, table.J1_QP, table.J1_QQ)


def _root_product(g: Graph, z: ir.Value, first: float, second: float) -> ir.Value:
    return g.Mul(g.Sub(z, constant_like(g, first, z)), g.Sub(z, constant_like(g, second, z)))


def j0(g: Graph, x: ir.Value, monic: bool = True) -> ir.Value:
    x = g.Abs(x)
    z = g.Mul(x, x)
    near = g.Mul(
        _root_product(g, z, 5.78318596294678452118, 30.4712623436620863991),
        polynomial_ratio(g, z, table.J0_RP, _monic_coefficients(table.J0_RQ, monic)),
    )
    return g.Where(
        g.LessOrEqual(x, constant_like(g, 5.0, x)), near, _asymptotic_form(g, x, _J0, math.pi / 4, False, monic)
    )


def j1(g: Graph, x: ir.Value, monic: bool = True) -> ir.Value:
    size = g.Abs(x)
    z = g.Mul(size, size)
    near = g.Mul(
        _root_product(g, z, 14.6819706421238932572, 49.2184563216946036703),
        polynomial_ratio(g, z, table.J1_RP, _monic_coefficients(table.J1_RQ, monic)),
    )
    far = _asymptotic_form(g, size, _J1, 3 * math.pi / 4, False, monic)
    out = g.Where(g.LessOrEqual(size, constant_like(g, 5.0, x)), g.Mul(near, size), far)
    return g.Where(g.Less(x, constant_like(g, 0.0, x)), g.Neg(out), out)


def _with_zero_limit(g: Graph, x: ir.Value, out: ir.Value, limit: float) -> ir.Value:
    """Return `out` for positive x, `limit` at zero and NaN below."""
    zero = constant_like(g, 0.0, x)
    out = g.Where(g.Equal(x, zero), constant_like(g, limit, x), out)
    return g.Where(g.Less(x, zero), constant_like(g, math.nan, x), out)


def y0(g: Graph, x: ir.Value, monic: bool = True) -> ir.Value:
    z = g.Mul(x, x)
    logs = g.Mul(g.Mul(g.Log(x), constant_like(g, 2 / math.pi, x)), j0(g, x, monic))
    near = g.Add(polynomial_ratio(g, z, table.Y0_YP, _monic_coefficients(table.Y0_YQ, monic)), logs)
    far = _asymptotic_form(g, x, _J0, math.pi / 4, True, monic)
    return _with_zero_limit(g, x, g.Where(g.LessOrEqual(x, constant_like(g, 5.0, x)), near, far), -math.inf)


def y1(g: Graph, x: ir.Value, monic: bool = True) -> ir.Value:
    z = g.Mul(x, x)
    logs = g.Sub(g.Mul(j1(g, x, monic), g.Log(x)), g.Reciprocal(x))
    near = g.Add(
        g.Mul(x, polynomial_ratio(g, z, table.Y1_YP, _monic_coefficients(table.Y1_YQ, monic))),
        g.Mul(logs, constant_like(g, 2 / math.pi, x)),
    )
    far = _asymptotic_form(g, x, _J1, 3 * math.pi / 4, True, monic)
    return _with_zero_limit(g, x, g.Where(g.LessOrEqual(x, constant_like(g, 5.0, x)), near, far), -math.inf)


# -- modified ---------------------------------------------------------------------------------------------------------


def _scaled_i(
    g: Graph, x: ir.Value, near: Sequence[float], far: Sequence[float]
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return three values: the approximation of exp(-|x|) I(|x|) up to 8, that beyond 8, and whether |x| is up to 8.

    For the first order, the approximation up to 8 is divided by |x|.
    """
    size = g.Abs(x)
    low = chebyshev(g, g.Sub(g.Div(size, constant_like(g, 2.0, x)), constant_like(g, 2.0, x)), near)
    high = chebyshev(g, g.Sub(g.Div(constant_like(g, 32.0, x), size), constant_like(g, 2.0, x)), far)
    return low, g.Div(high, g.Sqrt(size)), g.LessOrEqual(size, constant_like(g, 8.0, x))


def i0e(g: Graph, x: ir.Value) -> ir.Value:
    low, high, is_low = _scaled_i(g, x, table.I0_A, table.I0_B)
    return g.Where(is_low, low, high)


def i1e(g: Graph, x: ir.Value) -> ir.Value:
    low, high, is_low = _scaled_i(g, x, table.I1_A, table.I1_B)
    out = g.Where(is_low, g.Mul(low, g.Abs(x)), high)
    return g.Where(g.Less(x, constant_like(g, 0.0, x)), g.Neg(out), out)


def i0(g: Graph, x: ir.Value) -> ir.Value:
    return g.Mul(i0e(g, x), g.Exp(g.Abs(x)))


def i1(g: Graph, x: ir.Value) -> ir.Value:
    return g.Mul(i1e(g, x), g.Exp(g.Abs(x)))


def modified_k(order: int, scaled: bool) -> Function:
    def function(g: Graph, x: ir.Value) -> ir.Value:
        two = constant_like(g, 2.0, x)
        series = chebyshev(g, g.Sub(g.Mul(x, x), two), table.K1_A if order else table.K0_A)
        log = g.Log(g.Div(x, two))
        near = g.Mul(log, (i1 if order else i0)(g, x))
        near = g.Add(near, g.Div(series, x)) if order else g.Sub(series, near)
        far = chebyshev(g, g.Sub(g.Div(constant_like(g, 8.0, x), x), two), table.K1_B if order else table.K0_B)
        far = g.Div(far, g.Sqrt(x))
        if scaled:
            near = g.Mul(near, g.Exp(x))
        else:
            far = g.Mul(far, g.Exp(g.Neg(x)))
        return _with_zero_limit(g, x, g.Where(g.LessOrEqual(x, two), near, far), math.inf)

    return function


# -- others -----------------------------------------------------------------------------------------------------------


def airy(g: Graph, x: ir.Value) -> ir.Value:
    """Return Ai: a power series around zero, asymptotic forms beyond 2.09 on both sides."""
    edge = 2.09
    size = g.Abs(x)
    root = g.Sqrt(size)
    zeta = g.Div(g.Mul(g.Mul(constant_like(g, 2.0, x), size), root), constant_like(g, 3.0, x))
    inverse = g.Reciprocal(zeta)
    z = g.Mul(inverse, inverse)
    factor = g.Div(constant_like(g, 1 / math.sqrt(math.pi), x), g.Sqrt(root))
    angle = g.Add(zeta, constant_like(g, math.pi / 4, x))
    first = g.Add(constant_like(g, 1.0, x), g.Mul(z, polynomial_ratio(g, z, table.AIRY_AFN, table.AIRY_AFD)))
    second = g.Mul(inverse, polynomial_ratio(g, z, table.AIRY_AGN, table.AIRY_AGD))
    left = g.Mul(factor, g.Sub(g.Mul(g.Sin(angle), first), g.Mul(g.Cos(angle), second)))
    right = g.Mul(g.Div(factor, constant_like(g, 2.0, x)), polynomial_ratio(g, inverse, table.AIRY_AN, table.AIRY_AD))
    right = g.Div(right, g.Exp(zeta))
    out = g.Where(g.Less(x, constant_like(g, edge, x)), _airy_series(g, x), right)
    out = g.Where(g.Less(x, constant_like(g, -edge, x)), left, out)
    return g.Where(g.Equal(g.Abs(x), constant_like(g, math.inf, x)), constant_like(g, math.nan, x), out)


def _airy_series(g: Graph, x: ir.Value) -> ir.Value:
    cube = g.Mul(g.Mul(x, x), x)
    f, s = [0.355028053887817239260], [0.258819403792806798405]
    for k in range(1, 16):
        f.append(f[-1] / ((3 * k - 1) * 3 * k))
        s.append(s[-1] / (3 * k * (3 * k + 1)))
    return g.Sub(horner(g, cube, f[::-1]), g.Mul(x, horner(g, cube, s[::-1])))


def spherical_j0(g: Graph, x: ir.Value) -> ir.Value:
    z = g.Mul(x, x)
    near = horner(g, z, [(-1) ** k / math.factorial(2 * k + 1) for k in range(6, -1, -1)])
    out = g.Where(g.Less(g.Abs(x), constant_like(g, 0.5, x)), near, g.Div(g.Sin(x), x))
    return g.Where(g.Equal(g.Abs(x), constant_like(g, math.inf, x)), constant_like(g, 0.0, x), out)
