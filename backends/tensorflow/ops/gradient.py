"""Derivatives, from ONNX's training domain."""

from __future__ import annotations

import tensorflow as tf

from convert.errors import Unsupported

from ..rules import onnx_op


@onnx_op("ai.onnx.preview.training::Gradient")
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
