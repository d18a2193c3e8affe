"""Measure the cost of a verification beside the runs that it needs: source and target on the same inputs.

    python tests/benchmarks/verification.py [--rounds 1] [--models mnist lstm bert-tiny …] [--to onnx tf]

Each network is converted by the command without verification and with it. The difference in CPU seconds of all
processes is the cost of the verification. The runs alone are measured in a process that has imported PyTorch, or the
runtime of the target: it loads the model and runs it once on every set of inputs that the verification compared
(`--save-inputs`), with the command's own variables for threads.

`imports` is the part of the cost that imports take: the modules of the verification, and the target's runtime as far as
the conversion has not imported it. TensorFlow is imported a second time, in a process with its other set of kernels.
The ratios are given with the imports and without them:

- `of runs`: the cost divided by the runs alone (the target for large models is 1.5)
- `+ 1 s`: the cost divided by the runs alone plus one second (the target for small models is 1)

`runs` counts the runs of a model on one set of inputs, in the source, the target and the shared graph. `float64` is the
time of the source in float64 divided by its time in float32, both loaded and run as the verification does it. The
figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from clocks import child, measured, record

from convert.processes.interpreter import set_thread_variables

TIMM = {
    "mobilenetv2": "mobilenetv2_100",
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "efficientnet-b0": "efficientnet_b0",
}
"""Convolutional networks by their names in timm."""
MODELS = ("mnist", "lstm", "bert-tiny", *TIMM, "bert-base")
SUFFIX = {"onnx": ".onnx", "tf": ".savedmodel"}
KINDS = {"onnx": "onnx", "tf": "savedmodel"}
INPUTS = {
    "mnist": ["float32[batch,1,28,28]"],
    "lstm": ["float32[batch,16,128]"],
    **{name: ["float32[batch,3,224,224]"] for name in TIMM},
}
ROOT = Path(__file__).resolve().parents[2]


def build(name: str) -> Any:
    """Return the module in eval mode."""
    import torch

    sys.path.insert(0, str(ROOT))
    from tests.support.timm_helper import create, declare_torchvision_operators

    torch.manual_seed(0)
    if name == "mnist":
        return torch.load(ROOT / "fixtures" / "mnist_cnn.pt", weights_only=False)
    if name == "lstm":
        return _tagger()
    if name in TIMM:
        return create(TIMM[name])
    declare_torchvision_operators()
    from transformers import BertConfig, BertModel

    tiny = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
    return BertModel(BertConfig(**(tiny if name == "bert-tiny" else {}))).eval()


def _tagger() -> Any:
    import torch

    class Tagger(torch.nn.Module):
        """Two layers of LSTM in both directions, and a score for each step."""

        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(128, 256, 2, batch_first=True, bidirectional=True)
            self.score = torch.nn.Linear(512, 20)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.score(self.lstm(x)[0])

    return Tagger().eval()


def make(name: str, path: Path) -> None:
    """Write the network as a `.pt2` with dynamic dims, which is loaded without the code that made it."""
    import torch

    module = build(name)
    if name in INPUTS:
        dims = [4 if d == "batch" else int(d) for d in INPUTS[name][0][8:-1].split(",")]
        inputs: tuple[torch.Tensor, ...] = (torch.randn(dims),)
    else:
        words = torch.randint(0, 30522, (2, 128))
        inputs = (words, torch.ones_like(words))
    shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)
    with torch.no_grad():
        torch.export.save(torch.export.export(module, inputs, dynamic_shapes=shapes), path)


def run_alone(path: Path, feeds: Path) -> dict[str, float]:
    """Load a model and run it once on each set of inputs, in the runtime that its users run it with."""
    sets = _sets(feeds)
    if path.name.startswith("bert"):
        import transformers.modeling_outputs  # noqa: F401  (registers the class that the program returns)
    load = {".pt2": _with_torch, ".onnx": _with_onnxruntime, ".savedmodel": _with_tensorflow}[path.suffix]()
    with measured() as found:
        run = load(path)
        for arrays in sets:
            run(arrays)
    return {**found, "sets": len(sets)}


def _sets(feeds: Path) -> list[dict[str, Any]]:
    import numpy as np

    sets: dict[int, dict[str, Any]] = {}
    with np.load(feeds) as arrays:
        for key in arrays:
            name, _, number = key.partition("@")
            sets.setdefault(int(number or 0), {})[name] = arrays[key]
    return [sets[i] for i in sorted(sets)]


def _with_torch() -> Any:
    import torch
    import torch.export._trace

    def load(path: Path) -> Any:
        program = torch.export.load(path)
        module = program.module()
        names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]

        def run(arrays: dict[str, Any]) -> None:
            with torch.no_grad():
                module(*(torch.from_numpy(arrays[name]) for name in names))

        return run

    return load


def _with_onnxruntime() -> Any:
    import onnxruntime

    def load(path: Path) -> Any:
        session = onnxruntime.InferenceSession(str(path))
        return lambda arrays: session.run(None, arrays)

    return load


def _with_tensorflow() -> Any:
    import tensorflow as tf

    def load(path: Path) -> Any:
        loaded = tf.saved_model.load(str(path))
        signature = loaded.signatures["serving_default"]
        return lambda arrays: (loaded, signature(**{name: tf.constant(a) for name, a in arrays.items()}))

    return load


def import_seconds(target: str, setting: int) -> float:
    """Return CPU seconds of the imports of a verification in the process that runs the target under one setting.

    The first setting runs in a fork of the process that converts, and imports what the conversion has not imported.
    """
    from convert.processes import fork_server
    from convert.processes.interpreter import claim_process, paused_garbage_collection
    from convert.processes.process import settings_of
    from convert.request.source import Source

    claim_process()
    import convert.api  # noqa: F401

    found = settings_of(Source(KINDS[target]))
    if setting >= len(found):
        return 0.0
    os.environ.update(found[setting])
    with paused_garbage_collection():
        if setting:
            fork_server.preload([], [])
        else:
            fork_server.preload_packages(["torch-export"], [target])
        start = time.process_time()
        fork_server.preload([KINDS[target]], [])
        return time.process_time() - start


def both_precisions(path: Path, feeds: Path) -> dict[str, float]:
    """Return CPU seconds of the source in float32 and in float64, as the verification runs it."""
    from convert.frontends.pytorch.runner.run import run

    from convert.request.options import Options
    from convert.request.source import Source

    sets, seconds = _sets(feeds), {}
    for precision in ("float32", "float32", "float64"):  # the first run pays for late imports
        with measured() as found:
            run(Source("torch-export", path), sets, precision, Options())
        seconds[precision] = found["seconds"]
    return seconds


def count_runs(path: Path, target: str, out: Path) -> dict[str, int]:
    """Convert and verify in this process, and return the runs of a model on one set of inputs, by what runs."""
    from convert import convert
    from convert.parity import verify
    from convert.processes import process

    counts = {"source": 0, "target": 0, "graph": 0}
    start, run_graph = process.RunningChild.__init__, verify.run_all

    def count(who: str, feeds: Any, precisions: Any, deployed: Any = ()) -> None:
        counts[who] += sum(len(feeds) - (len(deployed) if each == "float64" else 0) for each in precisions)

    def started(child: Any, source: Any, feeds: Any, precisions: Any, *rest: Any) -> None:
        count("source" if source.path == path else "target", feeds, precisions, rest[-1])
        start(child, source, feeds, precisions, *rest)

    def run(runner: Any, source: Any, feeds: Any, precisions: Any, *rest: Any) -> Any:
        count("graph", feeds, precisions)
        return run_graph(runner, source, feeds, precisions, *rest)

    process.RunningChild.__init__, verify.run_all = started, run  # type: ignore[method-assign, assignment]
    convert(str(path), target, str(out), force=True)
    return counts


def convert(path: Path, out: Path, *words: str) -> float:
    """Return CPU seconds of the command and its descendants."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "convert", str(path), "-o", str(out), "--force", "-q", *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, env=environment, cwd=path.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-500:]}{done.stderr[-1500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(name: str, target: str, rounds: int, folder: Path) -> None:
    """Measure one network and print its row."""
    source, feeds, out = folder / f"{name}.pt2", folder / f"{name}.npz", folder / f"{name}{SUFFIX[target]}"
    child(__file__, "--make", name, str(source))
    taken: dict[str, list[float]] = {
        what: [] for what in ("plain", "verified", "source", "target", "float32", "float64")
    }
    sets = 0.0
    for _ in range(rounds):
        taken["plain"].append(convert(source, out, "--no-verify"))
        feeds.unlink(missing_ok=True)
        taken["verified"].append(convert(source, out, "--save-inputs", str(feeds)))
        for what, path in (("source", source), ("target", out)):
            found = child(__file__, "--alone", str(path), str(feeds))
            taken[what].append(found["seconds"])
            sets = found["sets"]
        for precision, seconds in child(__file__, "--precisions", str(source), str(feeds)).items():
            taken[precision].append(seconds)
    runs = child(__file__, "--count", str(source), target, str(out))
    imports = sum(child(__file__, "--imports", target, str(setting))["seconds"] for setting in (0, 1))
    cost = {what: statistics.median(found) for what, found in taken.items()}
    verification, alone = cost["verified"] - cost["plain"], cost["source"] + cost["target"]
    case = f"{name} → {target}, {sets:.0f} sets"
    rest = verification - imports
    record(case, "CPU time of a verification", "s", verification, alone + 1, "the runs alone and a second")
    record(case, "CPU time of a verification without imports", "s", rest, alone + 1, "the runs alone and a second")
    record(case, "runs of a model in a verification", "runs", sum(runs.values()), 10, "the limit")
    record(case, "CPU time of the source in float64", "s", cost["float64"], cost["float32"], "in float32")
    ratios = [verification / alone, rest / alone, verification / (alone + 1), rest / (alone + 1)]
    figures = [cost["plain"], cost["verified"], verification, imports, cost["source"], cost["target"], *ratios]
    print(
        f"{name:<15} {target:<4} {sets:4.0f} "
        + " ".join(f"{figure:>8.2f}" for figure in (*figures, cost["float64"] / cost["float32"]))
        + "   " + " + ".join(f"{number} {who}" for who, number in runs.items()),
        flush=True,
    )  # fmt: skip


