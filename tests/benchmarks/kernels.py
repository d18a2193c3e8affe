"""Measure our frozen TensorFlow graphs kernel by kernel, beside ONNX Runtime.

    python tests/benchmarks/kernels.py [--networks resnet50 …] [--runs 20] [--onednn on off]

The figures are the shortest time of each node over the runs, on one thread, summed by kernel: the kernels alone,
without waits between them. The last line compares TensorFlow's convolutions alone with all of ONNX Runtime. While these
take longer, no graph that is made of them can be as fast.

Two more figures tell where the rest of a call goes. `call` is the shortest CPU time of a whole call: kernels, executor
and Python. `primitives` are the times that oneDNN reports: kernels take more, because TensorFlow's code surrounds each
primitive.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clocks import record
from latency import ONEDNN, TWINS, artefacts


def shortest(call: Callable[[], Any], runs: int) -> float:
    """Return the least CPU milliseconds of a call."""
    taken = []
    for _ in range(runs):
        start = time.process_time()
        call()
        taken.append(1000 * (time.process_time() - start))
    return min(taken)


def tensorflow_session(path: Path, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Return a session of a frozen graph on one thread, its output, and its feed of (None, *shape[1:])."""
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    used = {i.split(":")[0].lstrip("^") for n in definition.node for i in n.input}
    (output,) = (n.name for n in definition.node if n.name not in used)
    (given,) = (n.name for n in definition.node if n.op == "Placeholder")
    with tf.Graph().as_default() as graph:
        feed = tf.compat.v1.placeholder(tf.float32, (None, *shape[1:]))
        # The optimizer forgets the shapes of a session's feeds, but keeps those of a function's inputs.
        known = tf.ensure_shape(feed, feed.shape)
        (result,) = tf.graph_util.import_graph_def(definition, {given: known}, [f"{output}:0"], name="")
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    return tf.compat.v1.Session(graph=graph, config=config), result, feed


def tensorflow_kernels(path: Path, runs: int, x: Any) -> tuple[Counter[str], float]:
    """Return milliseconds by kernel of a frozen graph after TensorFlow's optimizer, and CPU milliseconds of a call.

    A fused kernel is named by its parts.
    """
    import tensorflow as tf

    session, result, feed = tensorflow_session(path, x.shape)
    traced = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    best: dict[str, float] = {}
    kernels: dict[str, str] = {}
    for _ in range(runs):
        found = tf.compat.v1.RunMetadata()
        session.run(result, {feed: x}, options=traced, run_metadata=found)
        for node in (n for part in found.partition_graphs for n in part.node):
            fused = [x.decode() for x in node.attr["fused_ops"].list.s] if "fused_ops" in node.attr else []
            kernels[node.name] = " + ".join([node.op, *fused])
        for stats in (n for device in found.step_stats.dev_stats for n in device.node_stats):
            spent = (stats.op_end_rel_micros - stats.op_start_rel_micros) / 1000
            best[stats.node_name] = min(best.get(stats.node_name, spent), spent)
    total: Counter[str] = Counter()
    for name, spent in best.items():
        if name in kernels:
            total[kernels[name]] += spent
    call = session.make_callable(result, [feed])
    return total, shortest(lambda: call(x), runs)


def run_for_primitives(path: Path, runs: int) -> None:
    """Run a frozen graph on a picture; print a line before each call, between the lines of ONEDNN_VERBOSE."""
    x = picture()
    session, result, feed = tensorflow_session(path, x.shape)
    call = session.make_callable(result, [feed])
    for _ in range(runs):
        print("call", flush=True)
        call(x)


