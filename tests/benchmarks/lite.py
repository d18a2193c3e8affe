"""Measure the speed and size of our TensorFlow Lite files beside those of onnx2tf and of TensorFlow's own converter.

    python tests/benchmarks/lite.py [--onnx2tf PYTHON] [--networks resnet50 …] [--runs 20] [--seconds S]

| rows | network | ours | peer |
|---|---|---|---|
| `torch` | timm | channels first, any batch size | torch.onnx and onnx2tf: channels last, batch size 1 |
| `keras` | keras.applications, a SavedModel | as the source | tf.lite.TFLiteConverter |

Weights are random. PYTHON is the interpreter of an environment with onnx2tf; without it that peer is left out. A row
says if onnx2tf fails. LiteRT runs all files in one process, one picture on one thread, in turn, and the order changes
from turn to turn. The figures are medians of CPU milliseconds, the quartiles of the ratio within a turn, and bytes.
After `--seconds` no further network begins.
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

TWINS = {"resnet50": "ResNet50", "mobilenetv2_100": "MobileNetV2", "efficientnet_b0": "EfficientNetB0"}
PEERS = {"torch": "onnx2tf", "keras": "TensorFlow's converter"}


def from_torch(network: str, folder: Path) -> dict[str, float]:
    """Write our file from PyTorch, and the ONNX file for onnx2tf."""
    import torch

    import convert
    from tests.support.timm_helper import create

    module, x = create(network, 224), torch.randn(2, 3, 224, 224)
    convert.convert(module, "tflite", folder / "torch.ours.tflite", inputs=[x], verify=False)
    torch.onnx.export(
        module, (x[:1],), str(folder / f"{network}.onnx"), dynamo=True, external_data=False, verbose=False
    )
    return {}


def by_onnx2tf(network: str, folder: Path) -> dict[str, float]:
    """Run onnx2tf in its environment, with noise in place of the pictures that it would download."""
    import numpy as np
    import onnx2tf

    out = folder / "onnx2tf"
    os.chdir(folder)  # onnx2tf looks here first
    pictures = np.random.default_rng(0).random((20, 128, 128, 3), np.float32)
    np.save("calibration_image_sample_data_20x128x128x3_float32.npy", pictures)
    onnx2tf.convert(str(folder / f"{network}.onnx"), output_folder_path=str(out), non_verbose=True)
    (out / f"{network}_float32.tflite").rename(folder / "torch.theirs.tflite")
    return {}


def from_keras(network: str, folder: Path) -> dict[str, float]:
    """Write both files from the SavedModel that `reader.py` writes."""
    import reader
    import tensorflow as tf

    import convert

    reader.export(TWINS[network], folder)
    made = tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved")).convert()
    (folder / "keras.theirs.tflite").write_bytes(made)
    convert.convert(folder / "saved", "tflite", folder / "keras.ours.tflite", verify=False)
    return {}


def latency(folder: Path, runs: int) -> dict[str, Any]:
    """Return the CPU milliseconds of every turn of each file, and its size in bytes."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    picture = np.random.default_rng(0).normal(size=(1, 224, 224, 3)).astype(np.float32)
    found: dict[str, Any] = {}
    calls = {}
    for path in sorted(folder.glob("*.tflite")):
        interpreter = Interpreter(model_path=str(path), num_threads=1)
        (given,) = interpreter.get_input_details()
        first = given["shape"][1] == 3
        shaped = picture.transpose(0, 3, 1, 2).copy() if first else picture
        interpreter.allocate_tensors()
        interpreter.set_tensor(given["index"], shaped)
        calls[path.stem] = interpreter
        found[path.stem] = {"times": [], "bytes": path.stat().st_size}
    for turn in range(runs + 2):
        for name in sorted(calls, reverse=bool(turn % 2)):
            start = time.process_time()
            calls[name].invoke()
            if turn > 1:
                found[name]["times"].append(1000 * (time.process_time() - start))
    return found


def show(network: str, found: Mapping[str, Any]) -> None:
    """Print and record the figures of one network."""
    for source, peer in PEERS.items():
        if f"{source}.ours" not in found:
            continue
        ours = found[f"{source}.ours"]
        failed = {"times": [float("nan")] * len(ours["times"]), "bytes": float("nan")}
        theirs = found.get(f"{source}.theirs", failed)
        spent = [statistics.median(x["times"]) for x in (ours, theirs)]
        low, _, high = statistics.quantiles([a / b for a, b in zip(ours["times"], theirs["times"], strict=True)], n=4)
        case = f"{network} from {source}"
        record(case, "CPU time of a run in LiteRT", "ms", *spent, peer)
        sizes = [x["bytes"] for x in (ours, theirs)]
        record(case, "size of the .tflite", "bytes", *sizes, peer)
        print(
            f"{network:<16} {peer:<23} {spent[0]:8.2f} {spent[1]:8.2f} {spent[0] / spent[1]:6.3f} "
            f"{low:6.3f}–{high:5.3f} {sizes[0]:10.0f} {sizes[1]:10.0f} {sizes[0] / sizes[1]:6.3f}",
            flush=True,
        )


def main() -> None:
    """Print the table, or do one step of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnx2tf", metavar="PYTHON")
    parser.add_argument("--networks", nargs="+", choices=TWINS, default=list(TWINS))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
        what, network, name = args.step
        steps = {"torch": from_torch, "onnx2tf": by_onnx2tf, "keras": from_keras}
        done = steps[what](network, Path(name)) if what in steps else latency(Path(name), args.runs)
        print(json.dumps(done))
        return
    began = time.monotonic()
    heads = f"{'ours ms':>8} {'theirs':>8} {'ratio':>6} {'quartiles':>12} {'bytes':>10} {'theirs':>10} {'ratio':>6}"
    print(f"{'network':<16} {'peer':<23} {heads}", flush=True)
    # onnx2tf takes minutes for a network, so its rows come last.
    for source in ("keras", "torch") if args.onnx2tf else ("keras",):
        for network in args.networks:
            if time.monotonic() - began > args.seconds:
                print(f"{network:<16} no time was left", flush=True)
                continue
            with tempfile.TemporaryDirectory() as folder:
                child(__file__, "--step", source, network, folder)
                if source == "torch":
                    try:
                        child(__file__, "--step", "onnx2tf", network, folder, python=args.onnx2tf)
                    except SystemExit as error:
                        print(f"{network:<16} onnx2tf failed: {str(error).strip().splitlines()[-1][:120]}", flush=True)
                show(network, child(__file__, "--runs", str(args.runs), "--step", "latency", network, folder))


if __name__ == "__main__":
    main()
