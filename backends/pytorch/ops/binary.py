"""Element-wise operators of two or more inputs, with numpy's broadcasting."""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch

from ..common import plain, wide
from ..rules import host, onnx_op

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


def _order(function: Any) -> Any:
    """Return the rule of a comparison. uint64 is compared in int64 with the sign bit flipped."""

    def rule(t: Any, x: Any, y: Any) -> Any:
        if x.dtype == torch.uint64:
            turn = torch.iinfo(torch.int64).min
            return function(x.to(torch.int64) ^ turn, y.to(torch.int64) ^ turn)
        return function(wide(x), wide(y))

    return rule


onnx_op.same(_order, Greater=torch.gt, GreaterOrEqual=torch.ge, Less=torch.lt, LessOrEqual=torch.le)


def _safe_divisor(t: Any, x: Any, y: Any) -> Any:
    """Return a mask of divisors that are −1 (None if there are none) and the divisors with 1 in their place.

    Dividing the least integer by −1 crashes PyTorch's process.
    """
    known = t.static(y)
    divisor = wide(t.tensor(y))
    if x.dtype not in (torch.int32, torch.int64, torch.uint32) or (known is not None and not (known == -1).any()):
        return None, divisor
    minus = divisor == -1
    return minus, torch.where(minus, torch.ones_like(divisor), divisor)


def _quotient_of_uint64(x: Any, y: Any) -> Any:
    """Divide uint64, which PyTorch cannot: divide half of x in int64, and get the last bit from the remainder."""
    a, b, turn = x.to(torch.int64), y.to(torch.int64), torch.iinfo(torch.int64).min
    large = b < 0  # 2⁶³ or more: the quotient is 0 or 1
    divisor = torch.where(large, torch.ones_like(b), b)
    twice = torch.div((a >> 1) & ~turn, divisor, rounding_mode="trunc") * 2
    rest = a - twice * divisor
    found = twice + ((rest ^ turn) >= (divisor ^ turn)).to(torch.int64)
    return torch.where(large, ((a ^ turn) >= (b ^ turn)).to(torch.int64), found)


@onnx_op("Div")
@host("B")
def div(t, x, B):
    y = t.tensor(B)
    if x.dtype == torch.uint64:
        return _quotient_of_uint64(x, y)
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return torch.div(x, y)
    minus, y = _safe_divisor(t, x, B)
    found = torch.div(wide(x), y, rounding_mode="trunc")
    return found if minus is None else torch.where(minus, -wide(x), found)


@onnx_op("Mod")
@host("B")
def mod(t, x, B, *, fmod):
    y = t.tensor(B)
    if x.dtype == torch.uint64:
        return x.to(torch.int64) - _quotient_of_uint64(x, y) * y.to(torch.int64)
    if not x.dtype.is_floating_point:
        _, y = _safe_divisor(t, x, B)  # the remainder of a division by −1 is 0, as by 1
    return torch.fmod(wide(x), wide(y)) if fmod else torch.remainder(wide(x), wide(y))


@onnx_op("Pow")
def power(t, x, y):
    x, y = wide(x), wide(y)
    dtype = x.dtype
    if not dtype.is_floating_point and not y.dtype.is_floating_point:
        # PyTorch rejects integers to constant negative integer powers, and returns 0 or 1 for other negative powers.
        return torch.pow(x.to(torch.int64), y.to(torch.int64)).to(dtype)
    if not dtype.is_floating_point:
        return torch.pow(x.to(torch.float64), y.to(torch.float64)).to(dtype)
    return torch.pow(x, y.to(dtype) if not y.dtype.is_floating_point or y.dtype != dtype else y)


@onnx_op("Max")
def maximum(t, *xs):
    return _extreme(torch.maximum, xs)


@onnx_op("Min")
def minimum(t, *xs):
    return _extreme(torch.minimum, xs)


def _extreme(function: Any, xs: Any) -> Any:
    """Return the largest or smallest. uint64 is held as int64 bits; flipping the highest bit keeps the order."""
    if xs[0].dtype != torch.uint64:
        return reduce(function, map(wide, xs))
    least = torch.iinfo(torch.int64).min
    return reduce(function, [wide(x) ^ least for x in xs]) ^ least


@onnx_op("Sum")
def sum_(t, *xs):
    return reduce(torch.add, xs)


@onnx_op("Mean")
def mean(t, *xs):
    return reduce(torch.add, xs) / len(xs)


@onnx_op("Where")
def where(t, condition, x, y):
    dtype = x.dtype
    return torch.where(condition, wide(x), wide(y)).to(dtype)


@onnx_op("BitShift")
def bit_shift(t, x, y, *, direction):
    dtype, bits = x.dtype, torch.iinfo(x.dtype).bits
    a, n = x.to(torch.int64), y.to(torch.int64)
    if direction == "LEFT":
        found = torch.bitwise_left_shift(a, torch.clamp(n, 0, 63))
    elif dtype == torch.uint64:  # the shift of int64 repeats the sign
        rest = torch.bitwise_left_shift(torch.full_like(n, -1), torch.clamp(64 - n, 0, 63))
        found = torch.where(n > 0, torch.bitwise_right_shift(a, n) & ~rest, a)
    else:
        found = torch.bitwise_right_shift(a, torch.clamp(n, 0, 63))
    past = (n >= bits) | (n < 0)
    nothing = torch.where(a < 0, -1, 0) if direction == "RIGHT" and dtype.is_signed else torch.zeros_like(found)
    return torch.where(past, nothing, found).to(dtype)
