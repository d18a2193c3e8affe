"""Bessel and Airy functions, by the approximations of the Cephes library, computed in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps

import onnx_ir as ir

from convert.graph import Graph

from ..rules import aten
from ..values import cast, floating, like
from . import special_tables as table

Function = Callable[[Graph, ir.Value], ir.Value]


def in_double(function: Function) -> Function:
    """`function` computed in float64 and rounded to the dtype of x."""

    @wraps(function)
    def rule(g: Graph, x: ir.Value) -> ir.Value:
        x = floating(g, x)
        return cast(g, function(g, cast(g, x, ir.DataType.DOUBLE)), g.dtype(x))

    return rule


def horner(g: Graph, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """A polynomial, the highest power first."""
    out = like(g, coefficients[0], x)
    for c in coefficients[1:]:
        out = g.Add(g.Mul(out, x), like(g, c, x))
    return out


def ratio(g: Graph, x: ir.Value, above: Sequence[float], below: Sequence[float]) -> ir.Value:
    """The quotient of two polynomials."""
    return g.Div(horner(g, x, above), horner(g, x, below))


def chebyshev(g: Graph, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """A Chebyshev series in x, which runs over [-2, 2], by Clenshaw's recurrence."""
    before, last = like(g, 0.0, x), like(g, 0.0, x)
    out = like(g, coefficients[0], x)
    for c in coefficients[1:]:
        before, last = last, out
        out = g.Add(g.Sub(g.Mul(x, last), before), like(g, c, x))
    return g.Mul(g.Sub(out, before), like(g, 0.5, x))


def _number(g: Graph, x: ir.Value, n: float) -> ir.Value:
    return like(g, n, x)


# -- of the first and second kind -------------------------------------------------------------------------------------


def _far(g: Graph, x: ir.Value, tables: Sequence[Sequence[float]], turn: float, second: bool) -> ir.Value:
    """The asymptotic form beyond 5: sqrt(2 / (pi x)) (P cos(x - turn) - 5/x Q sin(x - turn)), or with sin and cos."""
    five = g.Div(_number(g, x, 5.0), x)
    z = g.Mul(five, five)
    p, q = ratio(g, z, *tables[:2]), g.Mul(five, ratio(g, z, *tables[2:]))
    angle = g.Sub(x, _number(g, x, turn))
    cos, sin = g.Cos(angle), g.Sin(angle)
    wave = g.Add(g.Mul(p, sin), g.Mul(q, cos)) if second else g.Sub(g.Mul(p, cos), g.Mul(q, sin))
    return g.Div(g.Mul(wave, _number(g, x, math.sqrt(2 / math.pi))), g.Sqrt(x))


_J0 = (table.J0_PP, table.J0_PQ, table.J0_QP, table.J0_QQ)
_J1 = (table.J1_PP, table.J1_PQ, table.J1_QP, table.J1_QQ)


def _roots(g: Graph, z: ir.Value, first: float, second: float) -> ir.Value:
    return g.Mul(g.Sub(z, _number(g, z, first)), g.Sub(z, _number(g, z, second)))


def _j0(g: Graph, x: ir.Value) -> ir.Value:
    x = g.Abs(x)
    z = g.Mul(x, x)
    near = g.Mul(_roots(g, z, 5.78318596294678452118, 30.4712623436620863991), ratio(g, z, table.J0_RP, table.J0_RQ))
    return g.Where(g.LessOrEqual(x, _number(g, x, 5.0)), near, _far(g, x, _J0, math.pi / 4, False))


def _j1(g: Graph, x: ir.Value) -> ir.Value:
    size = g.Abs(x)
    z = g.Mul(size, size)
    near = g.Mul(_roots(g, z, 14.6819706421238932572, 49.2184563216946036703), ratio(g, z, table.J1_RP, table.J1_RQ))
    far = _far(g, size, _J1, 3 * math.pi / 4, False)
    out = g.Where(g.LessOrEqual(size, _number(g, x, 5.0)), g.Mul(near, size), far)
    return g.Where(g.Less(x, _number(g, x, 0.0)), g.Neg(out), out)


def _at_zero(g: Graph, x: ir.Value, out: ir.Value, limit: float) -> ir.Value:
    """`out` for positive x, `limit` at zero and NaN below."""
    zero = _number(g, x, 0.0)
    out = g.Where(g.Equal(x, zero), _number(g, x, limit), out)
    return g.Where(g.Less(x, zero), _number(g, x, math.nan), out)


def _y0(g: Graph, x: ir.Value) -> ir.Value:
    z = g.Mul(x, x)
    logs = g.Mul(g.Mul(g.Log(x), _number(g, x, 2 / math.pi)), _j0(g, x))
    near = g.Add(ratio(g, z, table.Y0_YP, table.Y0_YQ), logs)
    far = _far(g, x, _J0, math.pi / 4, True)
    return _at_zero(g, x, g.Where(g.LessOrEqual(x, _number(g, x, 5.0)), near, far), -math.inf)


def _y1(g: Graph, x: ir.Value) -> ir.Value:
    z = g.Mul(x, x)
    logs = g.Sub(g.Mul(_j1(g, x), g.Log(x)), g.Reciprocal(x))
    near = g.Add(g.Mul(x, ratio(g, z, table.Y1_YP, table.Y1_YQ)), g.Mul(logs, _number(g, x, 2 / math.pi)))
    far = _far(g, x, _J1, 3 * math.pi / 4, True)
    return _at_zero(g, x, g.Where(g.LessOrEqual(x, _number(g, x, 5.0)), near, far), -math.inf)


# -- modified ---------------------------------------------------------------------------------------------------------


