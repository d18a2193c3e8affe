"""Lengths and angles of pairs of numbers, with infinities and signed zeros as in C."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph


def length_of(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value:
    """√(a² + b²) by way of the larger of the two, so that large ones do not overflow."""
    a, b = g.Abs(a), g.Abs(b)
    large, small = g.Max(a, b), g.Min(a, b)
    zero, one = _number(g, 0.0, a), _number(g, 1.0, a)
    ratio = g.Div(small, g.Where(g.Equal(large, zero), one, large))
    length = g.Mul(large, g.Sqrt(g.Add(one, g.Mul(ratio, ratio))))
    infinite = g.Or(g.IsInf(a), g.IsInf(b))  # infinity even beside NaN, as in C
    return g.Where(infinite, _number(g, np.inf, a), length)


def arctangent(g: Graph, y: ir.Value, x: ir.Value) -> ir.Value:
    """atan(y / x), half a turn further where x is negative, a quarter of a turn where x = 0; signed zeros as in C.

    Where both are infinite their signs are on the diagonal as well.
    """
    diagonal = g.And(g.IsInf(x), g.IsInf(y))
    x, y = (g.Where(diagonal, g.Sign(v), v) for v in (x, y))
    zero, one, pi, quarter = (_number(g, n, x) for n in (0.0, 1.0, 3.141592653589793, 1.5707963267948966))
    above = g.Equal(x, zero)
    upright = g.And(above, g.Greater(g.Abs(y), zero))  # not NaN
    angle = g.Atan(g.Div(y, g.Where(above, one, x)))
    turned = g.Add(angle, g.Where(is_negative(g, y), g.Neg(pi), pi))
    angle = g.Where(is_negative(g, x), turned, angle)
    return g.Where(upright, g.Mul(g.Sign(y), quarter), angle)


def is_negative(g: Graph, x: ir.Value) -> ir.Value:
    """Whether the sign is set, of zeros as well."""
    zero = _number(g, 0.0, x)
    return g.Less(g.Where(g.Equal(x, zero), g.Div(_number(g, 1.0, x), x), x), zero)


def _number(g: Graph, number: float, like: ir.Value) -> ir.Value:
    return g.const(number, g.dtype(like))
