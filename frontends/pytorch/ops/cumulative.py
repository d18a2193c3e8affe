"""Running sums, products and extremes along one dim."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.sizes import arange, axis_of, size
from ..common.values import cast, is_bool, is_float, torch_dtype
from ..rules import torch_op
from .arithmetic import logaddexp
from .reduce import cast_for_sum
from .shape import END

Combine = Callable[[list[ir.Value], list[ir.Value]], list[ir.Value]]


@torch_op("cumsum")
def cumsum(g, x, dim, *, dtype=None):
    x = cast_for_sum(g, x, dtype)
    return g.CumSum(x, axis_of(g, x, dim)) if g.rank(x) else x


def associative_scan(g: Graph, values: list[ir.Value], axis: int, combine: Combine) -> list[ir.Value]:
    """Running results of an associative `combine(before, after)` in log2(length) steps (Hillis and Steele, 1986)."""
    length = size(g, values[0], axis)
    if not isinstance(length, int):
        raise Unsupported("a running product or extreme along a dim of unknown length")
    shift = 1
    while shift < length:
        before = [g.Slice(v, [0], [length - shift], [axis]) for v in values]
        after = [g.Slice(v, [shift], [END], [axis]) for v in values]
        heads = [g.Slice(v, [0], [shift], [axis]) for v in values]
        values = [g.Concat(h, v, axis=axis) for h, v in zip(heads, combine(before, after), strict=True)]
        shift *= 2
    return values


@torch_op("cumprod")
def cumprod(g, x, dim, *, dtype=None):
    x = cast_for_sum(g, x, dtype)
    if g.rank(x) == 0:
        return x
    return associative_scan(g, [x], axis_of(g, x, dim), lambda a, b: [g.Mul(a[0], b[0])])[0]


@torch_op("logcumsumexp")
def logcumsumexp(g, x, dim):
    if g.rank(x) == 0:
        return x
    return associative_scan(g, [x], axis_of(g, x, dim), lambda a, b: [logaddexp(g, a[0], b[0])])[0]


def _running_extreme_rule(operator: str) -> Callable[..., list[ir.Value]]:
    def rule(g: Graph, x: ir.Value, dim: int) -> list[ir.Value]:
        """Of equals the later one counts, and NaN counts for more than any number."""
        if g.rank(x) == 0:
            return [x, g.const(0)]
        axis = axis_of(g, x, dim)
        number = cast(g, x, torch.int32) if is_bool(g, x) else x
        places = arange(g, size(g, x, axis))
        behind = g.rank(x) - axis - 1
        places = g.Expand(g.Unsqueeze(places, list(range(1, behind + 1))) if behind else places, g.dims(x))

        def combine(a: list[ir.Value], b: list[ir.Value]) -> list[ir.Value]:
            later = g.node(operator, [b[0], a[0]])
            if is_float(g, x):
                later = g.Or(g.IsNaN(b[0]), g.And(g.Not(g.IsNaN(a[0])), later))
            return [g.Where(later, b[0], a[0]), g.Where(later, b[1], a[1])]

        values, indices = associative_scan(g, [number, places], axis, combine)
        return [cast(g, values, torch_dtype(g, x)), indices]

    return rule


torch_op.same(_running_extreme_rule, cummax="GreaterOrEqual", cummin="LessOrEqual")
