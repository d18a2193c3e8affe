"""Bitwise operators written out in arithmetic on each bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph


def bitwise_not(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """BitwiseNot: -1 - x in two's complement, wrapped to the dtype of x."""
    x = node.inputs[0]
    assert x is not None
    return [g.Cast(g.Sub(np.int64(-1), g.Cast(x, to=ir.DataType.INT64)), to=g.dtype(x))]


def bitwise(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """BitwiseAnd, BitwiseOr and BitwiseXor: combine the signs and each bit, then sum the weighted bits."""
    a, b = node.inputs
    assert a is not None
    assert b is not None
    dtype = g.dtype(a)
    size = dtype.bitwidth if dtype.is_signed() else min(dtype.bitwidth + 1, 64)
    powers = np.int64(1) << np.arange(size - 1, dtype=np.int64)
    signs, bits = zip(*(_bits_of(g, x, powers) for x in (a, b)), strict=True)
    sign, bit = (_combined(g, node.op_type, *pair) for pair in (signs, bits))
    # A negative number x has the inverted bits of -1 - x.
    read = g.Xor(g.Unsqueeze(sign, [-1]), bit)
    total = g.ReduceSum(g.Mul(g.Cast(read, to=ir.DataType.INT64), powers), np.array([-1]), keepdims=0)
    return [g.Cast(g.Where(sign, g.Sub(np.int64(-1), total), total), to=dtype)]


def _bits_of(g: Graph, x: ir.Value, powers: np.ndarray) -> tuple[ir.Value, ir.Value]:
    """Return whether each number is negative, and its bits in a last dim; both are boolean."""
    wide = g.Cast(x, to=ir.DataType.INT64)
    negative = g.Less(wide, np.int64(0))
    positive = g.Unsqueeze(g.Where(negative, g.Sub(np.int64(-1), wide), wide), [-1])
    shifted = g.Div(positive, powers)
    odd = g.Cast(g.Sub(shifted, g.Mul(g.Div(shifted, np.int64(2)), np.int64(2))), to=ir.DataType.BOOL)
    return negative, g.Xor(odd, g.Unsqueeze(negative, [-1]))


def _combined(g: Graph, operator: str, a: ir.Value, b: ir.Value) -> ir.Value:
    made: ir.Value = getattr(g, operator.removeprefix("Bitwise"))(a, b)
    return made
