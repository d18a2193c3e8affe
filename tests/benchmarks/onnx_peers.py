"""Measure our ONNX files beside those of torch.onnx and tf2onnx: ten networks in ONNX Runtime.

    python tests/benchmarks/onnx_peers.py [--tf2onnx PYTHON] [--networks resnet50 ResNet50 …] [--batches 1 8]
                                          [--runs 20] [--seconds S]

Five networks of timm and transformers are exported by torch.onnx.export(dynamo=True) with a dynamic batch size. Five
networks of keras.applications are converted by tf2onnx from SavedModels; PYTHON is the interpreter of an environment
with tf2onnx, and without it they are left out. Weights are random.

ONNX Runtime runs both files of a network in one process, on one thread, in turn, and the order changes from turn to
turn. The figures are medians of CPU milliseconds, and the quartiles of the ratio within a turn, which tell a difference
from noise. The last two columns count the nodes of our graph and of theirs after ONNX Runtime has optimized them. After
`--seconds` no further network begins.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clocks import child, record

for variable in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

TORCH = ("resnet50", "mobilenetv2_100", "efficientnet_b0", "vit_tiny_patch16_224", "bert")
KERAS = ("ResNet50", "MobileNetV2", "EfficientNetB0", "DenseNet121", "MobileNetV3Small")
TOKENS = 128


def from_torch(network: str, folder: Path) -> dict[str, float]:
    """Write the network with convert and with torch.onnx; return the seconds of each."""
    import torch
    from torch_programs import example, twin_of

    module, given = twin_of(network).eval(), example(network, 2)
    start = time.process_time()
    import convert

    convert.convert(module, "onnx", folder / "ours.onnx", inputs=list(given), verify=False)
    middle = time.process_time()
    dims = tuple({0: torch.export.Dim("batch", min=1)} for _ in given)
    with torch.no_grad():
        torch.onnx.export(
            module,
            given,
            str(folder / "theirs.onnx"),
            dynamo=True,
            dynamic_shapes=dims,
            external_data=False,
            verbose=False,
        )
    return {"ours": middle - start, "theirs": time.process_time() - middle}


def latency(folder: Path, network: str, batches: list[int], runs: int) -> dict[str, Any]:
    """Return CPU milliseconds of each file by batch size and turn, and its nodes after ONNX Runtime's optimizer."""
    import numpy as np
    import onnx
    import onnxruntime

    sessions, nodes = {}, {}
    for who in ("ours", "theirs"):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.optimized_model_filepath = str(folder / f"{who}.optimized.onnx")
        options.log_severity_level = 3
        sessions[who] = onnxruntime.InferenceSession(str(folder / f"{who}.onnx"), options)
        nodes[who] = len(onnx.load(options.optimized_model_filepath).graph.node)
    drawn = np.random.default_rng(0)
    times: dict[int, dict[str, list[float]]] = {}
    for batch in batches:
        pictures = drawn.normal(size=(batch, 224, 224, 3)).astype(np.float32)
        if network in TORCH:
            pictures = pictures.transpose(0, 3, 1, 2).copy()
        given = [pictures]
        if network == "bert":
            given = [drawn.integers(0, 30000, (batch, TOKENS)), np.ones((batch, TOKENS), np.int64)]
        feeds = {w: {i.name: x for i, x in zip(s.get_inputs(), given, strict=True)} for w, s in sessions.items()}
        times[batch] = {who: [] for who in sessions}
        for turn in range(runs + 2):
            for who in sorted(sessions, reverse=bool(turn % 2)):
                start = time.process_time()
                sessions[who].run(None, feeds[who])
                if turn > 1:
                    times[batch][who].append(1000 * (time.process_time() - start))
    return {"times": times, "nodes": nodes}


def write(network: str, folder: Path, tf2onnx: str) -> None:
    """Write both files of one network, each in a process of its own."""
    if network in TORCH:
        child(__file__, "--step", "torch", network, str(folder))
        return
    reader = str(Path(__file__).with_name("reader.py"))
    child(reader, "--step", "export", network, str(folder))
    child(reader, "--step", "theirs", network, str(folder), python=tf2onnx)
    child(reader, "--step", "ours", network, str(folder))


def show(network: str, found: Mapping[str, Any]) -> None:
    """Print and record the figures of one network."""
    peer = "torch.onnx" if network in TORCH else "tf2onnx"
    for batch, times in found["times"].items():
        ours, theirs = (statistics.median(times[who]) for who in ("ours", "theirs"))
        low, _, high = statistics.quantiles([a / b for a, b in zip(times["ours"], times["theirs"], strict=True)], n=4)
        record(f"{network}, batch {batch}", "CPU time of a run in ONNX Runtime", "ms", ours, theirs, peer)
        nodes = f"{found['nodes']['ours']:5d} {found['nodes']['theirs']:5d}"
        print(
            f"{network:<22} {peer:<10} {batch:>5} {ours:9.2f} {theirs:9.2f} {ours / theirs:6.3f} "
            f"{low:6.3f}–{high:5.3f} {nodes}",
            flush=True,
        )


def main() -> None:
    """Print the table, or do one step of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tf2onnx", metavar="PYTHON")
    parser.add_argument("--networks", nargs="+", choices=(*TORCH, *KERAS), default=[*TORCH, *KERAS])
    parser.add_argument("--batches", type=int, nargs="+", default=[1])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
        what, network, folder = args.step
        if what == "torch":
            print(json.dumps(from_torch(network, Path(folder))))
        else:
            print(json.dumps(latency(Path(folder), network, args.batches, args.runs)))
        return
    began = time.monotonic()
    heads = f"{'ours ms':>9} {'theirs':>9} {'ratio':>6} {'quartiles':>12} {'nodes':>5} {'theirs':>5}"
    print(f"{'network':<22} {'peer':<10} {'batch':>5} {heads}", flush=True)
    for network in args.networks:
        if network in KERAS and not args.tf2onnx:
            print(f"{network:<22} no --tf2onnx", flush=True)
        elif time.monotonic() - began > args.seconds:
            print(f"{network:<22} no time was left", flush=True)
        else:
            with tempfile.TemporaryDirectory() as folder:
                write(network, Path(folder), args.tf2onnx)
                sizes = ["--batches", *map(str, args.batches), "--runs", str(args.runs)]
                show(network, child(__file__, *sizes, "--step", "latency", network, folder))


if __name__ == "__main__":
    main()
