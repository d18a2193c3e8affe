"""Sums and means over several axes, one axis after another.

Over axes that are not the last ones TensorFlow adds number after number: of 70,000 squares four digits are left, and a
GroupNormalization is 1.4e-4 off where PyTorch's is right to 6e-8. TensorFlow Lite does it over any axes. Sums of sums
are right to a rounding or two and take as long (`tests/benchmarks/norms.py`).

Half precision TensorFlow adds in half precision, of bfloat16 alone in float32 (2.21, reduction_ops.h): a sum of ones
stays at 2048, and a mean is infinite where the sum is. onnxruntime and PyTorch add in float32, and so is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias

import tensorflow as tf

Axes: TypeAlias = "list[int] | tf.Tensor | None"


def is_half(x: Any) -> bool:
    """Whether numbers are of half precision, float16 or bfloat16."""
    return x.dtype.is_floating and x.dtype.size < 4


def halves_in_float32(rule: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """A rule of one tensor that computes half precision in float32, and rounds its result."""

    @wraps(rule)
    def wide(t: Any, x: Any, **attributes: Any) -> tf.Tensor:
        if not is_half(x):
            return rule(t, x, **attributes)
        return tf.cast(rule(t, tf.cast(x, tf.float32), **attributes), x.dtype)

    return wide


def by_axis(reduce: Callable[..., tf.Tensor]) -> Callable[[tf.Tensor, Axes, bool], tf.Tensor]:
    """`reduce(x, axis, keepdims)`, of which one over several known axes of floats is one over each of them."""

    def reduced(x: tf.Tensor, axes: Axes, keepdims: bool = False) -> tf.Tensor:
        if is_half(x):
            return tf.cast(reduced(tf.cast(x, tf.float32), axes, keepdims), x.dtype)
        rank = x.shape.rank
        if axes is None and rank is not None:
            axes = list(range(rank))
        if rank is None or not isinstance(axes, list) or len(axes) < 2 or x.dtype not in (tf.float32, tf.float64):
            return reduce(x, axes, keepdims)
        chosen = sorted(axis % rank for axis in axes)
        for axis in chosen:
            x = reduce(x, axis, True)
        return x if keepdims else tf.squeeze(x, chosen)

    return reduced


total = by_axis(tf.reduce_sum)
mean = by_axis(tf.reduce_mean)


def moments(x: tf.Tensor, axes: Sequence[int], keepdims: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance, the second of differences from the first."""
    middle = mean(x, list(axes), True)
    var = mean(tf.square(x - middle), list(axes), keepdims)
    return (middle if keepdims else tf.squeeze(middle, list(axes))), var
