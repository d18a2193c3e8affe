"""Optimizer steps of ONNX's training domain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tensorflow as tf

from convert.errors import Unsupported

from ..emit import Value
from ..rules import onnx_op

_TRAINING = "ai.onnx.preview.training"


@onnx_op(f"{_TRAINING}::Gradient")
def gradient(t, *inputs, xs, y, zs=None, body=None):
    if body is None:
        raise Unsupported(f"a gradient of {y!r} by {', '.join(xs)}: not all of them are tensors of the graph around it")
    count = len(xs)
    # New values, so that other uses of the same tensors do not contribute to this derivative.
    given = [tf.identity(tf.convert_to_tensor(x)) for x in inputs]
    with tf.GradientTape() as tape:
        tape.watch(given[:count])
        (result,) = body(*given)
    return tuple(tape.gradient(result, given[:count], unconnected_gradients="zero"))


def group_by_tensor(tensors: Sequence[Value], kinds: int) -> list[list[Value]]:
    """Group X1 X2 … G1 G2 … as (X1, G1, …), (X2, G2, …) …."""
    count = len(tensors) // kinds
    return [[tensors[k * count + i] for k in range(kinds)] for i in range(count)]


def interleave_results(results: Iterable[Sequence[tf.Tensor]]) -> tuple[tf.Tensor, ...]:
    """Return the results per tensor as X1 X2 … V1 V2 …."""
    return tuple(value for row in zip(*results, strict=True) for value in row)


@onnx_op(f"{_TRAINING}::Adagrad")
def adagrad(t, rate, count, *tensors, decay_factor, epsilon, norm_coefficient):
    rate = rate / (1 + tf.cast(count, rate.dtype) * decay_factor)
    results = []
    for x, g, h in group_by_tensor(tensors, 3):
        g = norm_coefficient * tf.convert_to_tensor(x) + g
        h = h + tf.square(g)
        results.append((x - rate * g / (tf.sqrt(h) + epsilon), h))
    return interleave_results(results)


@onnx_op(f"{_TRAINING}::Adam")
def adam(t, rate, count, *tensors, alpha, beta, epsilon, norm_coefficient, norm_coefficient_post):
    time = tf.cast(count, rate.dtype)
    corrected = rate * tf.sqrt(1 - tf.pow(tf.cast(beta, rate.dtype), time))
    corrected = corrected / (1 - tf.pow(tf.cast(alpha, rate.dtype), time))
    rate = tf.where(time > 0, corrected, rate)
    results = []
    for x, g, v, h in group_by_tensor(tensors, 4):
        x = tf.convert_to_tensor(x)
        g = norm_coefficient * x + g
        v = alpha * tf.convert_to_tensor(v) + (1 - alpha) * g
        h = beta * tf.convert_to_tensor(h) + (1 - beta) * tf.square(g)
        results.append(((1 - norm_coefficient_post) * (x - rate * v / (tf.sqrt(h) + epsilon)), v, h))
    return interleave_results(results)


@onnx_op(f"{_TRAINING}::Momentum")
def momentum(t, rate, count, *tensors, alpha, beta, mode, norm_coefficient):
    if mode not in ("standard", "nesterov"):
        raise Unsupported(f"Momentum with mode {mode!r}")
    # The first step uses the whole gradient.
    factor = tf.where(tf.cast(count, tf.int64) > 0, tf.cast(beta, rate.dtype), tf.ones([], rate.dtype))
    results = []
    for x, g, v in group_by_tensor(tensors, 3):
        x = tf.convert_to_tensor(x)
        g = norm_coefficient * x + g
        v = alpha * tf.convert_to_tensor(v) + factor * g
        results.append((x - rate * (v if mode == "standard" else g + alpha * v), v))
    return interleave_results(results)
