"""Measure transposes around layer norms: blocks of ConvNeXt in ONNX Runtime, written in two forms.

    python tests/benchmarks/channels.py [--rounds 25]

A block is a depthwise convolution, a LayerNormalization over the channels, two dense layers and the shortcut. The form
`as is` keeps LayerNormalization and MatMul, which want channels last, between transposes. The form `first` is what the
layout pass makes: convolutions with a kernel of one element, and the layer norm written out. Three blocks run on one
thread, both forms in turn. The figures are medians of CPU milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import onnx_ir as ir
import onnxruntime
from clocks import record

from convert.graph import Graph
from convert.passes.layout.assign import assign_layout
from convert.passes.tidy.clean import clean

SIZES = ((96, 56), (192, 28), (384, 14), (768, 7))
BLOCKS = 3


def blocks(channels: int, size: int) -> ir.Model:
    """Return three blocks with channels first and their dense parts between transposes."""
    drawn = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray:
        return (drawn.standard_normal(shape) * 0.1).astype(np.float32)

    g = Graph(opset=20)
    x = g.input("x", ir.DataType.FLOAT, ["batch", channels, size, size])
    for _ in range(BLOCKS):
        y = g.Conv(x, weight(channels, 1, 7, 7), weight(channels), group=channels, pads=[3, 3, 3, 3])
        y = g.Transpose(y, perm=[0, 2, 3, 1])
        y = g.LayerNormalization(y, 1 + weight(channels), weight(channels), axis=-1, epsilon=1e-6)
        y = g.Gelu(g.Add(g.MatMul(y, weight(channels, 4 * channels)), weight(4 * channels)))
        y = g.Add(g.MatMul(y, weight(4 * channels, channels)), weight(channels))
        x = g.Add(x, g.Transpose(g.Mul(y, weight(channels)), perm=[0, 3, 1, 2]))
    g.output(x, "y")
    return g.model()


def opened(model: ir.Model) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    proto = ir.to_proto(model)
    proto.ir_version = 9
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    print(f"{'channels':>8} {'size':>5} {'as is ms':>9} {'first ms':>9} {'ratio':>6} {'difference':>11}")
    for channels, size in SIZES:
        model = blocks(channels, size)
        clean(model)
        sessions = [opened(model)]
        assign_layout(model, sensitive="as is")
        assert not any(node.op_type == "Transpose" for node in model.graph)
        sessions.append(opened(model))
        feed = {"x": np.random.default_rng(1).standard_normal((1, channels, size, size)).astype(np.float32)}
        before, after = (session.run(None, feed)[0] for session in sessions)
        times: list[list[float]] = [[], []]
        for _ in range(rounds):
            for session, found in zip(sessions, times, strict=True):
                start = time.process_time()
                session.run(None, feed)
                found.append(1000 * (time.process_time() - start))
        a, b = map(statistics.median, times)
        difference = np.abs(after - before).max() / np.abs(before).max()
        record(f"ConvNeXt, {channels} channels, {size}²", "CPU time of a run in onnxruntime", "ms", b, a, "transposes")
        print(f"{channels:8} {size:5} {a:9.2f} {b:9.2f} {b / a:6.2f} {difference:11.1e}", flush=True)


if __name__ == "__main__":
    main()
