"""CPU seconds and peak memory of PyTorch → ONNX, ours against torch.onnx.export(dynamo=True), as ratios in one run.

    python tests/benchmarks/capture.py [--rounds 3]

Each measurement is a new process that imports torch, builds the model with random weights, and only then starts the
clocks: CPU seconds of the process (all threads) and the peak of the resident set beyond what it was at that moment.
The medians over the rounds are printed, theirs and ours in turn, so that both see the same state of the machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MODELS = ("resnet50", "transformer")


def build(name: str) -> tuple[Any, tuple[Any, ...]]:
    """The module in eval mode and its example inputs."""
    import torch

    torch.manual_seed(0)
    if name == "resnet50":
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        from timm_helper import create

        return create("resnet50"), (torch.randn(2, 3, 224, 224),)
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
    return torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval(), (torch.randn(2, 128, 768),)


def measure(who: str, model: str) -> dict[str, float]:
    """Convert once in this process; CPU seconds, MiB of peak memory beyond the start, and nodes of the graph."""
    import onnx
    import torch

    module, inputs = build(model)
    with torch.no_grad():
        module(*inputs)
    weights = sum(p.numel() * p.element_size() for p in module.parameters()) / 2**20
    batch = torch.export.Dim("batch", min=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        before, start = _restart_peak(), time.process_time()
        if who == "ours":
            import convert

            convert.convert(module, "onnx", path, inputs=list(inputs), verify=False)
        else:
            shapes = tuple({0: batch} for _ in inputs)
            torch.onnx.export(
                module, inputs, str(path), dynamo=True, dynamic_shapes=shapes, external_data=False, verbose=False
            )
        seconds, after = time.process_time() - start, _peak()
        nodes = len(onnx.load(path, load_external_data=False).graph.node)
    return {"seconds": seconds, "memory": after - before, "weights": weights, "nodes": nodes}


def _restart_peak() -> float:
    """MiB that are resident now; the peak is counted anew from here (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> float:
    return _status("VmHWM")


def _status(field: str) -> float:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) / 1024


def main() -> None:
    """Run every pair `rounds` times and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("WHO", "MODEL"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(*args.one)))
        return
    print(f"{'model':<12} {'who':<7} {'CPU s':>8} {'peak MiB':>9} {'nodes':>6}   (medians of {args.rounds} rounds)")
    for model in MODELS:
        rows: dict[str, list[dict[str, float]]] = {"theirs": [], "ours": []}
        for _ in range(args.rounds):
            for who, found in rows.items():
                done = subprocess.run(
                    [sys.executable, __file__, "--one", who, model], capture_output=True, text=True, check=False
                )
                if done.returncode:
                    sys.exit(f"{who} failed on {model}:\n{done.stderr[-2000:]}")
                found.append(json.loads(done.stdout.splitlines()[-1]))
        median = {w: {k: statistics.median(r[k] for r in found) for k in found[0]} for w, found in rows.items()}
        for who, row in median.items():
            print(f"{model:<12} {who:<7} {row['seconds']:8.2f} {row['memory']:9.1f} {row['nodes']:6.0f}")
        ours, theirs = median["ours"], median["theirs"]
        print(
            f"{model:<12} {'ratio':<7} {ours['seconds'] / theirs['seconds']:8.2f} "
            f"{ours['memory'] / theirs['memory']:9.2f} {ours['nodes'] / theirs['nodes']:6.2f}"
            f"   (weights {ours['weights']:.1f} MiB)"
        )


if __name__ == "__main__":
    main()