def main() -> None:
    """Print a row for each network and target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--to", nargs="+", choices=SUFFIX, default=["onnx"])
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--count", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--precisions", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--imports", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    set_thread_variables()
    if args.make:
        make(args.make[0], Path(args.make[1]))
        print("{}")
    elif args.count:
        print(json.dumps(count_runs(Path(args.count[0]), args.count[1], Path(args.count[2]))))
    elif args.alone:
        print(json.dumps(run_alone(Path(args.alone[0]), Path(args.alone[1]))))
    elif args.imports:
        print(json.dumps({"seconds": import_seconds(args.imports[0], int(args.imports[1]))}))
    elif args.precisions:
        print(json.dumps(both_precisions(Path(args.precisions[0]), Path(args.precisions[1]))))
    else:
        print("CPU seconds, and ratios with all imports | without them", flush=True)
        columns = ("plain", "verified", "verifies", "imports", "source", "target")
        columns += ("of runs", "| rest", "+ 1 s", "| rest", "float64")
        print(f"{'network':<15} {'to':<4} sets " + " ".join(f"{column:>8}" for column in columns) + "   runs")
        with tempfile.TemporaryDirectory() as folder:
            for name in args.models:
                for target in args.to:
                    row(name, target, args.rounds, Path(folder))


if __name__ == "__main__":
    main()
