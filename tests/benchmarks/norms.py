"""Measure statistics taken axis by axis in TensorFlow and TensorFlow Lite, and transposes around them in Keras.

    python tests/benchmarks/norms.py

For each norm and size it prints the root-mean-square error against float64 and the CPU milliseconds of a run on one
thread. `at once` is `tf.nn.moments` over all axes, `by axis` what the backend writes. Keras's layer runs with channels
last, and with channels first between transposes, as the Keras backend writes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from clocks import record
from convert.backends.tensorflow.ops.sums import moments

RUNS = 30


def normalized(x: tf.Tensor, groups: int, statistics: Callable[..., tuple[tf.Tensor, tf.Tensor]]) -> tf.Tensor:
    """Return a GroupNormalization of [n, h, w, c] without scale and bias."""
    n, h, w, c = x.shape
    split = tf.reshape(x, [n, h, w, groups, c // groups])
    mean, var = statistics(split, [1, 2, 4], keepdims=True)
    return tf.reshape((split - mean) * tf.math.rsqrt(var + 1e-5), x.shape)


def exact(x: np.ndarray, groups: int) -> np.ndarray:
    n, h, w, c = x.shape
    split = x.astype(np.float64).reshape(n, h, w, groups, c // groups)
    mean, var = split.mean((1, 2, 4), keepdims=True), split.var((1, 2, 4), keepdims=True)
    return np.asarray(((split - mean) / np.sqrt(var + 1e-5)).reshape(x.shape))


def in_tensorflow(function: tf.types.experimental.ConcreteFunction, x: np.ndarray) -> tuple[np.ndarray, float]:
    given = tf.constant(x)
    y = function(given).numpy()
    start = time.process_time()
    for _ in range(RUNS):
        function(given)
    return y, (time.process_time() - start) / RUNS


def in_lite(function: tf.types.experimental.ConcreteFunction, x: np.ndarray) -> tuple[np.ndarray, float]:
    from ai_edge_litert.interpreter import Interpreter

    content = tf.lite.TFLiteConverter.from_concrete_functions([function]).convert()
    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    start = time.process_time()
    for _ in range(RUNS):
        interpreter.invoke()
    seconds = (time.process_time() - start) / RUNS
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), seconds


def in_keras(x: np.ndarray, groups: int, axis: int) -> tuple[np.ndarray, float]:
    """Return Keras's GroupNormalization along an axis, between transposes for axis 1."""
    import keras

    given = keras.Input(batch_shape=x.shape)
    first = keras.ops.transpose(given, (0, 3, 1, 2)) if axis == 1 else given
    y = keras.layers.GroupNormalization(groups, axis=axis, epsilon=1e-5)(first)
    model = keras.Model(given, keras.ops.transpose(y, (0, 2, 3, 1)) if axis == 1 else y)
    return in_tensorflow(tf.function(model, input_signature=[tf.TensorSpec(x.shape)]).get_concrete_function(), x)


def main() -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    rng = np.random.default_rng(0)
    for groups, size in ((4, 32), (4, 96), (32, 32), (32, 96), (4, 192)):
        x = np.maximum(rng.standard_normal((1, size, size, 32)), 0).astype(np.float32)
        want = exact(x, groups)
        found: dict[tuple[str, str], float] = {}
        for name, statistics in (("at once", tf.nn.moments), ("by axis", moments)):
            made = tf.function(
                lambda x, g=groups, s=statistics: normalized(x, g, s), input_signature=[tf.TensorSpec(x.shape)]
            ).get_concrete_function()
            for runtime, run in (("tf", in_tensorflow), ("tflite", in_lite)):
                y, seconds = run(made, x)
                error = float(np.sqrt(np.mean(np.square(y - want))))
                found[name, runtime] = seconds * 1e3
                print(f"{size:3}² {groups:2} groups  {runtime:6} {name}  {error:.1e}  {seconds * 1e3:6.2f} ms")
        for runtime in ("tf", "tflite"):
            each, whole = (found[name, runtime] for name in ("by axis", "at once"))
            record(f"{size}², {groups} groups, {runtime}", "CPU time of statistics", "ms", each, whole, "tf.nn.moments")
        for name, axis in (("last", -1), ("first", 1)):
            y, seconds = in_keras(x, groups, axis)
            error = float(np.sqrt(np.mean(np.square(y - want))))
            print(f"{size:3}² {groups:2} groups  keras  {name:7}  {error:.1e}  {seconds * 1e3:6.2f} ms")


if __name__ == "__main__":
    main()
