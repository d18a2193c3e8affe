"""Measure PyTorch → ONNX and the speed of the result, beside torch.onnx.export(dynamo=True).

    python tests/benchmarks/capture.py [--rounds 3] [--models resnet50 bert vit llama transformer]

Each measurement is a new process. It imports torch and builds the models with random weights before the clocks start.
Measured are the CPU seconds of the process (all threads) and the peak of its resident memory above that at the start.
One model is the first that the process converts, and another the second. ONNX Runtime then runs both files in turn on
one thread. The figures are medians over the rounds, and over 20 runs for the latency.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from clocks import child, measured, record

MODELS = ("resnet50", "bert", "vit", "llama", "transformer")
BEFORE = {"resnet50": "bert", "bert": "resnet50", "vit": "resnet50", "llama": "resnet50", "transformer": "resnet50"}
"""The model that a process converts first when another one is measured as its second."""


def build(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a model in eval mode and its inputs: ResNet-50, BERT-base, ViT-Large (24 blocks), a Llama of 16 layers, or
    an encoder of 12 layers.
    """
    import torch

    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.support.timm_helper import create, declare_torchvision_operators

    torch.manual_seed(0)
    if name == "resnet50":
        return create("resnet50"), (torch.randn(2, 3, 224, 224),)
    if name == "vit":
        declare_torchvision_operators()
        import timm

        return timm.create_model("vit_large_patch16_224").eval(), (torch.randn(2, 3, 224, 224),)
    if name == "bert":
        declare_torchvision_operators()
        from transformers import BertConfig, BertModel

        words = torch.randint(0, 30522, (2, 128))
        return BertModel(BertConfig()).eval(), (words, torch.ones_like(words))
    if name == "llama":
        declare_torchvision_operators()
        from transformers import LlamaConfig, LlamaForCausalLM

        sizes = {"hidden_size": 512, "intermediate_size": 1376, "num_attention_heads": 8, "num_hidden_layers": 16}
        module = LlamaForCausalLM(LlamaConfig(**sizes, use_cache=False)).eval()
        return module, (torch.randint(0, 32000, (2, 32)),)
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
    return torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval(), (torch.randn(2, 128, 768),)


def measure(who: str, model: str, folder: str) -> dict[str, float]:
    """Convert once in this process, after another model; if `folder` is given, there is no other model and the file
    stays in `folder`.

    Returns CPU seconds, MiB of peak memory beyond the start, MiB of weights, and the number of nodes.
    """
    import onnx
    import torch

    names = (model,) if folder else (BEFORE[model], model)
    built = [build(name) for name in names]
    with torch.no_grad():
        for module, inputs in built:
            module(*inputs)
    with tempfile.TemporaryDirectory() as temporary:
        for name, (module, inputs) in zip(names, built, strict=True):
            path = Path(folder or temporary) / f"{who}-{name}.onnx"
            weights = sum(p.numel() * p.element_size() for p in module.parameters()) / 2**20
            with measured() as found:
                convert_one(who, module, inputs, path)
            nodes = len(onnx.load(path, load_external_data=False).graph.node)
    return {**found, "weights": weights, "nodes": nodes}


def convert_one(who: str, module: Any, inputs: tuple[Any, ...], path: Path) -> None:
    """Write the module as ONNX with a dynamic batch."""
    import torch

    if who == "ours":
        import convert

        convert.convert(module, "onnx", path, inputs=list(inputs), verify=False)
    else:
        batch = torch.export.Dim("batch", min=1)
        shapes = tuple({0: batch} for _ in inputs)
        torch.onnx.export(
            module, inputs, str(path), dynamo=True, dynamic_shapes=shapes, external_data=False, verbose=False
        )


def latency(model: str, files: dict[str, str]) -> dict[str, float]:
    """Return median milliseconds of one run at batch size 1 by ONNX Runtime on one thread, the files in turn."""
    import onnxruntime

    inputs = [x[:1].numpy() for x in build(model)[1]]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = {who: onnxruntime.InferenceSession(file, options) for who, file in files.items()}
    times: dict[str, list[float]] = {who: [] for who in files}
    for turn in range(23):
        for who, session in sessions.items():
            feeds = {x.name: array for x, array in zip(session.get_inputs(), inputs, strict=True)}
            start = time.process_time()
            session.run(None, feeds)
            if turn > 2:
                times[who].append(1000 * (time.process_time() - start))
    return {who: statistics.median(found) for who, found in times.items()}


def table(model: str, rounds: int) -> None:
    """Measure one model and print its rows."""
    rows: dict[str, list[dict[str, float]]] = {"theirs": [], "ours": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for who, found in rows.items():
                row = child(__file__, "--one", who, model, folder)
                row["second"] = child(__file__, "--one", who, model, "")["seconds"]
                found.append(row)
        times = child(__file__, "--latency", model, *(f"{who}={folder}/{who}-{model}.onnx" for who in rows))
    median = {w: {k: statistics.median(r[k] for r in found) for k in found[0]} for w, found in rows.items()}
    for who, row in median.items():
        row["latency"] = times[who]
    ours, theirs = median["ours"], median["theirs"]
    ratio = {key: ours[key] / theirs[key] for key in ours}
    for key, measure, unit in (
        ("seconds", "CPU time of PyTorch → ONNX", "s"),
        ("second", "CPU time of the second PyTorch → ONNX of a process", "s"),
        ("memory", "peak memory of PyTorch → ONNX", "MiB"),
        ("latency", "CPU time of a run of the ONNX file", "ms"),
    ):
        record(model, measure, unit, ours[key], theirs[key], "torch.onnx")
    for who, row in (*median.items(), ("ratio", ratio)):
        digits = 2 if who == "ratio" else 0
        print(
            f"{model:<12} {who:<7} {row['seconds']:8.2f} {row['second']:8.2f} {row['memory']:9.{digits or 1}f} "
            f"{row['nodes']:6.{digits}f} {row['latency']:8.2f}",
            flush=True,
        )
    print(f"{model:<12} weights {ours['weights']:8.1f} MiB")


def main() -> None:
    """Run every pair `rounds` times and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--one", nargs=3, metavar=("WHO", "MODEL", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--latency", nargs="+", metavar="MODEL_OR_FILE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(*args.one)))
    elif args.latency:
        os.environ["OMP_NUM_THREADS"] = "1"
        model, *files = args.latency
        print(json.dumps(latency(model, dict(pair.split("=", 1) for pair in files))))
    else:
        print(f"{'model':<12} {'who':<7} {'CPU s':>8} {'second':>8} {'peak MiB':>9} {'nodes':>6} {'run ms':>8}")
        for model in args.models:
            table(model, args.rounds)


if __name__ == "__main__":
    main()
