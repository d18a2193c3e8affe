"""Measure our frozen TensorFlow graphs kernel by kernel, beside ONNX Runtime.

    python tests/benchmarks/kernels.py [--networks resnet50 …] [--runs 20] [--onednn on off]

The figures are the shortest time of each node over the runs, on one thread, summed by kernel: the kernels alone,
without waits between them. The last line compares TensorFlow's convolutions alone with all of ONNX Runtime. While these
take longer, no graph that is made of them can be as fast.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from clocks import record
from latency import ONEDNN, TWINS, artefacts


def tensorflow_kernels(path: Path, runs: int, x: Any) -> Counter[str]:
    """Return milliseconds by kernel of a frozen graph after TensorFlow's optimizer.

    A fused kernel is named by its parts.
    """
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    used = {i.split(":")[0].lstrip("^") for n in definition.node for i in n.input}
    (output,) = (n.name for n in definition.node if n.name not in used)
    (given,) = (n.name for n in definition.node if n.op == "Placeholder")
    with tf.Graph().as_default() as graph:
        feed = tf.compat.v1.placeholder(tf.float32, (None, *x.shape[1:]))
        # The optimizer forgets the shapes of a session's feeds, but keeps those of a function's inputs.
        known = tf.ensure_shape(feed, feed.shape)
        (result,) = tf.graph_util.import_graph_def(definition, {given: known}, [f"{output}:0"], name="")
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    session = tf.compat.v1.Session(graph=graph, config=config)
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
    return total


def onnxruntime_kernels(path: Path, runs: int, x: Any, folder: Path) -> Counter[str]:
    """Return milliseconds by operator of an ONNX file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = onnxruntime.InferenceSession(path, options)
    for _ in range(runs):
        session.run(None, {session.get_inputs()[0].name: x})
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
    return total


def measure(network: str, runs: int) -> None:
    """Print one network's tables."""
    import numpy as np

    x = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        paths = artefacts(network, Path(folder), ("onnx", "tf-frozen"))
        theirs = onnxruntime_kernels(paths["onnx"], runs, x, Path(folder))
        ours = tensorflow_kernels(paths["tf-frozen"], runs, x)
    for who, total in (("onnxruntime", theirs), ("tensorflow", ours)):
        for kernel, spent in total.most_common(8):
            print(f"{network:<16} {who:<12} {spent:8.2f} {kernel}")
        print(f"{network:<16} {who:<12} {total.total():8.2f} all", flush=True)
    convolutions = sum(spent for kernel, spent in ours.items() if "Conv2d" in kernel or "Conv2D" in kernel)
    whole = theirs.total()
    onednn = os.environ["TF_ENABLE_ONEDNN_OPTS"]
    record(f"{network}, oneDNN {onednn}", "CPU time of the kernels alone", "ms", ours.total(), whole, "onnxruntime")
    ratios = f"all / all {ours.total() / whole:.2f}, TensorFlow's convolutions / all {convolutions / whole:.2f}"
    print(f"{network:<16} {ratios}", flush=True)


def main() -> None:
    """Measure each network in a process of its own, with each set of kernels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=TWINS, default=list(TWINS))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--onednn", nargs="+", choices=ONEDNN, default=list(ONEDNN))
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
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
