"""Sums and means over several axes, one axis after another.

Over axes that are not the last ones TensorFlow adds number after number: of 70,000 squares four digits are left, and a
GroupNormalization is 1.4e-4 off where PyTorch's is right to 6e-8. TensorFlow Lite does it over any axes. Sums of sums
are right to a rounding or two and take as long (`tests/benchmarks/norms.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import tensorflow as tf

Axes: TypeAlias = "list[int] | tf.Tensor | None"


def by_axis(reduce: Callable[..., tf.Tensor]) -> Callable[[tf.Tensor, Axes, bool], tf.Tensor]:
    """`reduce(x, axis, keepdims)`, of which one over several axes is one over each of them, for known axes of floats.

    In half precision it stays as it is: each step would be rounded.
    """

    def reduced(x: tf.Tensor, axes: Axes, keepdims: bool = False) -> tf.Tensor:
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
