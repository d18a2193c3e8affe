"""Measure convolutions whose weight is a variable beside those with a constant, on oneDNN with fused operators.

    python tests/benchmarks/variables.py [--batches 1 8]

oneDNN's kernels want weights in an order of their own. A constant is reordered once. For a variable at batch size 1,
TensorFlow asks for a kernel that takes the weight in its plain order. That kernel applies Relu while it writes. It
applies Relu6, Elu, Swish and a sum in a second, slow loop over the elements. The last column has the two kept apart, as
our SavedModels have them. `TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1` says that variables keep their values. There is no
difference without oneDNN.

The figures are medians of CPU milliseconds of four convolutions on one thread. Constants and variables have a process
each, because oneDNN caches kernels by shape: the first would choose the kernel of the other.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

from clocks import record

SHAPES = ((7, 512, 3), (28, 128, 3), (56, 64, 3), (14, 96, 1), (56, 144, 1))
"""Width of the picture, channels, width of the kernel."""

ACTIVATIONS = ("relu", "relu6", "elu", "silu", "sum")
FORMS = ("constant", "variable", "apart")

SETTINGS = {
    "off": {"TF_ENABLE_ONEDNN_OPTS": "0"},
    "on": {"TF_ENABLE_ONEDNN_OPTS": "1"},
    "on, frozen": {"TF_ENABLE_ONEDNN_OPTS": "1", "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"},
}


def layers(signature, w, b, activation: str, apart: bool):
    """Return a graph of four convolutions with the same weight."""
    import tensorflow as tf

    def function(x):
        for _ in range(4):
            y = tf.nn.bias_add(tf.nn.conv2d(x, w, 1, "SAME"), b)
            y = tf.squeeze(tf.expand_dims(y, 0), [0]) if apart else y
            x = x + y if activation == "sum" else getattr(tf.nn, activation)(y)
        return x

    return tf.function(function, input_signature=signature).get_concrete_function()


def measure(form: str, activation: str, batch: int) -> None:
    """Print the milliseconds of each shape."""
    import numpy as np
    import tensorflow as tf

    for side, channels, kernel in SHAPES:
        drawn = np.random.default_rng(0)
        weight = (drawn.random((kernel, kernel, channels, channels), np.float32) - 0.5) / channels
        bias = drawn.random(channels, np.float32)
        signature = [tf.TensorSpec((None, side, side, channels), tf.float32)]
        held = (weight, bias) if form == "constant" else (tf.Variable(weight), tf.Variable(bias))
        function = layers(signature, *held, activation, form == "apart")
        x = tf.constant(drawn.random((batch, side, side, channels), np.float32))
        times: list[float] = []
        for _ in range(25):
            start = time.process_time()
            function(x)
            times.append(1000 * (time.process_time() - start))
        print(statistics.median(times[5:]), flush=True)


def measured(form: str, activation: str, batch: int, setting: str) -> list[float]:
    """Return the milliseconds of each shape, measured in a process of its own."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, __file__, "--one", form, activation, str(batch)],
        check=True, env={**os.environ, **threads, **SETTINGS[setting]}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        form, activation, batch = args.one
        measure(form, activation, int(batch))
        return
    print(f"{'oneDNN':<12} {'batch':>5} {'layer':<24} " + " ".join(f"{form:>9}" for form in FORMS))
    for setting in SETTINGS:
        for batch in args.batches:
            for activation in ACTIVATIONS:
                columns = [measured(form, activation, batch, setting) for form in FORMS]
                for (side, channels, kernel), times in zip(SHAPES, zip(*columns, strict=True), strict=True):
                    constant, _, ours = times
                    layer = f"{side}×{side}×{channels}, {kernel}×{kernel}, {activation}"
                    case = f"{layer}, batch {batch}, oneDNN {setting}"
                    record(case, "CPU time of a convolution of a variable", "ms", ours, constant, "a constant")
                    print(f"{setting:<12} {batch:>5} {layer:<24} " + " ".join(f"{x:9.2f}" for x in times), flush=True)


if __name__ == "__main__":
    main()
