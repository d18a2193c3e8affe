"""Reductions, extremes and cumulative sums along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
from keras import KerasTensor, ops

from convert.errors import Unsupported
from convert.rules import Rule

from ..constants import Constant
from ..rules import onnx_op
from ..tensors import halves_in_float32, is_floating
from .activation import one_zero


def reduction_rule(function: Callable[..., Any]) -> Rule:
    """Return the rule of an ONNX reduction with `axes` as an input."""

    def rule(k, x, axes, *, keepdims, noop_with_empty_axes):
        chosen = None if axes is None else k.ints(axes, "axes")
        if not chosen:
            if noop_with_empty_axes:
                return function(x, (), True)
            chosen = None
        rank = len(x.shape)
        along = None if chosen is None else tuple(sorted(a % rank for a in chosen))
        return function(x, along, bool(keepdims))

    return rule


def _logical(function: Callable[..., Any], of_bools: Callable[..., Any]) -> Callable[..., KerasTensor]:
    def reduced(x: KerasTensor, axes: Sequence[int] | None, keep: bool) -> KerasTensor:
        if 0 in [x.shape[a] for a in (range(len(x.shape)) if axes is None else axes)] and x.dtype != "bool":
            raise Unsupported("the maximum or minimum of no elements")
        return (of_bools if x.dtype == "bool" else function)(x, axis=axes, keepdims=keep)

    return reduced


def _by_axis(function: Callable[..., Any]) -> Callable[[KerasTensor, Sequence[int] | None, bool], KerasTensor]:
    """Return a sum or mean that reduces floats one axis after another, because TensorFlow loses digits if it reduces
    all at once.
    """

    def reduced(x: KerasTensor, axes: Sequence[int] | None, keep: bool) -> KerasTensor:
        chosen = tuple(range(len(x.shape))) if axes is None else tuple(axes)
        if len(chosen) < 2 or x.dtype not in ("float32", "float64"):
            return function(x, axis=axes, keepdims=keep)
        for axis in chosen:
            x = function(x, axis=axis, keepdims=True)
        return x if keep else ops.squeeze(x, chosen)

    return reduced


_sum = _by_axis(ops.sum)
mean_by_axis = _by_axis(ops.mean)


def _widen_integers(x: KerasTensor) -> KerasTensor:
    """Return integers in float64, because Keras computes their mean in float32."""
    return x if is_floating(x) else ops.cast(x, "float64")


def _length(x: KerasTensor, axes: Sequence[int] | None, keep: bool) -> KerasTensor:
    """Return the root of a sum of squares, with a gradient of zero at zero."""
    squares = _sum(ops.square(_widen_integers(x)), axes, keep)
    nothing = ops.equal(squares, 0)
    return ops.where(nothing, ops.zeros_like(squares), ops.sqrt(ops.where(nothing, ops.ones_like(squares), squares)))


onnx_op.same(
    lambda function: halves_in_float32(reduction_rule(function)),
    ReduceL1=lambda x, axes, keep: _sum(ops.abs(x), axes, keep),
    ReduceL2=_length,
    ReduceLogSum=lambda x, axes, keep: ops.log(_sum(_widen_integers(x), axes, keep)),
    ReduceLogSumExp=lambda x, axes, keep: ops.logsumexp(_widen_integers(x), axis=axes, keepdims=keep),
    ReduceMean=lambda x, axes, keep: mean_by_axis(_widen_integers(x), axes, keep),
    ReduceProd=lambda x, axes, keep: ops.prod(x, axis=axes, keepdims=keep),
    ReduceSum=_sum,
    ReduceSumSquare=lambda x, axes, keep: _sum(ops.square(x), axes, keep),
)
onnx_op.same(reduction_rule, ReduceMax=_logical(ops.max, ops.any), ReduceMin=_logical(ops.min, ops.all))


def arg_extremum_rule(function: Callable[..., Any]) -> Rule:
    """Return the rule of ArgMax or ArgMin."""

    def rule(k, x, *, axis, keepdims, select_last_index):
        x = one_zero(x)
        if not select_last_index:
            return function(x, axis=axis, keepdims=bool(keepdims))
        return x.shape[axis] - 1 - function(ops.flip(x, axis=axis), axis=axis, keepdims=bool(keepdims))

    return rule


def counts_from_a_known_end(node: ir.Node) -> bool:
    """Return whether the first of equal elements is wanted, or the last one along a dim of known length."""
    x, axis = node.inputs[0], node.attributes.get_int("axis", 0)
    known = x is not None and x.shape is not None and isinstance(x.shape[axis], int)
    return known or not node.attributes.get_int("select_last_index", 0)


for _name, _function in (("ArgMax", ops.argmax), ("ArgMin", ops.argmin)):
    onnx_op(_name, when=counts_from_a_known_end, otherwise="the last index along a dim of dynamic size")(
        arg_extremum_rule(_function)
    )


def cumulative_rule(pair: tuple[Callable[..., Any], int]) -> Rule:
    """Return the rule of CumSum or CumProd; an exclusive one starts with the neutral element."""
    function, neutral = pair

    def rule(k, x, axis, *, exclusive, reverse):
        (axis,) = k.ints(axis, "an axis")
        axis %= len(x.shape)
        x = ops.flip(x, axis=axis) if reverse else x
        if exclusive:
            widths = [[1, 0] if i == axis else [0, 0] for i in range(len(x.shape))]
            ahead = (slice(None),) * axis
            x = ops.pad(x, widths, constant_values=neutral)[(*ahead, slice(None, -1))]
        y = function(x, axis=axis)
        return ops.flip(y, axis=axis) if reverse else y

    return rule


onnx_op.same(lambda pair: halves_in_float32(cumulative_rule(pair)), CumSum=(ops.cumsum, 0), CumProd=(ops.cumprod, 1))


@onnx_op("TopK")
def top_k(k, x, count, *, axis, largest, sorted):
    rank = len(x.shape)
    axis %= rank
    own = k.input_dims(0)[axis]
    sorts = not isinstance(count, Constant) and own is not None and own in (k.dims(0)[axis], k.dims(1)[axis])
    number = None if sorts else k.ints(count, "the number of elements")[0]
    order = [*(i for i in range(rank) if i != axis), axis]
    back = [order.index(i) for i in range(rank)]
    last = x if axis == rank - 1 else ops.transpose(x, order)
    if number is None:  # k is the whole length; the first of equal elements also comes first here
        indices = ops.argsort(_opposite(last) if largest else last, axis=-1)
        values = ops.take_along_axis(last, indices, axis=-1)
    else:
        values, indices = ops.top_k(last if largest else _opposite(last), number, sorted=True)
        values = values if largest else _opposite(values)
    if axis == rank - 1:
        return values, indices
    return ops.transpose(values, back), ops.transpose(indices, back)


def _opposite(x: KerasTensor) -> KerasTensor:
    """Return numbers whose order is the reverse of x's: negated floats, and complemented integers.

    An integer is complemented because the least one equals its own negation.
    """
    return -x if is_floating(x) else -1 - x
