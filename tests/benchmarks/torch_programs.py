"""Measure our PyTorch programs beside the handwritten module, and the cost of the conversion.

    python tests/benchmarks/torch_programs.py [--networks resnet50 …] [--sources onnx keras] [--batches 1 8] [--runs 20]
                                              [--compile]

The peers are ResNet-50, MobileNetV2 and EfficientNet-B0 of timm and BERT (base) of transformers, with random weights.
The source `onnx` is the peer exported to ONNX, `keras` the network of keras.applications (there is no BERT). Both are
converted to `.pt2`, loaded with torch.export.load, and called in turn with the peer, in one process on one thread. The
figures are medians of CPU milliseconds. `--compile` calls all of them through torch.compile, which needs a C++
compiler. Keras's networks differ from timm's in their paddings; EfficientNet has a normalization at the front as well.

Before that, it prints CPU seconds of the whole conversion without verification, of reading the source, and of
torch.export for capturing and saving the peer, all in this process after one conversion that is not counted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clocks import record

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

import convert

TWINS = {"resnet50": "ResNet50", "mobilenetv2_100": "MobileNetV2", "efficientnet_b0": "EfficientNetB0", "bert": ""}
"""The name of each network in timm, and in keras.applications."""

TOKENS = 128


def twin_of(network: str) -> torch.nn.Module:
    """Return the handwritten module."""
    from tests.support.timm_helper import create, declare_torchvision_operators

    declare_torchvision_operators()
    if network != "bert":
        return create(network, 224)
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(), add_pooling_layer=False).eval()


def example(network: str, batch: int) -> tuple[torch.Tensor, ...]:
    """Return the inputs of the handwritten module: pictures with channels first, or token ids."""
    torch.manual_seed(0)
    if network == "bert":
        return (torch.randint(0, 30000, (batch, TOKENS)), torch.ones(batch, TOKENS, dtype=torch.int64))
    return (torch.randn(batch, 3, 224, 224),)


def source_file(network: str, kind: str, twin: torch.nn.Module, folder: Path) -> Path:
    """Write the network as a file of ONNX or Keras; return its path."""
    if kind == "keras":
        import keras

        model = getattr(keras.applications, TWINS[network])(weights=None)
        model.save(folder / f"{network}.keras")
        return folder / f"{network}.keras"
    path = folder / f"{network}.onnx"
    words = ["input_ids:int64[batch,length]", "attention_mask:int64[batch,length]"]
    inputs = words if network == "bert" else ["x:float32[batch,3,224,224]"]
    convert.convert(twin, "onnx", path, inputs=inputs, verify=False)
    return path


def costs(path: Path, folder: Path) -> tuple[float, float]:
    """Return CPU seconds of reading the source, and of converting it."""
    convert.convert(path, "torch", folder / "first.pt2", verify=False, force=True)
    start = time.process_time()
    convert.inspect(path)
    middle = time.process_time()
    convert.convert(path, "torch", folder / f"{path.name}.pt2", verify=False)
    return middle - start, time.process_time() - middle


def capture_cost(twin: torch.nn.Module, network: str, folder: Path) -> float:
    """Return CPU seconds of capturing and saving the handwritten module with a dynamic batch size."""
    given = example(network, 2)
    start = time.process_time()
    dims = tuple({0: torch.export.Dim.DYNAMIC} for _ in given)
    torch.export.save(torch.export.export(twin, given, dynamic_shapes=dims, strict=False), folder / "twin.pt2")
    return time.process_time() - start


def turns(calls: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """Return the median CPU milliseconds of each call, after three that are not counted."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(runs + 3):
        for name, call in calls.items():
            start = time.process_time()
            call()
            if turn >= 3:
                taken[name].append(1000 * (time.process_time() - start))
    return {name: statistics.median(values) for name, values in taken.items()}


def measure(network: str, kinds: Sequence[str], batches: Sequence[int], runs: int, compiled: bool) -> None:
    """Print one network's rows."""
    twin = twin_of(network)
    modules: dict[str, Any] = {"twin": twin}
    with tempfile.TemporaryDirectory() as name:
        captured = capture_cost(twin, network, Path(name))
        for kind in kinds:
            if kind == "keras" and not TWINS[network]:
                continue
            path = source_file(network, kind, twin, Path(name))
            read, whole = costs(path, Path(name))
            told = f"read {read:.2f} s, converted {whole:.2f} s, the twin captured {captured:.2f} s"
            print(f"{network:<16} {kind:<6} {told}", flush=True)
            for other, against in ((read, "reading"), (captured, "torch.export of the twin")):
                record(f"{network} from {kind}", "CPU time of a conversion to .pt2", "s", whole, other, against)
            modules[kind] = torch.export.load(Path(name, f"{path.name}.pt2")).module()
    if compiled:
        modules = {kind: torch.compile(module) for kind, module in modules.items()}
    way = "compiled" if compiled else "eager"
    for batch in batches:
        given = example(network, batch)
        last = (given[0].permute(0, 2, 3, 1).contiguous(),) if network != "bert" else given
        calls = {kind: _call(module, last if kind == "keras" else given) for kind, module in modules.items()}
        with torch.no_grad():
            found = turns(calls, runs)
        for kind, value in found.items():
            print(
                f"{network:<16} {kind:<6} {way}, batch {batch}: {value:8.1f} ms {value / found['twin']:6.2f}",
                flush=True,
            )
            if kind != "twin":
                case = f"{network} from {kind}, {way}, batch {batch}"
                record(case, "CPU time of a run", "ms", value, found["twin"], "the twin")


def _call(module: Any, given: tuple[torch.Tensor, ...]) -> Callable[[], Any]:
    return lambda: module(*given)


def main() -> None:
    """Measure each network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=TWINS, default=list(TWINS))
    parser.add_argument("--sources", nargs="+", choices=("onnx", "keras"), default=["onnx", "keras"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for network in args.networks:
        measure(network, args.sources, args.batches, args.runs, args.compile)


if __name__ == "__main__":
    main()
