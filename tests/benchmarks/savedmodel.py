"""Measure PyTorch → SavedModel, beside torch.onnx.export followed by onnx2tf.

    python tests/benchmarks/savedmodel.py --onnx2tf PYTHON [--rounds 3] [--networks resnet50 …]

PYTHON is the interpreter of a virtual environment with onnx2tf (1.29 pins other versions of TensorFlow and ONNX than
ours). Each step is a new process. It imports what it needs and builds the model before the clocks start; imports that
happen during the step are counted on both sides. Measured are CPU seconds (all threads) and the peak of memory above
that at the start. `warm` is our conversion after that of one small layer, which leaves the imports out. The figures are
medians over the rounds; the ratio is our seconds divided by the sum of their two steps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from clocks import child, measured, record

NETWORKS = ("resnet50", "mobilenetv2_100", "efficientnet_b0")


def step(name: str, network: str, folder: Path) -> dict[str, float]:
    """Measure one step in this process: our conversion, or a step of the peer."""
    onnx_file = folder / f"{network}.onnx"
    if name == "onnx2tf":
        import onnx2tf
        import tensorflow

        with measured() as found:
            onnx2tf.convert(str(onnx_file), output_folder_path=str(folder / "theirs"), non_verbose=True)
        return found
    import torch

    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.support.timm_helper import create

    module, x = create(network, 224), torch.randn(2, 3, 224, 224)
    weights = sum(p.numel() * p.element_size() for p in module.parameters()) / 2**20
    if name == "export":
        with measured() as found:
            shapes = ({0: torch.export.Dim("batch", min=1)},)
            torch.onnx.export(module, (x,), str(onnx_file), dynamo=True, dynamic_shapes=shapes, verbose=False)
        return {**found, "weights": weights}
    import tensorflow  # noqa: F401

    import convert

    if name == "warm":
        layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
        convert.convert(layers, "tf", folder / "small", inputs=[x], verify=False)
    with measured() as found:
        convert.convert(module, "tf", folder / name, inputs=[x], verify=False)
    return {**found, "weights": weights}


def table(networks: Sequence[str], rounds: int, onnx2tf: str) -> None:
    """Run every network `rounds` times and print the table; `onnx2tf` is the interpreter of its environment."""
    print(f"{'network':<16} {'':<8} {'CPU s':>8} {'peak MiB':>9} {'peak / weights':>14}", flush=True)
    for network in networks:
        found = [_round(network, onnx2tf) for _ in range(rounds)]
        median = {s: {k: statistics.median(r[s][k] for r in found) for k in found[0][s]} for s in found[0]}
        weights = median["ours"]["weights"]
        for who, row in median.items():
            ratio = row["memory"] / weights
            print(f"{network:<16} {who:<8} {row['seconds']:8.2f} {row['memory']:9.1f} {ratio:14.2f}", flush=True)
        theirs = median["export"]["seconds"] + median["onnx2tf"]["seconds"]
        record(network, "CPU time of PyTorch → SavedModel", "s", median["ours"]["seconds"], theirs, "onnx2tf")
        seconds = median["ours"]["seconds"] / theirs
        print(f"{network:<16} {'ratio':<8} {seconds:8.2f}   (weights {weights:.1f} MiB)", flush=True)


def _round(network: str, onnx2tf: str) -> dict[str, dict[str, float]]:
    pythons = {"export": sys.executable, "onnx2tf": onnx2tf}
    with tempfile.TemporaryDirectory() as folder:
        return {
            name: child(__file__, "--step", name, network, folder, python=pythons.get(name, sys.executable))
            for name in ("export", "onnx2tf", "ours", "warm")
        }


def main() -> None:
    """Print the table, or measure one step of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnx2tf", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        name, network, folder = args.step
        print(json.dumps(step(name, network, Path(folder))))
    elif args.onnx2tf:
        table(args.networks, args.rounds, args.onnx2tf)
    else:
        parser.error("--onnx2tf is missing")


if __name__ == "__main__":
    main()
