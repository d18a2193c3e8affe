"""Measure how the cost of a conversion grows with the model, for every pair of frontend and backend.

    python tests/benchmarks/scaling.py [--nodes 1000 10000] [--gigabytes 0.1 1 3] [--from onnx …] [--to onnx …]

Chains of small nodes, and stacks of square matrices, are written as a source of each frontend: an ONNX file, a
TorchScript archive, a SavedModel and a Caffe2 folder. Each conversion is a new process that first converts a tiny model
of the same pair, so that imports are not counted. Measured are CPU seconds (all threads, and the child process of
TensorFlow's converter to TensorFlow Lite) and the peak of this process's memory above that at the start.

The first table is per node, the second per byte of weights. `growth` compares with the smallest size. `without` leaves
out the seconds of the kernel: it keeps written data in pages, and takes the longer to find free ones the more there
are.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from clocks import measured, record

SOURCES = ("onnx", "pytorch", "tensorflow", "caffe2")
TARGETS = ("onnx", "torch", "tf", "tf-frozen", "keras", "tflite", "caffe2")
SUFFIX = {"onnx": ".onnx", "pytorch": ".pt", "tensorflow": ".savedmodel", "caffe2": ".caffe2"}
WIDTH = 2048
"""Rows and columns of a matrix: 16 MiB of float32."""


def make(source: str, nodes: int, matrices: int, path: Path) -> None:
    """Write a chain of `nodes` operators, or of `matrices` products, over x [batch, 8] or [batch, WIDTH]."""
    width = WIDTH if matrices else 8
    if source == "onnx":
        _make_onnx(nodes, matrices, width, path)
    elif source == "pytorch":
        _make_pytorch(nodes, matrices, width, path)
    elif source == "caffe2":
        _make_caffe2(nodes, matrices, width, path)
    else:
        _make_tensorflow(nodes, matrices, width, path)


def _matrix(i: int):
    import numpy as np

    return np.random.default_rng(i).random((WIDTH, WIDTH), np.float32)


def _make_onnx(nodes: int, matrices: int, width: int, path: Path) -> None:
    import numpy as np
    import onnx
    from onnx import helper

    count = nodes or matrices
    operators = [("Relu", "Neg")[i % 2] for i in range(nodes)] or ["MatMul"] * matrices
    made = [
        helper.make_node(operator, [f"x{i}", *([f"w{i}"] if matrices else [])], [f"x{i + 1}"], name=f"node_{i}")
        for i, operator in enumerate(operators)
    ]
    weights = []
    with open(path.with_suffix(".data"), "wb") as stream:
        for i in range(matrices):
            tensor = onnx.TensorProto(name=f"w{i}", data_type=1, dims=[WIDTH, WIDTH], data_location=1)
            array = np.ascontiguousarray(_matrix(i))
            for key, value in (("location", path.stem + ".data"), ("offset", stream.tell()), ("length", array.nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            stream.write(array)
            weights.append(tensor)
    ends = [helper.make_tensor_value_info(name, 1, ["batch", width]) for name in ("x0", f"x{count}")]
    graph = helper.make_graph(made, "chain", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def _make_pytorch(nodes: int, matrices: int, width: int, path: Path) -> None:
    import torch

    class Chain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ParameterList(torch.from_numpy(_matrix(i)) for i in range(matrices))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for i in range(nodes):
                x = torch.neg(x) if i % 2 else torch.relu(x)
            for w in self.layers:
                x = x @ w
            return x

    with torch.no_grad():
        torch.jit.save(torch.jit.trace(Chain().eval(), torch.ones(2, width), check_trace=False), path)


def _make_tensorflow(nodes: int, matrices: int, width: int, path: Path) -> None:
    import tensorflow as tf

    module = tf.Module()
    module.weights = [tf.Variable(_matrix(i)) for i in range(matrices)]

    @tf.function(input_signature=[tf.TensorSpec((None, width), tf.float32, "x")])
    def chain(x):
        for i in range(nodes):
            x = tf.negative(x) if i % 2 else tf.nn.relu(x)
        for w in module.weights:
            x = x @ w
        return x

    module.chain = chain
    tf.saved_model.save(module, str(path), signatures=chain)


def _make_caffe2(nodes: int, matrices: int, width: int, path: Path) -> None:
    import convert

    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        _make_onnx(nodes, matrices, width, chain := Path(folder, "chain.onnx"))
        convert.convert(chain, "caffe2", path, verify=False)


def convert_one(source: Path, small: Path, target: str, folder: Path, width: int) -> dict[str, float]:
    """Convert in this process, after the small model."""
    import convert
    from convert.plugin import formats

    suffix = formats()[target].suffix

    def inputs(columns: int) -> str | None:
        return f"float32[batch,{columns}]" if source.suffix in (".pt", ".caffe2") else None

    convert.convert(small, target, folder / f"small{suffix}", inputs=inputs(8), verify=False)
    with measured() as found:
        convert.convert(source, target, folder / f"large{suffix}", inputs=inputs(width), verify=False)
    return found


def table(title: str, sizes: list[float], sources: list[str], targets: list[str], *, weights: bool) -> None:
    """Print a row for each pair and size: the cost in all, and per node or byte relative to the smallest size."""
    print(f"\n{title}")
    unit = "CPU ns/byte" if weights else "CPU µs/node"
    memory = "peak / weights" if weights else "peak KiB/node"
    print(
        f"{'source':<11} {'target':<10} {'size':>7} {'CPU s':>8} {'peak MiB':>9} {unit:>12} {memory:>14} "
        f"{'growth':>7} {'without':>7}"
    )
    for source in sources:
        with tempfile.TemporaryDirectory() as folder:
            small = Path(folder, "small" + SUFFIX[source])
            _write(source, 4, 0, small)
            for size in sizes:
                matrices = round(size * 1e9 / (4 * WIDTH * WIDTH)) if weights else 0
                path = Path(folder, "large" + SUFFIX[source])
                _write(source, 0 if weights else int(size), matrices, path)
                for target in targets:
                    _row(source, target, size, path, small, matrices)
                shutil.rmtree(path) if path.is_dir() else path.unlink()


_FIRST: dict[tuple[str, str, bool], tuple[float, float]] = {}


def _write(source: str, nodes: int, matrices: int, path: Path) -> None:
    command = [sys.executable, __file__, "--make", source, str(nodes), str(matrices), str(path)]
    subprocess.run(command, check=True, capture_output=True)


def _row(source: str, target: str, size: float, path: Path, small: Path, matrices: int) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as out:
        width = str(WIDTH if matrices else 8)
        command = [sys.executable, __file__, "--one", str(path), str(small), target, out, width]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{source:<11} {target:<10} {size:>7g} {done.stderr.strip().splitlines()[-1][:120]}", flush=True)
        return
    found = json.loads(done.stdout.splitlines()[-1])
    count = matrices * 4 * WIDTH * WIDTH if matrices else size
    each = found["seconds"] / count * (1e9 if matrices else 1e6)
    memory = found["memory"] * 2**20 / count if matrices else found["memory"] * 1024 / count
    user = each * (1 - found["kernel"] / found["seconds"])
    first, first_user = _FIRST.setdefault((source, target, bool(matrices)), (each, user))
    if each != first:
        what, unit = ("byte", "ns") if matrices else ("node", "µs")
        case = f"{source} → {target}, {size:g}"
        record(case, f"CPU time a {what}", unit, each, first, "the smallest size")
        record(case, f"CPU time a {what}, without the kernel's", unit, user, first_user, "the smallest size")
    print(
        f"{source:<11} {target:<10} {size:>7g} {found['seconds']:8.2f} {found['memory']:9.1f} {each:12.2f} "
        f"{memory:14.2f} {each / first:7.2f} {user / first_user:7.2f}",
        flush=True,
    )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1000, 10000])
    parser.add_argument("--gigabytes", type=float, nargs="*", default=[0.1, 1, 3])
    parser.add_argument("--from", dest="sources", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--to", dest="targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--make", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        source, nodes, matrices, path = args.make
        make(source, int(nodes), int(matrices), Path(path))
    elif args.one:
        source, small, target, folder, width = args.one
        print(json.dumps(convert_one(Path(source), Path(small), target, Path(folder), int(width))))
    else:
        if args.nodes:
            table("Chains of nodes", args.nodes, args.sources, args.targets, weights=False)
        if args.gigabytes:
            table("Weights, in GB", args.gigabytes, args.sources, args.targets, weights=True)


if __name__ == "__main__":
    main()
