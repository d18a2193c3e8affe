"""Functions of Python's math on run-time floats, which are doubles: onnxruntime has few double kernels for these."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir
import torch

from convert.graph import Graph

from ..common.values import cast
from ..rules import torch_op


def _shared_rule(name: str) -> Callable[..., ir.Value]:
    """Return a formula that applies the rule of the tensor operator `name`."""

    def formula(g: Graph, *args: ir.Value) -> ir.Value:
        found: ir.Value = torch_op.apply(g, name, args)
        return found

    return formula


def _shift(name: str) -> Callable[..., ir.Value]:
    """Return a formula that shifts by the last six bits of the amount, as processors do for TorchScript's ints.

    C++ leaves shifts by 64 and more undefined, and Python returns 0 or -1.
    """

    def formula(g: Graph, number: ir.Value, amount: ir.Value) -> ir.Value:
        found: ir.Value = torch_op.apply(g, name, (number, g.Mod(amount, g.const(64, ir.DataType.INT64))))
        return found

    return formula


def _number(g: Graph, number: float) -> ir.Value:
    return g.const(number, ir.DataType.DOUBLE)


def _atan2(g: Graph, y: ir.Value, x: ir.Value) -> ir.Value:
    """Return atan2: the angle in single precision, corrected by one Newton step in double, whose error is of third
    order.

    Both arguments are divided by the larger magnitude first: very small ones would become 0 in float32, very large ones
    infinite.
    """
    infinite = g.Or(g.IsInf(x), g.IsInf(y))
    a, b = (g.Where(infinite, g.Where(g.IsInf(v), g.Sign(v), _number(g, 0.0)), v) for v in (y, x))
    larger = g.Max(g.Abs(a), g.Abs(b))
    scale = g.Where(g.Equal(larger, _number(g, 0.0)), _number(g, 1.0), larger)
    a, b = g.Div(a, scale), g.Div(b, scale)
    # If one argument is infinite, the numbers themselves still give the signs of zeros.
    ends = (cast(g, g.Where(infinite, v, w), torch.float32) for v, w in ((y, a), (x, b)))
    angle = cast(g, torch_op.apply(g, "atan2", tuple(ends)), torch.float64)
    sine, cosine = g.Sin(angle), g.Cos(angle)
    slope = g.Add(g.Mul(cosine, b), g.Mul(sine, a))
    step = g.Div(g.Sub(g.Mul(sine, b), g.Mul(cosine, a)), slope)
    return g.Where(g.Equal(slope, _number(g, 0.0)), angle, g.Sub(angle, step))


def _atan(g: Graph, x: ir.Value) -> ir.Value:
    return _atan2(g, x, _number(g, 1.0))


def _asin(g: Graph, x: ir.Value) -> ir.Value:
    return _atan2(g, x, _leg(g, x))


def _acos(g: Graph, x: ir.Value) -> ir.Value:
    return _atan2(g, _leg(g, x), x)


def _leg(g: Graph, x: ir.Value) -> ir.Value:
    """Return the square root of 1 - x²."""
    one = _number(g, 1.0)
    return g.Sqrt(g.Mul(g.Sub(one, x), g.Add(one, x)))


FUNCTIONS: dict[str, Callable[..., ir.Value]] = {
    "aten::sin": lambda g, x: g.Sin(x),
    "aten::cos": lambda g, x: g.Cos(x),
    "aten::tan": lambda g, x: g.Div(g.Sin(x), g.Cos(x)),
    "aten::tanh": lambda g, x: g.Tanh(x),
    "aten::atan": _atan,
    "aten::asin": _asin,
    "aten::acos": _acos,
    "aten::atan2": _atan2,
    "aten::log10": lambda g, x: g.Div(g.Log(x), _number(g, math.log(10.0))),
    "aten::fabs": lambda g, x: g.Abs(x),
    "aten::isnan": lambda g, x: g.IsNaN(x),
    "aten::isinf": lambda g, x: g.IsInf(x),
    "aten::isfinite": lambda g, x: g.Not(g.Or(g.IsNaN(x), g.IsInf(x))),
    "aten::copysign": _shared_rule("copysign"),
    "aten::degrees": lambda g, x: g.Mul(x, _number(g, 180.0 / math.pi)),
    "aten::radians": lambda g, x: g.Mul(x, _number(g, math.pi / 180.0)),
}
"""The formulas, by the operator on numbers."""

SHIFTS: dict[str, Callable[..., ir.Value]] = {
    "aten::__lshift__": _shift("__lshift__"),
    "aten::__rshift__": _shift("__rshift__"),
}