def _scaled_i(
    g: Graph, x: ir.Value, near: Sequence[float], far: Sequence[float]
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """exp(-|x|) I(|x|) up to 8 (over |x| for the first order) and beyond, and where |x| is up to 8."""
    size = g.Abs(x)
    low = chebyshev(g, g.Sub(g.Div(size, _number(g, x, 2.0)), _number(g, x, 2.0)), near)
    high = chebyshev(g, g.Sub(g.Div(_number(g, x, 32.0), size), _number(g, x, 2.0)), far)
    return [low, g.Div(high, g.Sqrt(size)), g.LessOrEqual(size, _number(g, x, 8.0))]


def _i0e(g: Graph, x: ir.Value) -> ir.Value:
    low, high, is_low = _scaled_i(g, x, table.I0_A, table.I0_B)
    return g.Where(is_low, low, high)


def _i1e(g: Graph, x: ir.Value) -> ir.Value:
    low, high, is_low = _scaled_i(g, x, table.I1_A, table.I1_B)
    out = g.Where(is_low, g.Mul(low, g.Abs(x)), high)
    return g.Where(g.Less(x, _number(g, x, 0.0)), g.Neg(out), out)


def _i0(g: Graph, x: ir.Value) -> ir.Value:
    return g.Mul(_i0e(g, x), g.Exp(g.Abs(x)))


def _i1(g: Graph, x: ir.Value) -> ir.Value:
    return g.Mul(_i1e(g, x), g.Exp(g.Abs(x)))


def _modified_k(order: int, scaled: bool) -> Function:
    def function(g: Graph, x: ir.Value) -> ir.Value:
        two = _number(g, x, 2.0)
        series = chebyshev(g, g.Sub(g.Mul(x, x), two), table.K1_A if order else table.K0_A)
        log = g.Log(g.Div(x, two))
        near = g.Mul(log, (_i1 if order else _i0)(g, x))
        near = g.Add(near, g.Div(series, x)) if order else g.Sub(series, near)
        far = chebyshev(g, g.Sub(g.Div(_number(g, x, 8.0), x), two), table.K1_B if order else table.K0_B)
        far = g.Div(far, g.Sqrt(x))
        if scaled:
            near = g.Mul(near, g.Exp(x))
        else:
            far = g.Mul(far, g.Exp(g.Neg(x)))
        return _at_zero(g, x, g.Where(g.LessOrEqual(x, two), near, far), math.inf)

    return function


# -- others -----------------------------------------------------------------------------------------------------------


def _airy(g: Graph, x: ir.Value) -> ir.Value:
    """Ai: a power series around zero, asymptotic forms from 2.09 on to both sides."""
    edge = 2.09
    size = g.Abs(x)
    root = g.Sqrt(size)
    zeta = g.Div(g.Mul(g.Mul(_number(g, x, 2.0), size), root), _number(g, x, 3.0))
    inverse = g.Reciprocal(zeta)
    z = g.Mul(inverse, inverse)
    factor = g.Div(_number(g, x, 1 / math.sqrt(math.pi)), g.Sqrt(root))
    angle = g.Add(zeta, _number(g, x, math.pi / 4))
    first = g.Add(_number(g, x, 1.0), g.Mul(z, ratio(g, z, table.AIRY_AFN, table.AIRY_AFD)))
    second = g.Mul(inverse, ratio(g, z, table.AIRY_AGN, table.AIRY_AGD))
    left = g.Mul(factor, g.Sub(g.Mul(g.Sin(angle), first), g.Mul(g.Cos(angle), second)))
    right = g.Mul(g.Div(factor, _number(g, x, 2.0)), ratio(g, inverse, table.AIRY_AN, table.AIRY_AD))
    right = g.Div(right, g.Exp(zeta))
    out = g.Where(g.Less(x, _number(g, x, edge)), _airy_series(g, x), right)
    out = g.Where(g.Less(x, _number(g, x, -edge)), left, out)
    return g.Where(g.IsInf(g.Cast(x, to=ir.DataType.FLOAT)), _number(g, x, math.nan), out)


def _airy_series(g: Graph, x: ir.Value) -> ir.Value:
    cube = g.Mul(g.Mul(x, x), x)
    f, s = [0.355028053887817239260], [0.258819403792806798405]
    for k in range(1, 16):
        f.append(f[-1] / ((3 * k - 1) * 3 * k))
        s.append(s[-1] / (3 * k * (3 * k + 1)))
    return g.Sub(horner(g, cube, f[::-1]), g.Mul(x, horner(g, cube, s[::-1])))


def _spherical_j0(g: Graph, x: ir.Value) -> ir.Value:
    z = g.Mul(x, x)
    near = horner(g, z, [(-1) ** k / math.factorial(2 * k + 1) for k in range(6, -1, -1)])
    out = g.Where(g.Less(g.Abs(x), _number(g, x, 0.5)), near, g.Div(g.Sin(x), x))
    return g.Where(g.IsInf(g.Cast(x, to=ir.DataType.FLOAT)), _number(g, x, 0.0), out)


aten.same(
    in_double,
    special_bessel_j0=_j0,
    special_bessel_j1=_j1,
    special_bessel_y0=_y0,
    special_bessel_y1=_y1,
    i0=_i0,
    special_i0=_i0,
    special_i0e=_i0e,
    special_i1=_i1,
    special_i1e=_i1e,
    special_modified_bessel_i0=_i0,
    special_modified_bessel_i1=_i1,
    special_modified_bessel_k0=_modified_k(0, False),
    special_modified_bessel_k1=_modified_k(1, False),
    special_scaled_modified_bessel_k0=_modified_k(0, True),
    special_scaled_modified_bessel_k1=_modified_k(1, True),
    special_airy_ai=_airy,
    special_spherical_bessel_j0=_spherical_j0,
)
