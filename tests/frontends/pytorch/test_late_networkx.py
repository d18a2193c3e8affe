"""A conversion does not import networkx, and what of PyTorch wants it finds it where it is used.

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
place = Path(sys.argv[1], sys.argv[2] + ".onnx")
convert.convert(sys.argv[3], "onnx", place, verify=False)
convert.convert(torch.nn.ReLU(), "onnx", place, inputs="float32[n,4]", verify=False, force=True)
found = {"imported": "networkx" in sys.modules}

from torch._functorch import partitioners

nodes = ["a", "b", "c"]
provider = partitioners.GraphInfoProvider(
    nodes, [("a", "b"), ("b", "c"), ("a", "c")], ["a", "c"], {n: 1.0 for n in nodes}, {n: 2.0 for n in nodes}
)
evaluator = partitioners.KnapsackEvaluator(provider)
found["graph"] = type(provider.full_joint_nx_graph).__module__
found["edges"] = sorted(provider.recomputable_node_only_graph_with_larger_graph_context.edges)
found["peak"] = evaluator.evaluate_knapsack_output([0], [1], account_for_backward_pass=True)["peak_memory"]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_networkx_comes_when_it_is_used(tmp_path: Path) -> None:
    found = {}
    for when in ("early", "late"):
        (tmp_path / f"{when}.tmp").mkdir()
        environment = os.environ | {"TMPDIR": str(tmp_path / f"{when}.tmp")}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), when, str(PROGRAM)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert not done.returncode, done.stderr
        found[when] = json.loads(done.stdout.splitlines()[-1])
    assert [found[when].pop("imported") for when in ("early", "late")] == [True, False]
    assert found["early"] == found["late"]
    assert found["late"]["graph"] == "networkx.classes.digraph"
    assert (tmp_path / "early.onnx").read_bytes() == (tmp_path / "late.onnx").read_bytes()
