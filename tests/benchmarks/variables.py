"""Why a convolution with its weight in a variable can be slower than with a constant: oneDNN, not the variable.

    python tests/benchmarks/variables.py

oneDNN's kernels want weights in an order of their own. A constant is reordered once and kept, the value of a variable
in every call, which shows where the weight is large beside the picture. Without oneDNN there is no difference. Median
CPU milliseconds of four convolutions on one thread, constant and variable in turn, in a process for each setting.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

SHAPES = ((7, 512, 3), (7, 2048, 1), (28, 128, 3), (56, 64, 3))
"""Side of the picture, channels, side of the kernel: from ResNet-50's last stage to its first."""


def layers(signature, w, b):
    """Four convolutions with the same weight, as a graph."""
    import tensorflow as tf

    def function(x):
        for _ in range(4):
            x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, 1, "SAME"), b))
        return x

    return tf.function(function, input_signature=signature).get_concrete_function()


def measure(setting: str) -> None:
    """Print the rows of one setting."""
    import numpy as np
    import tensorflow as tf

    for side, channels, kernel in SHAPES:
        drawn = np.random.default_rng(0)
        weight = (drawn.random((kernel, kernel, channels, channels), np.float32) - 0.5) / channels
        bias = drawn.random(channels, np.float32)
        signature = [tf.TensorSpec((None, side, side, channels), tf.float32)]
        functions = (layers(signature, weight, bias), layers(signature, tf.Variable(weight), tf.Variable(bias)))
        x = tf.constant(drawn.random((1, side, side, channels), np.float32))
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(25):
            for function, found in zip(functions, times, strict=True):
                start = time.process_time()
                function(x)
                found.append(1000 * (time.process_time() - start))
        constant, variable = (statistics.median(found[5:]) for found in times)
        shape = f"{side}×{side}×{channels}, {kernel}×{kernel}"
        print(f"{setting:<10} {shape:<18} {constant:9.2f} {variable:9.2f} {variable / constant:7.2f}", flush=True)


def main() -> None:
    """Print the table."""
    if len(sys.argv) > 1:
        measure(sys.argv[1])
        return
    print(f"{'oneDNN':<10} {'layer':<18} {'constant':>9} {'variable':>9} {'ratio':>7}")
    for setting, value in (("on", "1"), ("off", "0")):
        threads = dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1")
        environment = {**os.environ, **threads, "TF_ENABLE_ONEDNN_OPTS": value}
        command = [sys.executable, __file__, setting]
        subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