def primitives(path: Path, runs: int) -> float:
    """Return milliseconds of oneDNN's primitives in one call: the sum of the shortest time of each.

    The first call, which reorders the weights, is not counted.
    """
    command = [sys.executable, __file__, "--primitives", str(path), "--runs", str(runs)]
    environment = {**os.environ, "ONEDNN_VERBOSE": "profile_exec"}
    done = subprocess.run(command, check=True, env=environment, text=True, stdout=subprocess.PIPE)
    calls: list[list[float]] = []
    for line in done.stdout.splitlines():
        if line == "call":
            calls.append([])
        elif line.startswith("onednn_verbose") and ",exec," in line and calls:
            calls[-1].append(float(line.rpartition(",")[2]))
    return sum(map(min, zip(*calls[1:], strict=True)))


def onnxruntime_kernels(path: Path, runs: int, x: Any, folder: Path) -> tuple[Counter[str], float]:
    """Return milliseconds by operator of an ONNX file, and CPU milliseconds of a call."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    plain = onnxruntime.InferenceSession(path, options)
    feeds = {plain.get_inputs()[0].name: x}
    call = shortest(lambda: plain.run(None, feeds), runs)
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = onnxruntime.InferenceSession(path, options)
    for _ in range(runs):
        session.run(None, feeds)
    best: dict[str, float] = {}
    kernels: dict[str, str] = {}
    for event in json.loads(Path(session.end_profiling()).read_text()):
        if event["cat"] == "Node" and event["name"].endswith("kernel_time"):
            name, spent = event["name"], event["dur"] / 1000
            best[name] = min(best.get(name, spent), spent)
            kernels[name] = event["args"]["op_name"]
    total: Counter[str] = Counter()
    for name, spent in best.items():
        total[kernels[name]] += spent
    return total, call


def picture() -> Any:
    """Return a random picture, float32 [1, 3, 224, 224]."""
    import numpy as np

    return np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)


def measure(network: str, runs: int) -> None:
    """Print one network's tables."""
    x, onednn = picture(), os.environ["TF_ENABLE_ONEDNN_OPTS"]
    with tempfile.TemporaryDirectory() as folder:
        paths = artefacts(network, Path(folder), ("onnx", "tf-frozen"))
        theirs, their_call = onnxruntime_kernels(paths["onnx"], runs, x, Path(folder))
        ours, our_call = tensorflow_kernels(paths["tf-frozen"], runs, x)
        alone = primitives(paths["tf-frozen"], runs) if onednn == "1" else None
    for who, total, call in (("onnxruntime", theirs, their_call), ("tensorflow", ours, our_call)):
        for kernel, spent in total.most_common(8):
            print(f"{network:<16} {who:<12} {spent:8.2f} {kernel}")
        print(f"{network:<16} {who:<12} {total.total():8.2f} all")
        print(f"{network:<16} {who:<12} {call:8.2f} call", flush=True)
    if alone is not None:
        print(f"{network:<16} {'oneDNN':<12} {alone:8.2f} primitives")
    convolutions = sum(spent for kernel, spent in ours.items() if "Conv2d" in kernel or "Conv2D" in kernel)
    whole = theirs.total()
    record(f"{network}, oneDNN {onednn}", "CPU time of the kernels alone", "ms", ours.total(), whole, "onnxruntime")
    record(f"{network}, oneDNN {onednn}", "CPU time of a call", "ms", our_call, their_call, "onnxruntime")
    ratios = f"all / all {ours.total() / whole:.2f}, TensorFlow's convolutions / all {convolutions / whole:.2f}"
    ratios += f", call / call {our_call / their_call:.2f}"
    print(f"{network:<16} {ratios}", flush=True)


def main() -> None:
    """Measure each network in a process of its own, with each set of kernels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=TWINS, default=list(TWINS))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--onednn", nargs="+", choices=ONEDNN, default=list(ONEDNN))
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--primitives", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.primitives:
        run_for_primitives(args.primitives, args.runs)
        return
    if args.one:
        measure(args.networks[0], args.runs)
        return
    for setting in args.onednn:
        print(f"oneDNN {setting}, milliseconds by kernel", flush=True)
        environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": ONEDNN[setting]}
        for network in args.networks:
            command = [sys.executable, __file__, "--one", "--networks", network, "--runs", str(args.runs)]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env=environment)


if __name__ == "__main__":
    main()
