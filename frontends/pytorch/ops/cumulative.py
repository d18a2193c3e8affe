"""Running sums, products and extremes along one dim."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import torch

from convert.graph import Graph

from ..common.sizes import arange, axis_of, size
from ..common.values import NARROW_INTEGERS, cast, is_bool, is_float, torch_dtype
from ..rules import torch_op
from .arithmetic import logaddexp
from .cat_split import cat
from .reduce import cast_for_sum
from .shape import END

Combine = Callable[[Graph, list[ir.Value], list[ir.Value]], list[ir.Value]]


@torch_op("cumsum")
def cumsum(g, x, dim, *, dtype=None):
    x = cast_for_sum(g, x, dtype)
    if dtype in NARROW_INTEGERS:
        return cast(g, cumsum(g, cast(g, x, torch.int64), dim), dtype)
    return g.CumSum(x, axis_of(g, x, dim)) if g.rank(x) else x


@torch_op("diff")
def diff(g, x, n=1, dim=-1, prepend=None, append=None):
    """Differences of neighbors, `n` times; transformers' causal masks find packed sequences by them."""
    x = cat(g, [part for part in (prepend, x, append) if part is not None], dim)
    axis = axis_of(g, x, dim)
    for _ in range(n):
        later, earlier = g.Slice(x, [1], [END], [axis]), g.Slice(x, [0], [-1], [axis])
        x = g.Xor(later, earlier) if is_bool(g, x) else g.Sub(later, earlier)
    return x


def associative_scan(g: Graph, values: list[ir.Value], axis: int, combine: Combine) -> list[ir.Value]:
    """Return running results of an associative `combine(g, before, after)` in log2(length) steps (Hillis and Steele,
    1986).

    The steps are unrolled for a known length, else they are iterations of a loop.
    """
    length = size(g, values[0], axis)
    if not isinstance(length, int):
        return _associative_scan_in_loop(g, values, axis, combine)
    shift = 1
    while shift < length:
        values = _scan_step(g, values, axis, shift, length - shift, combine)
        shift *= 2
    return values


def _associative_scan_in_loop(g: Graph, values: list[ir.Value], axis: int, combine: Combine) -> list[ir.Value]:
    """Scan in a loop; each iteration gathers the elements `shift` positions before, so that no size changes."""
    dim = g.shape(values[0])[axis]
    length = g.Shape(values[0], start=axis, end=axis + 1)
    places = g.facts(arange(g, g.Squeeze(length, [0])), shape=(dim,))
    behind = list(range(1, g.rank(values[0]) - axis))
    body = g.body("doubling")
    body.input("iteration", ir.DataType.INT64, [])
    body.input("condition", ir.DataType.BOOL, [])
    shift = body.input("shift", ir.DataType.INT64, [1])
    inner = [body.input("running", g.dtype(v), g.shape(v)) for v in values]
    found = body.Sub(places, shift)
    before = [body.Gather(v, body.Max(found, 0), axis=axis) for v in inner]
    has_one = body.GreaterOrEqual(found, 0)
    has_one = body.Unsqueeze(has_one, behind) if behind else has_one
    made = combine(body, before, inner)
    after = [body.Where(has_one, c, v) for c, v in zip(made, inner, strict=True)]
    doubled = body.Mul(shift, [2])
    body.output(_is_shorter(body, doubled, length), body.unique("again"))
    for value in (doubled, *after):
        body.output(value, body.unique("running"))
    one = g.const([1])
    last = g.Loop(None, _is_shorter(g, one, length), one, *values, body=body, outputs=1 + len(values))
    return [g.facts(v, g.dtype(x), g.shape(x)) for v, x in zip(last[1:], values, strict=True)]


def _is_shorter(g: Graph, shift: ir.Value, length: ir.Value) -> ir.Value:
    """Return whether an element has another element `shift` positions before it, as a bool of rank 0."""
    return g.Squeeze(g.Less(shift, length), [0])


def _scan_step(g: Graph, values: list[ir.Value], axis: int, shift: int, rest: int, combine: Combine) -> list[ir.Value]:
    """Combine each element with the element `shift` positions before it; the last `rest` elements have one."""
    before = [g.Slice(v, [0], [rest], [axis]) for v in values]
    after = [g.Slice(v, [shift], [END], [axis]) for v in values]
    heads = [g.Slice(v, [0], [shift], [axis]) for v in values]
    return [g.Concat(h, v, axis=axis) for h, v in zip(heads, combine(g, before, after), strict=True)]


@torch_op("cumprod")
def cumprod(g, x, dim, *, dtype=None):
    x = cast_for_sum(g, x, dtype)
    if g.rank(x) == 0:
        return x
    return associative_scan(g, [x], axis_of(g, x, dim), lambda g, a, b: [g.Mul(a[0], b[0])])[0]


@torch_op("logcumsumexp")
def logcumsumexp(g, x, dim):
    if g.rank(x) == 0:
        return x
    return associative_scan(g, [x], axis_of(g, x, dim), lambda g, a, b: [logaddexp(g, a[0], b[0])])[0]


def _running_extreme_rule(operator: str) -> Callable[..., list[ir.Value]]:
    def rule(g: Graph, x: ir.Value, dim: int) -> list[ir.Value]:
        """Return the running extremum; of equal elements the later one is used, and NaN exceeds all numbers."""
        if g.rank(x) == 0:
            return [x, g.const(0)]
        axis = axis_of(g, x, dim)
        number = cast(g, x, torch.int32) if is_bool(g, x) else x
        places = arange(g, size(g, x, axis))
        behind = g.rank(x) - axis - 1
        places = g.Expand(g.Unsqueeze(places, list(range(1, behind + 1))) if behind else places, g.dims(x))

        def combine(g: Graph, a: list[ir.Value], b: list[ir.Value]) -> list[ir.Value]:
            later = g.node(operator, [b[0], a[0]])
            if is_float(g, x):
                later = g.Or(g.IsNaN(b[0]), g.And(g.Not(g.IsNaN(a[0])), later))
            return [g.Where(later, b[0], a[0]), g.Where(later, b[1], a[1])]

        values, indices = associative_scan(g, [number, places], axis, combine)
        return [cast(g, values, torch_dtype(g, x)), indices]

    return rule


torch_op.same(_running_extreme_rule, cummax="GreaterOrEqual", cummin="LessOrEqual")
