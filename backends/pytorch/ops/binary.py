"""Elementwise operators of two inputs and more, with numpy's broadcasting."""

from __future__ import annotations

from functools import reduce

import torch

from convert.errors import Unsupported

from ..common import plain, wide
from ..rules import onnx_op

onnx_op.same(
    plain,
    Add=torch.add,
    Sub=torch.sub,
    Mul=torch.mul,
    And=torch.logical_and,
    Or=torch.logical_or,
    Xor=torch.logical_xor,
    BitwiseAnd=torch.bitwise_and,
    BitwiseOr=torch.bitwise_or,
    BitwiseXor=torch.bitwise_xor,
    Equal=torch.eq,
)


def _order(function):
    """A comparison; of uint64, which is computed in int64, with the sign bit turned."""

    def rule(t, x, y):
        if x.dtype == torch.uint64:
            turn = torch.iinfo(torch.int64).min
            return function(x.to(torch.int64) ^ turn, y.to(torch.int64) ^ turn)
        return function(wide(x), wide(y))

    return rule


onnx_op.same(_order, Greater=torch.gt, GreaterOrEqual=torch.ge, Less=torch.lt, LessOrEqual=torch.le)


@onnx_op("Div")
def div(t, x, y):
    if x.dtype == torch.uint64:
        raise Unsupported("PyTorch does not divide uint64")
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return torch.div(x, y)
    return torch.div(wide(x), wide(y), rounding_mode="trunc")


@onnx_op("Mod")
def mod(t, x, y, *, fmod):
    if x.dtype == torch.uint64:
        x, y = x.to(torch.int64), y.to(torch.int64)
    return torch.fmod(wide(x), wide(y)) if fmod else torch.remainder(wide(x), wide(y))


@onnx_op("Pow")
def power(t, x, y):
    x, y = wide(x), wide(y)
    kind = x.dtype
    if not kind.is_floating_point and not y.dtype.is_floating_point:
        # PyTorch refuses integers to negative integers where they are constants, and gives 0 or 1 where not.
        return torch.pow(x.to(torch.int64), y.to(torch.int64)).to(kind)
    if not kind.is_floating_point:
        return torch.pow(x.to(torch.float64), y.to(torch.float64)).to(kind)
    return torch.pow(x, y.to(kind) if not y.dtype.is_floating_point or y.dtype != kind else y)


@onnx_op("Max")
def maximum(t, *xs):
    return reduce(torch.maximum, map(wide, xs))


@onnx_op("Min")
def minimum(t, *xs):
    return reduce(torch.minimum, map(wide, xs))


@onnx_op("Sum")
def sum_(t, *xs):
    return reduce(torch.add, xs)


@onnx_op("Mean")
def mean(t, *xs):
    return reduce(torch.add, xs) / len(xs)


@onnx_op("Where")
def where(t, condition, x, y):
    kind = x.dtype
    return torch.where(condition, wide(x), wide(y)).to(kind)


@onnx_op("BitShift")
def bit_shift(t, x, y, *, direction):
    kind, bits = x.dtype, torch.iinfo(x.dtype).bits
    a, n = x.to(torch.int64), y.to(torch.int64)
    if direction == "LEFT":
        found = torch.bitwise_left_shift(a, torch.clamp(n, 0, 63))
    elif kind == torch.uint64:  # int64's own shift repeats the sign
        rest = torch.bitwise_left_shift(torch.full_like(n, -1), torch.clamp(64 - n, 0, 63))
        found = torch.where(n > 0, torch.bitwise_right_shift(a, n) & ~rest, a)
    else:
        found = torch.bitwise_right_shift(a, torch.clamp(n, 0, 63))
    past = (n >= bits) | (n < 0)
    nothing = torch.where(a < 0, -1, 0) if direction == "RIGHT" and kind.is_signed else torch.zeros_like(found)
    return torch.where(past, nothing, found).to(kind)
