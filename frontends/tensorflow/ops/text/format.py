"""Formats numbers as text, digit by digit, as printf does for AsString's formats (as_string_op.cc)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.complexes import is_negative

from ...rules import tf_op

_WHOLE = frozenset("INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32".split())  # noqa: SIM905 (a table)
_NARROW = frozenset(["FLOAT", "FLOAT16", "BFLOAT16"])
_MOST_DECIMALS = 12
"""Decimals of a float32 that float64 holds exactly: 24 bits and the 28 of 5¹²."""

_MOST_WIDTH = 1000
"""The table of paddings has half its square of characters."""

FORMATS = tf_op.limit(
    "AsString",
    "complex numbers, float64, scientific or shortest notation, more than 12 decimals, real numbers filled up to a "
    "width, or widths over 1,000: integers in every form, and float32 with decimals, are written",
)


@tf_op("AsString")
def as_string(
    g: Graph, input: ir.Value, *, precision: int, scientific: bool, shortest: bool, width: int, fill: str
) -> ir.Value:
    if input.dtype == ir.DataType.BOOL:
        return g.Where(input, g.const(np.array("true")), g.const(np.array("false")))
    name = g.dtype(input).name
    if name in _NARROW and not scientific and not shortest:
        if precision > _MOST_DECIMALS or width > -1 or fill:
            raise Unsupported(FORMATS)
        return _real_number(g, input, 6 if precision == -1 else precision)
    if name not in _WHOLE or scientific or shortest or precision > -1 or width > _MOST_WIDTH:
        raise Unsupported(FORMATS)
    if width == -1 and fill not in ("+", " "):
        return g.Cast(input, to=ir.DataType.STRING)
    return _filled_integer(g, g.Cast(input, to=ir.DataType.INT64), width, fill)


def _text(g: Graph, *texts: str) -> ir.Value:
    return g.const(np.array(texts[0] if len(texts) == 1 else texts, object).astype(str))


def _filled_integer(g: Graph, x: ir.Value, width: int, fill: str) -> ir.Value:
    """Return an integer filled up to a width: with zeros after the sign, blanks before it, or blanks after it if `fill`
    is "-".
    """
    negative = g.Less(x, np.int64(0))
    sign = g.Where(negative, _text(g, "-"), _text(g, fill if fill in ("+", " ") else ""))
    # The least integer has no negation. Its text is a constant, at least as wide as any other.
    digits = g.Cast(g.Abs(g.Max(x, np.int64(-(2**63) + 1))), to=ir.DataType.STRING)
    least = _text(g, str(2**63))
    digits = g.Where(g.Equal(x, np.int64(-(2**63))), least, digits)
    powers = np.array([10**k for k in range(1, 19)], np.int64)
    longer = g.Or(g.GreaterOrEqual(g.Unsqueeze(x, [-1]), powers), g.LessOrEqual(g.Unsqueeze(x, [-1]), -powers))
    count = g.Add(g.ReduceSum(g.Cast(longer, to=ir.DataType.INT64), [-1], keepdims=0), np.int64(1))
    signed = np.int64(1) if fill in ("+", " ") else g.Cast(negative, to=ir.DataType.INT64)
    lacking = g.Max(g.Sub(np.int64(max(width, 0)), g.Add(count, signed)), np.int64(0))
    filler = "0" if fill == "0" else " "
    padding = g.Gather(g.const(np.array([filler * k for k in range(max(width, 0) + 1)])), lacking)
    parts = {"0": [sign, padding, digits], "-": [sign, digits, padding]}.get(fill, [padding, sign, digits])
    return _joined(g, parts)


def _real_number(g: Graph, x: ir.Value, decimals: int) -> ir.Value:
    """Format a float, exactly rounded half to even, because float64 holds all requested decimals."""
    exact = g.Cast(x, to=ir.DataType.DOUBLE)
    finite = g.Not(g.Or(g.IsNaN(exact), g.IsInf(exact)))
    size = g.Where(finite, g.Abs(exact), np.float64(0))
    whole = g.Floor(size) if decimals else g.Round(size)
    parts = [g.Where(is_negative(g, exact), _text(g, "-"), _text(g, ""))]
    if decimals:
        scaled = g.Round(g.Mul(g.Sub(size, whole), np.float64(10**decimals)))
        carry = g.GreaterOrEqual(scaled, np.float64(10**decimals))
        whole = g.Add(whole, g.Cast(carry, to=ir.DataType.DOUBLE))
        scaled = g.Where(carry, np.float64(0), scaled)
        behind = [_text(g, "."), *_digit_groups(g, g.Cast(scaled, to=ir.DataType.INT64), decimals)]
    parts.append(g.Cast(g.Cast(whole, to=ir.DataType.INT64), to=ir.DataType.STRING))
    text = _joined(g, [*parts, *(behind if decimals else [])])
    infinite = g.Where(g.Less(exact, np.float64(0)), _text(g, "-inf"), _text(g, "inf"))
    found = g.Where(finite, text, g.Where(g.IsNaN(exact), _text(g, "nan"), infinite))
    return g.facts(found, ir.DataType.STRING, None if x.shape is None else g.shape(x))


def _digit_groups(g: Graph, number: ir.Value, count: int) -> list[ir.Value]:
    """Return a number as `count` digits with leading zeros, three at a time from a table."""
    found: list[ir.Value] = []
    while count > 0:
        width = min(count, 3)
        table = g.const(np.array([f"{k:0{width}d}" for k in range(10**width)]))
        found.insert(0, g.Gather(table, g.Mod(number, np.int64(10**width))))
        number = g.Div(number, np.int64(10**width))
        count -= width
    return found


def _joined(g: Graph, parts: Sequence[ir.Value]) -> ir.Value:
    whole = parts[0]
    for part in parts[1:]:
        whole = g.StringConcat(whole, part)
    return whole
