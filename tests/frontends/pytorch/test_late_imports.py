"""The imports of a conversion, and the use of PyTorch by a program after one.

A command imports neither networkx nor FSDP until something uses them. In a program, every module is imported
completely. The `.pt2` comes first, in a process without a temporary folder of PyTorch's: the confined thread that loads
a file cannot create one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.marks import slow_but

PROGRAM = Path(__file__).parents[3] / "fixtures" / "mnist_cnn.pt2"
CONVERT = """
import json, sys
from pathlib import Path

import torch
import convert
from torch import nn

folder, when, file = sys.argv[1:]
if when == "command":
    from convert.processes.interpreter import claim_process

    claim_process()
if when == "early":
    import networkx
    import torch.distributed.fsdp
place = Path(folder, when + ".onnx")
convert.convert(file, "onnx", place, verify=False)
for _ in range(2 if when == "verified" else 1):
    convert.convert(nn.ReLU(), "onnx", place, inputs="float32[n,4]", verify=when == "verified", force=True)
found = {"imported": [name in sys.modules for name in ("networkx", "torch.distributed.fsdp._flat_param")]}


def stand_ins():
    kinds = {n: type(m).__module__ for n, m in list(sys.modules.items())}
    loaders = {n: type(getattr(getattr(m, "__spec__", None), "loader", None)).__module__
               for n, m in list(sys.modules.items()) if not n.startswith("convert")}
    finders = [type(f).__module__ for f in sys.meta_path]
    return sorted({n for places in (kinds, loaders) for n, k in places.items() if k.startswith("convert.")}) + [
        f for f in finders if f.startswith("convert.")]
"""
USE_KNAPSACK = """
from torch._functorch import partitioners

nodes = ["a", "b", "c"]
provider = partitioners.GraphInfoProvider(
    nodes, [("a", "b"), ("b", "c"), ("a", "c")], ["a", "c"], {n: 1.0 for n in nodes}, {n: 2.0 for n in nodes}
)
evaluator = partitioners.KnapsackEvaluator(provider)
found["graph"] = type(provider.full_joint_nx_graph).__module__
found["edges"] = sorted(provider.recomputable_node_only_graph_with_larger_graph_context.edges)
found["peak"] = evaluator.evaluate_knapsack_output([0], [1], account_for_backward_pass=True)["peak_memory"]
from torch._dynamo.variables.functions import _fsdp_param_group
from torch.distributed.fsdp import FSDPModule, fully_shard

found["spread"] = [_fsdp_param_group.FSDPParamGroup.__module__, FSDPModule.__module__, fully_shard.__module__]
"""
GO_ON = """
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint

found["stand-ins"] = stand_ins()
net, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), torch.randn(3, 4)


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = net

    def forward(self, x):
        return self.inner(x) + 1


def same(function, *args):
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(function, backend="eager")(*args), function(*args))


def train():
    before = [p.detach().clone() for p in net.parameters()]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    torch._dynamo.reset()
    torch.compile(Wrapped(), backend="aot_eager")(x).square().mean().backward()
    optimizer.step()
    assert all(not torch.equal(a, b) for a, b in zip(before, net.parameters()))


def export():
    program = torch.export.export(Wrapped().eval(), (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.testing.assert_close(program.module()(x[:2]), Wrapped()(x[:2]))


def attend(q):
    return flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + (i - j))


uses = {
    "Sequential": lambda: same(net, x),
    "Linear": lambda: same(nn.Linear(4, 4), x),
    "Wrapped": lambda: same(Wrapped(), x),
    "encoder layer": lambda: same(nn.TransformerEncoderLayer(4, 2).eval(), x),
    "checkpoint": lambda: same(lambda x: checkpoint(net, x, use_reentrant=False), x),
    "function": lambda: same(lambda x: x.mean() + 1, x),
    "training": train,
    "export": export,
    "flex_attention": lambda: same(attend, torch.randn(1, 2, 8, 4)),
}
found["failed"] = {}
for name, use in uses.items():
    try:
        use()
    except Exception as error:
        found["failed"][name] = f"{type(error).__name__}: {error}"[:300]
"""
TELL = "\nprint(json.dumps(found))\n"


def run(script: str, when: str, folder: Path) -> dict[str, Any]:
    """Run a script in a process of its own and return its results."""
    (folder / f"{when}.tmp").mkdir()
    environment = os.environ | {"TMPDIR": str(folder / f"{when}.tmp")}
    environment.pop("TORCHINDUCTOR_CACHE_DIR", None)  # PyTorch sets this when it is imported
    command = [sys.executable, "-c", script + TELL, str(folder), when, str(PROGRAM)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_a_command_imports_them_when_they_are_used(tmp_path: Path) -> None:
    found = {when: run(CONVERT + USE_KNAPSACK, when, tmp_path) for when in ("early", "command")}
    assert [found[when].pop("imported") for when in found] == [[True, True], [False, False]]
    assert found["early"] == found["command"]
    assert found["command"]["graph"] == "networkx.classes.digraph"
    assert (tmp_path / "early.onnx").read_bytes() == (tmp_path / "command.onnx").read_bytes()


@pytest.mark.parametrize("when", slow_but(["program", "verified", "command"], "program"))
def test_pytorch_works_as_before_after_a_conversion(when: str, tmp_path: Path) -> None:
    """Compile, train, export and attend: a program finds no module that is empty or that another loader created."""
    found = run(CONVERT + GO_ON, when, tmp_path)
    assert found["failed"] == {}
    assert (found["stand-ins"] == []) == (when != "command")
