"""Measure how long the search for the first differing node of a deep network takes.

    python tests/benchmarks/localize.py [--nodes 1000] [--rows 128]

A PyTorch network of residual blocks is converted to ONNX. A defect is planted halfway: once in the file, like a defect
of a backend, and once in the rule that reads one layer, like a defect of a frontend. The latter is searched in a .pt2
file, which runs in a process of its own, and in a module in memory, which is captured first. Printed are the nodes of
the graph, the time of one forward in PyTorch, wall and CPU seconds (all processes) of the search alone, and the node
that was named. The exit code is 1 if that is the wrong one.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import torch
from clocks import record
from convert.frontends.pytorch import ops  # noqa: F401  (fills the table)
from convert.frontends.pytorch.rules import torch_op
from onnx import numpy_helper
from torch import nn

from convert import api, plugin
from convert.outcome.report import Report
from convert.outcome.verdict import Divergence
from convert.parity.inputs import feeds as inputs
from convert.parity.locate.places import locate, locate_source
from convert.processes.run_here import Limits
from convert.request.naming import Names
from convert.request.options import Options, parse_input

WIDTH = 256


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.linear(x)) * 0.25


def main() -> None:
    """Print both searches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=128, help="rows of the input: they set how long a forward takes")
    args = parser.parse_args()
    torch.manual_seed(0)
    blocks = args.nodes // 4
    module = nn.Sequential(*(Block() for _ in range(blocks))).eval()
    options = Options(inputs=(parse_input(f"input:float32[{args.rows},{WIDTH}]"),))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.pt2"
        example = torch.randn(args.rows, WIDTH)
        torch.export.save(torch.export.export(module, (example,)), path)
        source = api.open_source(path)
        print(f"one forward in PyTorch: {_forward(module, example) * 1000:.0f} ms ({torch.get_num_threads()} threads)")
        right = _backend(source, options, blocks, Path(folder))
        right &= _frontend("frontend of a .pt2", source, options, blocks)
        right &= _frontend("frontend of a module", api.open_source(module), options, blocks)
    sys.exit(not right)


def _forward(module: nn.Module, example: torch.Tensor) -> float:
    times = []
    with torch.no_grad():
        for _ in range(5):
            start = time.perf_counter()
            module(example)
            times.append(time.perf_counter() - start)
    return min(times)


def _read(source: Any, options: Options) -> Any:
    return plugin.frontend_for(source).read(source, options, Report("localize"))


def _backend(source: Any, options: Options, blocks: int, folder: Path) -> bool:
    graph = _read(source, options)
    feed = inputs.generate_feeds(graph, 1)[0]
    plugin.backend_for("onnx").write(graph.clone(), folder / "net.onnx", "onnx", Options(), Report("localize"))
    model = onnx.load(folder / "net.onnx")
    weights = [t for t in model.graph.initializer if list(t.dims) == [WIDTH, WIDTH]]
    tensor = weights[blocks // 2]
    array = numpy_helper.to_array(tensor).copy()
    array[0, 0] += 0.5
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    onnx.save(model, folder / "net.onnx")
    target = api.open_source(folder / "net.onnx")
    user = next(n for n in model.graph.node if tensor.name in n.input)
    wanted = next(n for n in graph.graph if tensor.name in [str(v.name) for v in n.inputs if v is not None])
    found = _timed(
        f"backend, {len(graph.graph)} nodes, defect at {user.name}",
        lambda: locate(graph, target, feed, Options(), Names()),
    )
    return isinstance(found, Divergence) and found.node == wanted.name


def _frontend(what: str, source: Any, options: Options, blocks: int) -> bool:
    calls = 0
    entry = torch_op.entries["tanh"]

    def wrong(g: Any, x: Any) -> Any:
        nonlocal calls
        calls += 1
        return g.Softsign(x) if calls == blocks // 2 else g.Tanh(x)

    torch_op.entries["tanh"] = replace(entry, rule=wrong)
    try:
        graph = _read(source, options)
    finally:
        torch_op.entries["tanh"] = entry
    feed = inputs.generate_feeds(graph, 1)[0]
    found = _timed(
        f"{what}, {len(graph.graph)} nodes, defect in block {blocks // 2 - 1}",
        lambda: locate_source(graph, source, feed, 1.0, options, Limits()),
    )
    return isinstance(found, Divergence) and found.module == str(blocks // 2 - 1)


def _timed(what: str, search: Callable[[], Divergence | str]) -> Divergence | str:
    start, before = time.perf_counter(), _cpu()
    found = search()
    wall, spent = time.perf_counter() - start, _cpu() - before
    record(what, "CPU time of finding the first divergent node", "s", spent)
    print(f"{what}: {wall:.1f} s, {spent:.1f} CPU s: {found}", flush=True)
    return found


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = os.times()
    return own.user + own.system + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main()
