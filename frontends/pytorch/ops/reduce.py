"""Reductions over dims: sums, extrema and their indices, variances, norms."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
import torch

from convert.graph import Graph

from ..common.sizes import axes_of, axis_of, size, vector
from ..common.values import NARROW_INTEGERS, cast, cast_to_floating, constant_like, is_bool, is_float, is_int
from ..rules import torch_op
from .compare import cast_to_bool
from .shape import flatten


def emit_reduce(g: Graph, operator: str, x: ir.Value, dim: Any = None, keepdim: bool = False) -> ir.Value:
    """Return a Reduce… node over `dim` (None or empty: all)."""
    if g.rank(x) == 0:
        return x
    axes = axes_of(g, x, dim)
    return g.node(operator, [x, None if len(axes) == g.rank(x) else axes], {"keepdims": int(keepdim)})


def cast_for_sum(g: Graph, x: ir.Value, dtype: torch.dtype | None) -> ir.Value:
    if dtype is not None:
        return cast(g, x, dtype)
    return cast(g, x, torch.int64) if is_int(g, x) or is_bool(g, x) else x


@torch_op("sum")
def sum_(g, x, dim=None, keepdim=False, *, dtype=None):
    return _folded(g, "ReduceSum", x, dtype, dim, keepdim)


def _folded(g: Graph, operator: str, x: ir.Value, dtype: torch.dtype | None, *dims: Any) -> ir.Value:
    """Return a sum or product in `dtype`; narrow integers are computed in int64, whose lower bits are the same."""
    x = cast_for_sum(g, x, dtype)
    if dtype not in NARROW_INTEGERS:
        return emit_reduce(g, operator, x, *dims)
    return cast(g, emit_reduce(g, operator, cast(g, x, torch.int64), *dims), dtype)


@torch_op("nansum")
def nansum(g, x, dim=None, keepdim=False, *, dtype=None):
    kept = g.Where(g.IsNaN(x), constant_like(g, 0, x), x) if is_float(g, x) else x
    return sum_(g, kept, dim, keepdim, dtype=dtype)


@torch_op("prod")
def prod(g, x, *, dtype=None):
    return _folded(g, "ReduceProd", x, dtype)


@torch_op("prod.dim_int")
def prod_dim(g, x, dim, keepdim=False, *, dtype=None):
    return _folded(g, "ReduceProd", x, dtype, dim, keepdim)


@torch_op("mean")
def mean(g, x, dim=None, keepdim=False, *, dtype=None):
    return emit_mean(g, x if dtype is None else cast(g, x, dtype), dim, keepdim)


def emit_mean(g: Graph, x: ir.Value, dim: Any, keepdim: bool) -> ir.Value:
    """Return the mean over `dim`; NaN over no elements, which ONNX does not define and onnxruntime computes as 0."""
    axes = axes_of(g, x, dim)
    if any(g.shape(x)[a] == 0 for a in axes):
        return g.Div(emit_reduce(g, "ReduceSum", x, dim, keepdim), constant_like(g, 0, x))
    found = emit_reduce(g, "ReduceMean", x, dim, keepdim)
    if all(isinstance(g.shape(x)[a], int) for a in axes):
        return found
    return g.Add(found, g.Div(constant_like(g, 0, x), count_of(g, x, axes, g.dtype(x))))  # 0 / 0 is NaN, 0 / n is 0


def _extreme_rule(operator: str) -> Any:
    def rule(g: Graph, x: ir.Value, dim: Any = None, keepdim: bool = False) -> ir.Value:
        if is_bool(g, x):
            return cast(g, emit_reduce(g, operator, cast(g, x, torch.int32), dim, keepdim), torch.bool)
        return emit_reduce(g, operator, x, dim, keepdim)

    return rule


torch_op.same(_extreme_rule, amax="ReduceMax", amin="ReduceMin", max="ReduceMax", min="ReduceMin")
_amax, _amin = _extreme_rule("ReduceMax"), _extreme_rule("ReduceMin")


@torch_op("aminmax")
def aminmax(g, x, *, dim=None, keepdim=False):
    return [_amin(g, x, dim, keepdim), _amax(g, x, dim, keepdim)]


def _extreme_with_index_rule(operator: str) -> Any:
    def rule(g: Graph, x: ir.Value, dim: int, keepdim: bool = False) -> list[ir.Value]:
        values = _extreme_rule(f"Reduce{operator}")(g, x, dim, keepdim)
        return [values, index_of_extreme(g, f"Arg{operator}", x, dim, keepdim)]

    return rule


torch_op.same(_extreme_with_index_rule, **{"max.dim": "Max", "min.dim": "Min"})


def index_of_extreme(g: Graph, operator: str, x: ir.Value, dim: int | None, keepdim: bool) -> ir.Value:
    """Return ArgMax or ArgMin; over all elements if `dim` is None. Of equal elements, the first one is used."""
    if g.rank(x) == 0:
        return g.const(0)
    x = cast(g, x, torch.int32) if is_bool(g, x) else x
    if dim is None:
        flat = g.node(operator, [flatten(g, x)], {"axis": 0, "keepdims": 0})
        return g.Reshape(flat, [1] * g.rank(x)) if keepdim else flat
    return g.node(operator, [x], {"axis": axis_of(g, x, dim), "keepdims": int(keepdim)})


@torch_op("argmax")
def argmax(g, x, dim=None, keepdim=False):
    return index_of_extreme(g, "ArgMax", x, dim, keepdim)


@torch_op("argmin")
def argmin(g, x, dim=None, keepdim=False):
    return index_of_extreme(g, "ArgMin", x, dim, keepdim)


def _truth_rule(operator: str) -> Any:
    def rule(g: Graph, x: ir.Value, dim: Any = None, keepdim: bool = False) -> ir.Value:
        """Return the reduction. For bytes PyTorch returns bytes; an empty list of dims reduces nothing."""
        found = cast(g, cast_to_bool(g, x), torch.int32)
        if dim != []:
            found = emit_reduce(g, operator, found, dim, keepdim)
        found = g.Greater(found, constant_like(g, 0, found))  # the maximum of no elements is the least integer
        return cast(g, found, torch.uint8) if g.dtype(x) == ir.DataType.UINT8 else found

    return rule


torch_op.same(_truth_rule, all="ReduceMin", any="ReduceMax", _is_all_true="ReduceMin", _is_any_true="ReduceMax")


@torch_op("count_nonzero")
def count_nonzero(g, x, dim=None):
    return emit_reduce(g, "ReduceSum", cast(g, cast_to_bool(g, x), torch.int64), dim)


@torch_op("logsumexp", "special_logsumexp")
def logsumexp(g, x, dim, keepdim=False):
    return emit_reduce(g, "ReduceLogSumExp", cast_to_floating(g, x), dim, keepdim)


# -- spread -----------------------------------------------------------------------------------------------------------


def count_of(g: Graph, x: ir.Value, axes: list[int], dtype: ir.DataType) -> int | ir.Value:
    """Return how many elements `axes` have: an int, or a value of `dtype`."""
    lengths = [size(g, x, a) for a in axes]
    if all(isinstance(n, int) for n in lengths):
        return math.prod(lengths)
    return g.Cast(g.ReduceProd(vector(g, lengths), keepdims=0), to=dtype)


def _variance(
    g: Graph, x: ir.Value, dim: Any, correction: float | ir.Value, keepdim: bool
) -> tuple[ir.Value, ir.Value]:
    """Return the mean squared distance from the mean, over n - correction, and the mean."""
    axes = axes_of(g, x, dim)
    centre = emit_mean(g, x, axes, True)
    gap = g.Sub(x, centre)
    squares = emit_reduce(g, "ReduceSum", g.Mul(gap, gap), axes, keepdim)
    count = count_of(g, x, axes, g.dtype(x))
    if isinstance(count, int) and not isinstance(correction, ir.Value):
        degrees = constant_like(g, count - correction, x)
    else:
        degrees = g.Sub(
            *(
                cast(g, n, g.dtype(x)) if isinstance(n, ir.Value) else constant_like(g, n, x)
                for n in (count, correction)
            )
        )
    spread = g.Div(squares, g.Max(degrees, constant_like(g, 0.0, x)))
    return spread, centre if keepdim or g.rank(x) == 0 else g.Squeeze(centre, axes)


def _spread_rule(root: bool, mean: bool) -> Any:
    """Return the rule of a variance or deviation. Half precision is computed in float32, as in PyTorch, because squares
    soon overflow.
    """

    def rule(
        g: Graph, x: ir.Value, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None
    ) -> Any:
        wide = cast(g, x, torch.float32) if g.dtype(x) in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) else x
        if not isinstance(correction, ir.Value):
            correction = float(unbiased if correction is None else correction)
        spread, centre = _variance(g, wide, dim, correction, keepdim)
        spread = cast(g, g.Sqrt(spread) if root else spread, g.dtype(x))
        return [spread, cast(g, centre, g.dtype(x))] if mean else spread

    return rule


def _whole_spread_rule(root: bool, mean: bool) -> Any:
    spread = _spread_rule(root, mean)

    def rule(g: Graph, x: ir.Value, unbiased: bool = True) -> Any:
        return spread(g, x, None, unbiased)

    return rule


for _name, _root, _mean in (
    ("var", False, False),
    ("std", True, False),
    ("var_mean", False, True),
    ("std_mean", True, True),
):
    torch_op(_name)(_spread_rule(_root, _mean))
    torch_op(f"{_name}.default")(_whole_spread_rule(_root, _mean))


# -- norms ------------------------------------------------------------------------------------------------------------


@torch_op("linalg_vector_norm")
def vector_norm(g, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    x = cast_to_floating(g, x) if dtype is None else cast(g, x, dtype)
    if ord == math.inf:
        return emit_reduce(g, "ReduceMax", g.Abs(x), dim, keepdim)
    if ord == -math.inf:
        return emit_reduce(g, "ReduceMin", g.Abs(x), dim, keepdim)
    if ord == 0:
        return emit_reduce(g, "ReduceSum", cast(g, cast_to_bool(g, x), g.dtype(x)), dim, keepdim)
    if ord in (1, 2) and g.rank(x):
        return emit_reduce(g, f"ReduceL{int(ord)}", x, dim, keepdim)
    powers = emit_reduce(g, "ReduceSum", g.Pow(g.Abs(x), constant_like(g, float(ord), x)), dim, keepdim)
    return g.Pow(powers, constant_like(g, 1.0 / ord, x))


@torch_op("norm")
def norm(g, x, p=2, dim=None, keepdim=False, *, dtype=None):
    return vector_norm(g, x, 2 if p is None else p, dim, keepdim, dtype=dtype)


@torch_op("frobenius_norm")
def frobenius_norm(g, x, dim=None, keepdim=False):
    return vector_norm(g, x, 2, dim, keepdim)
