"""Why a convolution with its weight in a variable can be slower than with a constant: oneDNN, not the variable.

    python tests/benchmarks/variables.py

oneDNN's kernels want weights in an order of their own. A constant is put into it once. For a variable TensorFlow asks,
at batch 1, for a kernel that takes the weight as it lies; where there is no fast one of that kind, such as one that
also applies an activation on AVX2, it computes the activation number by number. `TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1`
says that variables keep their values. Without oneDNN there is no difference.

Median CPU milliseconds of four convolutions on one thread. Constants and variables each in a process of their own,
because the kernels that a process keeps do not tell the two apart: the first would choose for the other.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

SHAPES = ((7, 512, 3), (7, 2048, 1), (28, 128, 3), (56, 64, 3))
"""Side of the picture, channels, side of the kernel: from ResNet-50's last stage to its first."""

SETTINGS = {
    "off": {"TF_ENABLE_ONEDNN_OPTS": "0"},
    "on": {"TF_ENABLE_ONEDNN_OPTS": "1"},
    "on, frozen": {"TF_ENABLE_ONEDNN_OPTS": "1", "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"},
}


def layers(signature, w, b):
    """Four convolutions with the same weight, as a graph."""
    import tensorflow as tf

    def function(x):
        for _ in range(4):
            x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, 1, "SAME"), b))
        return x

    return tf.function(function, input_signature=signature).get_concrete_function()


def measure(kind: str, batch: int) -> None:
    """Print the milliseconds of each shape, with weights of one kind."""
    import numpy as np
    import tensorflow as tf

    for side, channels, kernel in SHAPES:
        drawn = np.random.default_rng(0)
        weight = (drawn.random((kernel, kernel, channels, channels), np.float32) - 0.5) / channels
        bias = drawn.random(channels, np.float32)
        signature = [tf.TensorSpec((None, side, side, channels), tf.float32)]
        held = (weight, bias) if kind == "constant" else (tf.Variable(weight), tf.Variable(bias))
        function = layers(signature, *held)
        x = tf.constant(drawn.random((batch, side, side, channels), np.float32))
        times: list[float] = []
        for _ in range(25):
            start = time.process_time()
            function(x)
            times.append(1000 * (time.process_time() - start))
        print(statistics.median(times[5:]), flush=True)


def measured(kind: str, batch: int, setting: str) -> list[float]:
    """The milliseconds of each shape, from a process of its own."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, __file__, kind, str(batch)],
        check=True, env={**os.environ, **threads, **SETTINGS[setting]}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    """Print the table."""
    if len(sys.argv) > 1:
        measure(sys.argv[1], int(sys.argv[2]))
        return
    print(f"{'oneDNN':<12} {'batch':>5} {'layer':<18} {'constant':>9} {'variable':>9} {'ratio':>7}")
    for setting in SETTINGS:
        for batch in (1, 8):
            rows = zip(SHAPES, measured("constant", batch, setting), measured("variable", batch, setting), strict=True)
            for (side, channels, kernel), constant, variable in rows:
                shape = f"{side}×{side}×{channels}, {kernel}×{kernel}"
                ratio = variable / constant
                print(f"{setting:<12} {batch:>5} {shape:<18} {constant:9.2f} {variable:9.2f} {ratio:7.2f}", flush=True)


if __name__ == "__main__":
    main()
