"""Comparison, logic, operations on bits, and choosing by a condition."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from convert.graph import Graph

from ..common.values import Operand, as_value, cast, floating, is_bool, is_float, like, marked, promoted
from ..rules import torch_op
from .arithmetic import floor_divide
from .unary import isfinite


def _ordered(operator: str) -> Any:
    def rule(g: Graph, x: Operand, y: Operand) -> ir.Value:
        a, b = promoted(g, x, y)
        if is_bool(g, a):
            a, b = cast(g, a, torch.int32), cast(g, b, torch.int32)
        return marked(g.node(operator, [a, b]), x, y)

    return rule


torch_op.same(
    _ordered,
    lt="Less",
    le="LessOrEqual",
    gt="Greater",
    ge="GreaterOrEqual",
    less="Less",
    less_equal="LessOrEqual",
    greater="Greater",
    greater_equal="GreaterOrEqual",
)


@torch_op("eq")
def eq(g, x, y):
    a, b = promoted(g, x, y)
    return marked(g.Equal(a, b), x, y)


@torch_op("ne", "not_equal")
def ne(g, x, y):
    a, b = promoted(g, x, y)
    return marked(g.Not(g.Equal(a, b)), x, y)


@torch_op("isclose")
def isclose(g, x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    a, b = promoted(g, x, y)
    same = g.Equal(a, b)
    if equal_nan and is_float(g, a):
        same = g.Or(same, g.And(g.IsNaN(a), g.IsNaN(b)))
    a, b = floating(g, a), floating(g, b)
    gap = g.Abs(g.Sub(a, b))
    allowed = g.Add(like(g, atol, b), g.Abs(g.Mul(like(g, rtol, b), b)))
    return g.Or(same, g.And(isfinite(g, gap), g.LessOrEqual(gap, allowed)))


def truth(g: Graph, x: Operand) -> ir.Value:
    """`x` as a boolean: not zero."""
    return as_value(g, x, torch.bool) if isinstance(x, ir.Value) else g.const(bool(x))


def _logical(operator: str) -> Any:
    def rule(g: Graph, x: Operand, y: Operand) -> ir.Value:
        return marked(g.node(operator, [truth(g, x), truth(g, y)]), x, y)

    return rule


torch_op.same(_logical, logical_or="Or", logical_xor="Xor")


@torch_op("logical_and")
def logical_and(g, x, y):
    return marked(g.And(truth(g, x), truth(g, y)), x, y)


@torch_op("logical_not", "sym_not")
def logical_not(g, x):
    return marked(g.Not(truth(g, x)), x)


def _bitwise(operator: str) -> Any:
    def rule(g: Graph, x: Operand, y: Operand) -> ir.Value:
        a, b = promoted(g, x, y)
        return g.node(operator if is_bool(g, a) else f"Bitwise{operator}", [a, b])

    return rule


torch_op.same(
    _bitwise, bitwise_and="And", bitwise_or="Or", bitwise_xor="Xor", __and__="And", __or__="Or", __xor__="Xor"
)


@torch_op("bitwise_not")
def bitwise_not(g, x):
    return g.Not(x) if is_bool(g, x) else g.BitwiseNot(x)


@torch_op("bitwise_left_shift", "__lshift__")
def left_shift(g, x, y):
    """x · 2^y: ONNX shifts unsigned integers only."""
    a, b = promoted(g, x, y)
    return g.Mul(a, g.Pow(like(g, 2, a), b))


@torch_op("bitwise_right_shift", "__rshift__")
def right_shift(g, x, y):
    a, b = promoted(g, x, y)
    return floor_divide(g, a, g.Pow(like(g, 2, a), b))


@torch_op("where")
def where(g, condition, x=None, y=None):
    if x is None or y is None:
        places = g.NonZero(condition)
        return [g.Gather(places, i, axis=0) for i in range(g.rank(condition))]
    a, b = promoted(g, x, y)
    return g.Where(truth(g, condition), a, b)


@torch_op("masked_fill")
def masked_fill(g, x, mask, value):
    return g.Where(mask, as_value(g, value, g.dtype(x)), x)
