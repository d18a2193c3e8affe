"""Sums and means over several axes, computed one axis after another.

TensorFlow adds sequentially over axes that are not the last ones: of 70,000 squares four digits are correct, and a
GroupNormalization has an error of 1.4e-4 where PyTorch's is 6e-8. TensorFlow Lite does so over any axes. Sums of sums
are correct to a rounding or two and take as long (`tests/benchmarks/norms.py`).

TensorFlow adds float16 in float16; only bfloat16 is added in float32 (2.21, reduction_ops.h). A sum of ones then stays
at 2048, and a mean is infinite if the sum is. onnxruntime and PyTorch add in float32, as done here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias

import tensorflow as tf

Axes: TypeAlias = "list[int] | tf.Tensor | None"


def is_half(x: Any) -> bool:
    """Return whether x is half precision, float16 or bfloat16."""
    return x.dtype.is_floating and x.dtype.size < 4


def halves_in_float32(rule: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Wrap a rule of one tensor so that it computes half precision in float32 and rounds the result."""

    @wraps(rule)
    def wide(t: Any, x: Any, **attributes: Any) -> tf.Tensor:
        if not is_half(x):
            return rule(t, x, **attributes)
        return tf.cast(rule(t, tf.cast(x, tf.float32), **attributes), x.dtype)

    return wide


def by_axis(reduce: Callable[..., tf.Tensor]) -> Callable[[tf.Tensor, Axes, bool], tf.Tensor]:
    """Return `reduce(x, axis, keepdims)`, which reduces floats over several known axes one axis at a time."""

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
    """Return mean and variance; the variance uses differences from the mean."""
    middle = mean(x, list(axes), True)
    var = mean(tf.square(x - middle), list(axes), keepdims)
    return (middle if keepdims else tf.squeeze(middle, list(axes))), var
