"""A conversion imports neither networkx nor FSDP, and what of PyTorch wants them finds them where they are used.

The `.pt2` comes first, in a process that has no temporary folder of PyTorch's yet: a file is loaded in a thread that
can make none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "fixtures" / "mnist_cnn.pt2"
SCRIPT = """
import json, sys
from pathlib import Path

import torch
import convert

if sys.argv[2] == "early":
    import networkx
    import torch.distributed.fsdp
place = Path(sys.argv[1], sys.argv[2] + ".onnx")
convert.convert(sys.argv[3], "onnx", place, verify=False)
convert.convert(torch.nn.ReLU(), "onnx", place, inputs="float32[n,4]", verify=False, force=True)
found = {"imported": [name in sys.modules for name in ("networkx", "torch.distributed.fsdp._flat_param")]}

from torch._functorch import partitioners

nodes = ["a", "b", "c"]
provider = partitioners.GraphInfoProvider(
    nodes, [("a", "b"), ("b", "c"), ("a", "c")], ["a", "c"], {n: 1.0 for n in nodes}, {n: 2.0 for n in nodes}
)
evaluator = partitioners.KnapsackEvaluator(provider)
found["graph"] = type(provider.full_joint_nx_graph).__module__
found["edges"] = sorted(provider.recomputable_node_only_graph_with_larger_graph_context.edges)
found["peak"] = evaluator.evaluate_knapsack_output([0], [1], account_for_backward_pass=True)["peak_memory"]
found["compiled"] = torch.compile(lambda x: x.mean() + 1, backend="eager")(torch.ones(2)).item()
from torch._dynamo.variables.functions import _fsdp_param_group
from torch.distributed.fsdp import FSDPModule, fully_shard

found["spread"] = [_fsdp_param_group.FSDPParamGroup.__module__, FSDPModule.__module__, fully_shard.__module__]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_they_come_when_they_are_used(tmp_path: Path) -> None:
    found = {}
    for when in ("early", "late"):
        (tmp_path / f"{when}.tmp").mkdir()
        environment = os.environ | {"TMPDIR": str(tmp_path / f"{when}.tmp")}
        environment.pop("TORCHINDUCTOR_CACHE_DIR", None)  # which PyTorch has set where it was imported
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), when, str(PROGRAM)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert not done.returncode, done.stderr
        found[when] = json.loads(done.stdout.splitlines()[-1])
    assert [found[when].pop("imported") for when in ("early", "late")] == [[True, True], [False, False]]
    assert found["early"] == found["late"]
    assert found["late"]["graph"] == "networkx.classes.digraph"
    assert (tmp_path / "early.onnx").read_bytes() == (tmp_path / "late.onnx").read_bytes()
