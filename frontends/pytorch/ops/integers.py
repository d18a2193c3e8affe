"""Greatest common divisors, least common multiples, and shifts of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.graph import Graph

from ..common.values import cast, constant_like, is_scalar, promote_operands, torch_dtype
from ..rules import torch_op
from .arithmetic import floor_divide, floor_divide_integers

# -- divisors and multiples -------------------------------------------------------------------------------------------


# Euclid's algorithm halves the numbers at least every second step.
_STEPS = 128


@torch_op("gcd")
def gcd(g, x, y):
    return _greatest_common_divisor(g, *promote_operands(g, x, y))


@torch_op("lcm")
def lcm(g, x, y):
    a, b = promote_operands(g, x, y)
    divisor = _greatest_common_divisor(g, a, b)
    none = g.Equal(divisor, constant_like(g, 0, a))
    return g.Abs(g.Mul(g.Div(a, g.Where(none, constant_like(g, 1, a), divisor)), b))


def _greatest_common_divisor(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the greatest common divisor of the absolute values by Euclid's algorithm."""
    shape = g.Shape(g.Add(a, b))
    a, b = g.Expand(g.Abs(a), shape), g.Expand(g.Abs(b), shape)
    body = g.body("loop")
    body.input("iteration", ir.DataType.INT64, [])
    body.input("condition", ir.DataType.BOOL, [])
    large, small = (body.input("state", g.dtype(a), g.shape(a)) for _ in range(2))
    done = body.Equal(small, constant_like(body, 0, small))
    rest = body.Mod(large, body.Where(done, constant_like(body, 1, small), small))
    left = body.Not(body.Equal(body.Where(done, small, rest), constant_like(body, 0, small)))
    again = body.ReduceMax(body.Cast(left, to=ir.DataType.INT32), keepdims=0)
    body.output(body.Cast(again, to=ir.DataType.BOOL), body.unique("again"))
    body.output(body.Where(done, large, small), body.unique("result"))
    body.output(body.Where(done, small, rest), body.unique("result"))
    found = g.Loop(g.const(_STEPS), g.const(True), a, b, body=body, outputs=2)
    return g.facts(found[0], g.dtype(a), g.shape(a))


# -- shifts; ONNX shifts unsigned integers only, and leaves shifts by the width or more undefined ---------------------


@torch_op("bitwise_left_shift", "__lshift__")
def left_shift(g, x, y):
    """x · 2^y, truncated to the width; 0 for a shift by the width or more, or by less than 0."""
    a, b = promote_operands(g, x, y)
    dtype, width = torch_dtype(g, a), g.dtype(a).bitwidth
    amount = y if is_scalar(y) and not isinstance(y, ir.Value) else None
    if amount is not None and not 0 <= amount < width:
        return g.Mul(a, constant_like(g, 0, a))
    if dtype == torch.uint8:
        return _shift_bytes(g, a, b, amount, "LEFT")
    wide = _widened(g, a)
    if amount is not None:
        return cast(g, g.Mul(wide, _power(g, amount, wide)), dtype)
    inside, near = _within(g, b, width - 1)
    product = g.Mul(wide, g.Gather(_powers(g, wide), near, axis=0))
    return cast(g, g.Where(inside, product, constant_like(g, 0, wide)), dtype)


@torch_op("bitwise_right_shift", "__rshift__")
def right_shift(g, x, y):
    """floor(x / 2^y); only the sign remains after a shift by the width or more, or by less than 0."""
    a, b = promote_operands(g, x, y)
    dtype, width = torch_dtype(g, a), g.dtype(a).bitwidth
    amount = y if is_scalar(y) and not isinstance(y, ir.Value) else None
    if dtype == torch.uint8:
        return _shift_bytes(g, a, b, amount, "RIGHT")
    if is_scalar(x) and amount is not None and 0 <= amount < width - 1:
        return floor_divide(g, x, 2**amount)  # a size is shifted as in Python
    wide, most = _widened(g, a), width - 2
    sign = g.Where(g.Less(wide, constant_like(g, 0, wide)), constant_like(g, -1, wide), constant_like(g, 0, wide))
    if amount is not None:
        quotient = floor_divide_integers(g, wide, _power(g, amount, wide)) if 0 <= amount <= most else sign
        return cast(g, quotient, dtype)
    inside, near = _within(g, b, most)
    quotient = floor_divide_integers(g, wide, g.Gather(_powers(g, wide), near, axis=0))
    return cast(g, g.Where(inside, quotient, sign), dtype)


def _shift_bytes(g: Graph, a: ir.Value, b: ir.Value, amount: Any, direction: str) -> ir.Value:
    if amount is not None:
        return g.BitShift(a, b, direction=direction) if 0 <= amount < 8 else g.Mul(a, constant_like(g, 0, a))
    inside = g.Less(b, constant_like(g, 8, b))
    near = g.Where(inside, b, constant_like(g, 0, b))
    return g.Where(inside, g.BitShift(a, near, direction=direction), constant_like(g, 0, a))


def _widened(g: Graph, x: ir.Value) -> ir.Value:
    """Return at least 32 bits, in which runtimes multiply and divide."""
    return cast(g, x, torch.int32) if g.dtype(x).bitwidth < 32 else x


def _power(g: Graph, amount: int, x: ir.Value) -> ir.Value:
    return g.const(np.array(1, g.dtype(x).numpy()) << np.array(amount, g.dtype(x).numpy()))


def _powers(g: Graph, x: ir.Value) -> ir.Value:
    dtype = g.dtype(x).numpy()
    return g.const(np.array(1, dtype) << np.arange(dtype.itemsize * 8, dtype=dtype))


def _within(g: Graph, amount: ir.Value, most: int) -> tuple[ir.Value, ir.Value]:
    """Return whether a shift is between 0 and `most`, and the amount to shift by, which is 0 if it is not."""
    places = cast(g, amount, torch.int64)
    inside = g.And(g.GreaterOrEqual(places, 0), g.LessOrEqual(places, most))
    return inside, g.Where(inside, places, 0)
