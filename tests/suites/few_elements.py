"""Count false alarms and misses on outputs of one or two numbers, over many seeds.

    python tests/suites/few_elements.py [--seeds 200] [--only NETWORK]

Eight small PyTorch networks are converted to ONNX. Each pair is judged on one set of random inputs and on three, with
and without an estimate of the rounding error. It is judged twice: as it is, where any verdict but PASS is a false
alarm, and with ONNX Runtime's output multiplied by 1 + 3e-5, where PASS is a miss. `near` says whether the target is
near the source, `verdict` is the verdict.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import nn

import convert
from convert import api, plugin
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, PASS
from convert.parity.compare.outputs import compare
from convert.parity.evidence import RunOutputs
from convert.parity.explain.rounding import Estimates
from convert.parity.inputs.feeds import Feed
from convert.parity.judge import Evidence, judge
from convert.parity.method import VerifyMethod
from convert.request.options import Options, parse_input

DEFECT = 3e-5


class Function(nn.Module):
    """Modules followed by a function of their output."""

    def __init__(self, function: Callable[..., torch.Tensor], *modules: nn.Module) -> None:
        super().__init__()
        self.function, self.body = function, nn.Sequential(*modules)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.body(x))


class Words(nn.Module):
    """Embeddings, a GRU, one score."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.gru, self.out = nn.Embedding(50, 16), nn.GRU(16, 24, batch_first=True), nn.Linear(24, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.gru(self.table(x))[0].mean(1))


def _mlp() -> list[nn.Module]:
    return [nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 1)]


def _images() -> list[nn.Module]:
    down = [nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()]
    return [*down, nn.Flatten(), nn.Linear(32 * 64, 1), nn.Sigmoid()]


def _same(x: torch.Tensor) -> torch.Tensor:
    return x


NETWORKS: dict[str, tuple[Callable[[], nn.Module], list[int]]] = {
    "mlp": (lambda: Function(_same, *_mlp()), [1, 64]),
    "cnn": (lambda: Function(_same, *_images()), [1, 3, 32, 32]),
    "dot": (lambda: Function(_same, nn.Linear(2000, 1, bias=False)), [1, 2000]),
    "third moment": (lambda: Function(lambda x: ((x - x.mean(1, keepdim=True)) ** 3).mean(1)), [1, 500]),
    "loss": (lambda: Function(lambda x: x.log_softmax(-1)[:, 0].mean(), nn.Linear(64, 50)), [4, 64]),
    "margin": (lambda: Function(lambda x: (3 * x).logsumexp(1) - 3 * x.amax(1), nn.Linear(64, 300)), [1, 64]),
    "two classes": (lambda: Function(lambda x: (5 * x).log_softmax(-1), *_mlp(), nn.Linear(1, 2)), [1, 64]),
    "words": (Words, [1, 12]),
}


def prepared(name: str) -> tuple[Any, Callable[[float], Callable[[Sequence[Feed]], RunOutputs]]]:
    """Return the graph, and by defect a function that runs all sides on input sets."""
    torch.manual_seed(0)
    module, spec = NETWORKS[name][0]().eval(), f"x:{'int64' if name == 'words' else 'float32'}{NETWORKS[name][1]}"
    source = api.open_source(module)
    graph = plugin.frontend_for(source).read(source, Options(inputs=(parse_input(spec),)), Report("few"))
    with tempfile.TemporaryDirectory() as folder:
        convert.convert(module, "onnx", Path(folder) / "net.onnx", inputs=spec, verify=False)
        session = onnxruntime.InferenceSession(Path(folder) / "net.onnx", providers=["CPUExecutionProvider"])
    (output,) = [o.name for o in session.get_outputs()]
    double = copy.deepcopy(module).double()

    def runner(defect: float) -> Callable[[Sequence[Feed]], RunOutputs]:
        def run(feeds: Sequence[Feed]) -> RunOutputs:
            arrays = [f.arrays["x"] for f in feeds]
            with torch.no_grad():
                plain = [{output: module(torch.from_numpy(a)).numpy()} for a in arrays]
                wide = [torch.from_numpy(a).double() if a.dtype.kind == "f" else torch.from_numpy(a) for a in arrays]
                exact = [{output: double(x).numpy()} for x in wide]
            target = [{output: session.run(None, {"x": a})[0] * np.float32(1 + defect)} for a in arrays]
            return RunOutputs({"float32": plain, "float64": exact}, target, exact)

        return run

    return graph, runner


def feeds_of(name: str, seed: int, count: int) -> list[Feed]:
    """Return seeded inputs, normal and uniform in turn."""
    found = []
    for place in range(count):
        rng, shape = np.random.default_rng([seed, place]), NETWORKS[name][1]
        draw = rng.uniform(size=shape) if place % 2 else rng.standard_normal(shape)
        words = rng.integers(0, 50, shape)
        found.append(Feed(f"{place}", {"x": words if name == "words" else draw.astype(np.float32)}))
    return found


def accepted(name: str, seeds: int, sets: int, defect: float) -> tuple[int, int]:
    """Return how often the target is near the source, and how often the verdict is PASS."""
    graph, runner = prepared(name)
    run, near, passed = runner(defect), 0, 0
    for seed in range(seeds):
        feeds = feeds_of(name, seed, sets)
        runs = run(feeds)
        output = str(graph.graph.outputs[0].name)
        columns = [[next(iter(o.values())) for o in runs.source[p]] for p in ("float64", "float32")]
        near += compare("", *columns, [o[output] for o in runs.target]).status != FAIL
        verdict = judge(Evidence(graph, feeds, runs, VerifyMethod(), Estimates(graph, feeds)))
        passed += verdict.status == PASS
    return near, passed


def main() -> None:
    """Print a line for each network and their sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--only", choices=NETWORKS, action="append")
    args = parser.parse_args()
    total = np.zeros(8, int)
    heads = [f"{what}, {sets}" for what in ("false alarms", "misses") for sets in ("1 set", "3 sets")]
    print(f"{'near → verdict':<14}" + "".join(f"{h:>22}" for h in heads))
    for name in args.only or NETWORKS:
        row: list[int] = []
        for defect in (0.0, DEFECT):
            for sets in (1, 3):
                found = accepted(name, args.seeds, sets, defect)
                row += found if defect else (args.seeds - n for n in found)
        total += row
        _print(name, row)
    _print("all", total.tolist())


def _print(name: str, row: Sequence[int]) -> None:
    cells = [f"{row[i]} → {row[i + 1]}" for i in range(0, 8, 2)]
    print(f"{name:<14}" + "".join(f"{c:>22}" for c in cells), flush=True)


if __name__ == "__main__":
    main()
