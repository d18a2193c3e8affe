"""Comparison, logic, bitwise operators, and selection by a condition."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from convert.graph import Graph

from ..common.values import (
    Operand,
    as_value,
    cast,
    cast_to_floating,
    constant_like,
    is_bool,
    is_float,
    mark_if_scalars,
    promote_operands,
    result_dtype,
)
from ..rules import torch_op
from .unary import isfinite


def _comparison_rule(operator: str) -> Any:
    def rule(g: Graph, x: Operand, y: Operand) -> ir.Value:
        a, b = promote_operands(g, x, y)
        if is_bool(g, a):
            a, b = cast(g, a, torch.int32), cast(g, b, torch.int32)
        return mark_if_scalars(g.node(operator, [a, b]), x, y)

    return rule


torch_op.same(
    _comparison_rule,
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
    a, b = promote_operands(g, x, y)
    return mark_if_scalars(g.Equal(a, b), x, y)


@torch_op("ne", "not_equal")
def ne(g, x, y):
    a, b = promote_operands(g, x, y)
    return mark_if_scalars(g.Not(g.Equal(a, b)), x, y)


@torch_op("isclose")
def isclose(g, x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    a, b = promote_operands(g, x, y)
    same = g.Equal(a, b)
    if equal_nan and is_float(g, a):
        same = g.Or(same, g.And(g.IsNaN(a), g.IsNaN(b)))
    a, b = cast_to_floating(g, a), cast_to_floating(g, b)
    gap = g.Abs(g.Sub(a, b))
    allowed = g.Add(constant_like(g, atol, b), g.Abs(g.Mul(constant_like(g, rtol, b), b)))
    return g.Or(same, g.And(isfinite(g, gap), g.LessOrEqual(gap, allowed)))


def cast_to_bool(g: Graph, x: Operand) -> ir.Value:
    """Return `x` as a boolean: not zero."""
    return as_value(g, x, torch.bool) if isinstance(x, ir.Value) else g.const(bool(x))


def _logical_rule(operator: str) -> Any:
    def rule(g: Graph, x: Operand, y: Operand) -> ir.Value:
        return mark_if_scalars(g.node(operator, [cast_to_bool(g, x), cast_to_bool(g, y)]), x, y)

    return rule


torch_op.same(_logical_rule, logical_or="Or", logical_xor="Xor")


@torch_op("logical_and")
def logical_and(g, x, y):
    return mark_if_scalars(g.And(cast_to_bool(g, x), cast_to_bool(g, y)), x, y)


@torch_op("logical_not", "sym_not")
def logical_not(g, x):
    return mark_if_scalars(g.Not(cast_to_bool(g, x)), x)


def _bitwise_rule(operator: str) -> Any:
    def rule(g: Graph, x: Operand, y: Operand) -> ir.Value:
        a, b = promote_operands(g, x, y)
        return g.node(operator if is_bool(g, a) else f"Bitwise{operator}", [a, b])

    return rule


torch_op.same(
    _bitwise_rule, bitwise_and="And", bitwise_or="Or", bitwise_xor="Xor", __and__="And", __or__="Or", __xor__="Xor"
)


@torch_op("bitwise_not")
def bitwise_not(g, x):
    return g.Not(x) if is_bool(g, x) else g.BitwiseNot(x)


@torch_op("where")
def where(g, condition, x=None, y=None):
    if x is None or y is None:
        places = g.NonZero(condition)
        return [g.Gather(places, i, axis=0) for i in range(g.rank(condition))]
    dtype = result_dtype(g, x, y)  # for two numbers the dtype is PyTorch's, because the result is a tensor
    return g.Where(cast_to_bool(g, condition), as_value(g, x, dtype), as_value(g, y, dtype))


@torch_op("masked_fill")
def masked_fill(g, x, mask, value):
    return g.Where(mask, as_value(g, value, g.dtype(x)), x)
