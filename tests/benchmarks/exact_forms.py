"""Measure the cost of right results for NaN, infinities and limits of integers, beside the shortest ONNX form.

    python tests/benchmarks/exact_forms.py [--runs 30] [--size 1048576]

Each row compares a function of PyTorch, as the frontend writes it, with the ONNX form that is right for ordinary
numbers only. The figures are CPU milliseconds of one run on one thread, in onnxruntime and in TensorFlow: the best of
all runs, both forms in turn. TensorFlow's times include the copy of the inputs. The operators of the exact form are
printed too.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "suites"))

import numpy as np
import onnx
import onnx_ir as ir
import torch
from clocks import record
from special_targets import onnxruntime_run, tensorflow_run
from torch import nn

from convert.graph import Graph
from tests.support.pytorch_tools import read

F, N, U = ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.UINT8
Plain = Callable[..., Any]


class _Called(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(x, y)


def _quadrants(g: Graph, y: ir.Value, x: ir.Value) -> ir.Value:
    """Return atan(y / x), turned by half a circle for negative x."""
    half = g.Where(g.Less(y, np.float32(0)), np.float32(-np.pi), np.float32(np.pi))
    angle = g.Atan(g.Div(y, x))
    return g.Where(g.Less(x, np.float32(0)), g.Add(angle, half), angle)


# By name: the function, the plain form, the dtype of both inputs.
ROWS: dict[str, tuple[Callable[..., Any], Plain, ir.DataType]] = {
    "clamp(min)": (lambda x, y: x.clamp(min=0.1), lambda g, x, y: g.Clip(x, np.float32(0.1)), F),
    "clamp(max)": (lambda x, y: x.clamp(max=0.1), lambda g, x, y: g.Clip(x, None, np.float32(0.1)), F),
    "clamp(min, max)": (lambda x, y: x.clamp(-1, 1), lambda g, x, y: g.Clip(x, np.float32(-1), np.float32(1)), F),
    "relu": (lambda x, y: x.relu(), lambda g, x, y: g.Relu(x), F),
    "maximum": (torch.maximum, lambda g, x, y: g.Max(x, y), F),
    "amax": (lambda x, y: x.amax(1), lambda g, x, y: g.ReduceMax(x, [1], keepdims=0), F),
    "argmax": (lambda x, y: x.argmax(1), lambda g, x, y: g.ArgMax(x, axis=1, keepdims=0), F),
    "mean": (lambda x, y: x.mean(1), lambda g, x, y: g.ReduceMean(x, [1], keepdims=0), F),
    "sign": (lambda x, y: x.sign(), lambda g, x, y: g.Sign(x), F),
    "threshold": (
        lambda x, y: nn.functional.threshold(x, 0.1, 7.0),
        lambda g, x, y: g.Where(g.Greater(x, np.float32(0.1)), x, np.float32(7)), F,
    ),
    "softshrink": (lambda x, y: nn.functional.softshrink(x), lambda g, x, y: g.Shrink(x, lambd=0.5, bias=0.5), F),
    "hypot": (torch.hypot, lambda g, x, y: g.Sqrt(g.Add(g.Mul(x, x), g.Mul(y, y))), F),
    "atan2": (torch.atan2, _quadrants, F),
    "floor_divide": (torch.floor_divide, lambda g, x, y: g.Div(x, y), N),
    "remainder": (torch.remainder, lambda g, x, y: g.Mod(x, y), N),
    "x << 3, uint8": (lambda x, y: x << 3, lambda g, x, y: g.BitShift(x, np.uint8(3), direction="LEFT"), U),
    "x >> 4, uint8": (lambda x, y: x >> 4, lambda g, x, y: g.BitShift(x, np.uint8(4), direction="RIGHT"), U),
    "x << y, uint8": (lambda x, y: x << y, lambda g, x, y: g.BitShift(x, y, direction="LEFT"), U),
    "to(uint8)": (lambda x, y: x.to(torch.uint8), lambda g, x, y: g.Cast(x, to=U), F),
}  # fmt: skip


def models(name: str, shape: tuple[int, int]) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Return the exact and the plain form of a row."""
    function, plain, dtype = ROWS[name]
    kind = {F: "float32", N: "int32", U: "uint8"}[dtype]
    exact = read(_Called(function), *(f"{n}:{kind}[{shape[0]},{shape[1]}]" for n in "xy"))
    g = Graph()
    g.output(plain(g, *(g.input(n, dtype, shape) for n in "xy")), "out")
    return ir.to_proto(exact), ir.to_proto(g.model())


def milliseconds(run: Callable[[], Any], other: Callable[[], Any], runs: int) -> tuple[float, float]:
    """Return the shortest CPU time of each form, run in turn."""
    best = [np.inf, np.inf]
    for _ in range(runs):
        for i, each in enumerate((run, other)):
            start = time.process_time()
            each()
            best[i] = min(best[i], 1e3 * (time.process_time() - start))
    return best[0], best[1]


def print_casts(x: np.ndarray, runs: int) -> None:
    """Measure TensorFlow's own cast to uint8, which saturates, beside the backend's, which wraps around."""
    import tensorflow as tf
    from convert.backends.tensorflow.ops.cast import convert_dtype

    given = tf.constant(x)
    ours, own = (tf.function(f) for f in (lambda v: convert_dtype(v, tf.uint8), lambda v: tf.cast(v, tf.uint8)))
    exact, plain = milliseconds(lambda: ours(given), lambda: own(given), runs)
    print(f"TensorFlow's cast to uint8: {exact:.2f} for {plain:.2f} ms ({exact / plain:.2f} x)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--size", type=int, default=1 << 20)
    parser.add_argument("--only", nargs="*", default=list(ROWS), choices=list(ROWS))
    options = parser.parse_args()
    shape = (options.size // 256, 256)
    rng = np.random.default_rng(0)
    for name in options.only:
        made = {F: rng.standard_normal((2, *shape)).astype(np.float32), N: rng.integers(1, 1000, (2, *shape), np.int32),
                U: rng.integers(1, 8, (2, *shape)).astype(np.uint8)}[ROWS[name][2]]  # fmt: skip
        forms = models(name, shape)
        text = f"{name:16}"
        for runtime, make in (("onnxruntime", onnxruntime_run), ("TensorFlow", tensorflow_run)):
            runs = [make(form) for form in forms]
            feeds = [{v.name: made["xy".index(v.name)] for v in form.graph.input} for form in forms]
            exact, plain = milliseconds(lambda: runs[0](feeds[0]), lambda: runs[1](feeds[1]), options.runs)  # noqa: B023
            record(name, f"CPU time of a run in {runtime}", "ms", exact, plain, "the form for plain numbers")
            text += f"  {runtime} {exact:6.2f} for {plain:6.2f} ms ({exact / plain:4.2f} x)"
        print(text, " ".join(n.op_type for n in forms[0].graph.node), flush=True)
    print_casts(rng.standard_normal(shape).astype(np.float32), options.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
