"""Reductions and cumulative sums along axes."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from ..emit import Emitter, Value, fusion_barrier
from ..rules import LITE, onnx_op
from .sums import is_half, mean, total
from .unary import UNSIGNED

# Integers without a kernel of their own are reduced in these dtypes; half precision is reduced in float32 (see
# `sums.py`).
_WIDE = {tf.int8: tf.int32, tf.uint8: tf.int32, tf.int16: tf.int32, tf.uint16: tf.int32, tf.uint32: tf.int64}


def axes_of(t: Emitter, x: Value, axes: Value, noop: int) -> list[int] | tf.Tensor | None:
    """Return the axis argument for TensorFlow: None for all, a list, or a tensor computed at run time."""
    if axes is None:
        return [] if noop else None
    known = t.ints(axes)
    if known is not None:
        return known if known or noop else None
    axes = tf.cast(axes, tf.int32)
    if noop:
        return axes
    # Empty axes mean all axes.
    every = tf.range(tf.rank(x))
    return tf.cond(tf.equal(tf.size(axes), 0), lambda: every, lambda: axes)


def reduction_rule(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Return the rule of an ONNX reduction with `axes` as an input."""

    def rule(t, x, axes, *, keepdims, noop_with_empty_axes):
        chosen = axes_of(t, x, axes, noop_with_empty_axes)
        if x.dtype == tf.bool:
            return (tf.reduce_all if function is least else tf.reduce_any)(x, chosen, bool(keepdims))
        wide = tf.float32 if is_half(x) and function not in (largest, least) else _WIDE.get(x.dtype)
        y = function(x if wide is None else tf.cast(x, wide), chosen, bool(keepdims))
        if wide is not None and function in (largest, least):  # an empty reduction returns the limit of the wider dtype
            y = tf.clip_by_value(y, tf.constant(x.dtype.min, wide), tf.constant(x.dtype.max, wide))
        return y if wide is None else tf.cast(y, x.dtype)

    return rule


def log(x: tf.Tensor) -> tf.Tensor:
    return tf.math.log(x) if x.dtype.is_floating else tf.cast(tf.math.log(tf.cast(x, tf.float64)), x.dtype)


def square_root(x: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(x) if x.dtype.is_floating else tf.cast(tf.sqrt(tf.cast(x, tf.float64)), x.dtype)


def length(x: tf.Tensor, axes: list[int] | tf.Tensor | None, keep: bool) -> tf.Tensor:
    """Return the root of a sum of squares, with a gradient of zero at zero."""
    squares = total(tf.square(x), axes, keep)
    if not squares.dtype.is_floating:
        return square_root(squares)
    nothing = tf.equal(squares, 0)
    return tf.where(nothing, tf.zeros_like(squares), tf.sqrt(tf.where(nothing, tf.ones_like(squares), squares)))


def log_sum_exp(x: tf.Tensor, axes: list[int] | tf.Tensor | None, keep: bool) -> tf.Tensor:
    if x.dtype.is_floating:
        largest = tf.reduce_max(x, axes, keepdims=True)
        largest = tf.where(tf.math.is_finite(largest), largest, tf.zeros_like(largest))
        logarithm = tf.math.log(total(tf.exp(x - largest), axes, keep))
        return logarithm + (largest if keep else tf.reshape(largest, tf.shape(logarithm)))
    return tf.cast(tf.reduce_logsumexp(tf.cast(x, tf.float64), axes, keep), x.dtype)


def kept_from_reordering(x: Value) -> tf.Tensor:
    """Return the input of a maximum, minimum or arg-extremum in a form that is not merged with the node that computes
    it.

    TensorFlow rewrites ArgMax(Relu(x)) to ArgMax(x), and so for all monotonic functions (Sigmoid, Floor, Sign …); the
    index differs if the function makes numbers equal. It also rewrites Max(Tanh(x)) to Tanh(Max(x)), and loses the Tanh
    if an Exp(…) - 1 follows, which it rewrites to Expm1 (TensorFlow 2.21, with MaxPool, Max and Min).
    """
    return fusion_barrier(x)


def largest(x: tf.Tensor, axes: list[int] | tf.Tensor | None, keep: bool) -> tf.Tensor:
    return tf.reduce_max(kept_from_reordering(x), axes, keep)


def least(x: tf.Tensor, axes: list[int] | tf.Tensor | None, keep: bool) -> tf.Tensor:
    return tf.reduce_min(kept_from_reordering(x), axes, keep)


def register_reductions(**functions: Callable[..., tf.Tensor]) -> None:
    """Register reductions in the table."""
    for operator, function in functions.items():
        onnx_op(operator)(reduction_rule(function))


register_reductions(
    ReduceL1=lambda x, axes, keep: total(x if x.dtype in UNSIGNED else tf.abs(x), axes, keep),
    ReduceL2=length,
    ReduceLogSum=lambda x, axes, keep: log(total(x, axes, keep)),
    ReduceLogSumExp=log_sum_exp,
    ReduceMax=largest,
    ReduceMean=mean,
    ReduceMin=least,
    ReduceProd=tf.reduce_prod,
    ReduceSum=total,
    ReduceSumSquare=lambda x, axes, keep: total(tf.square(x), axes, keep),
)


# The kernel for 8 bits adds integers, so a mean over all axes at once is exact, and is rounded once.
onnx_op(f"{LITE}::ReduceMean")(reduction_rule(tf.reduce_mean))


def arg_extremum_rule(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Return the rule of ArgMax or ArgMin."""

    def rule(t, x, *, axis, keepdims, select_last_index):
        if select_last_index:
            last = t.shape(x)[axis] - 1
            found = tf.cast(last, tf.int64) - function(tf.reverse(x, [axis]), axis)
        else:
            found = function(kept_from_reordering(x), axis)
        return tf.expand_dims(found, axis) if keepdims else found

    return rule


onnx_op("ArgMax")(arg_extremum_rule(lambda x, axis: tf.argmax(x, axis)))
onnx_op("ArgMin")(arg_extremum_rule(lambda x, axis: tf.argmin(x, axis)))


@onnx_op("CumSum")
def cumsum(t, x, axis, *, exclusive, reverse):
    return _cumulative(t, tf.cumsum, x, axis, exclusive, reverse)


@onnx_op("CumProd")
def cumprod(t, x, axis, *, exclusive, reverse):
    return _cumulative(t, tf.math.cumprod, x, axis, exclusive, reverse)


def _cumulative(
    t: Emitter, function: Callable[..., tf.Tensor], x: Value, axis: Value, exclusive: int, reverse: int
) -> tf.Tensor:
    known = t.ints(axis)
    along = known[0] if known is not None else tf.reshape(tf.cast(axis, tf.int32), [])
    wide = tf.cast(x, tf.float32) if is_half(x) else x
    return tf.cast(function(wide, along, bool(exclusive), bool(reverse)), x.dtype)
