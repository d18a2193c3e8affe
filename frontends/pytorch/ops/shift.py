"""Shifts of integers. ONNX shifts unsigned ones only, and leaves shifts by the width or more undefined."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.graph import Graph

from ..common.values import cast, constant_like, is_scalar, promote_operands, torch_dtype
from ..rules import torch_op
from .arithmetic import floor_divide, floor_divide_integers


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
