"""Where a graph differs from its source: defects planted in frontends' rules, found by operator and source line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from convert.frontends.pytorch import ops  # noqa: F401  (fills the table)
from convert.frontends.pytorch.rules import torch_op
from torch import nn

import convert
from convert.outcome.verdict import FAIL, Divergence, Verdict


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GELU())
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = x + self.block(x).transpose(2, 3)
        x = nn.functional.softmax(x, dim=1)
        return self.head(x.mean((2, 3)))


def spoiled(monkeypatch: pytest.MonkeyPatch, table: Any, operator: str, rule: Callable[..., Any]) -> None:
    entry = table.entries[operator]
    monkeypatch.setitem(table.entries, operator, replace(entry, rule=rule))


def line_of(text: str) -> str:
    """Return the end "file:line" for the line of this file that contains `text`."""
    lines = Path(__file__).read_text().splitlines()
    return f"{Path(__file__).name}:{next(i for i, line in enumerate(lines, 1) if text in line)}"


def judged(tmp_path: Path, module: nn.Module | Path) -> Verdict:
    spec = "x:float32[batch,3,8,8]"
    convert.convert(module, "onnx", tmp_path / "net.onnx", inputs=spec, verify=False)
    verdict = convert.verify(module, tmp_path / "net.onnx", inputs=spec).verdict
    assert verdict is not None
    return verdict


WRONG: dict[str, tuple[str, Callable[..., Any], str, str]] = {
    "another function": (
        "gelu", lambda g, x, approximate="none": g.Gelu(x, approximate="tanh"), "block.1", ""),
    "another axis": (
        "softmax", lambda g, x, dim, dtype=None: g.Softmax(x, axis=2), "", "x = nn.functional.softmax(x, dim=1)"),
    "elements in another order": (
        "transpose", lambda g, x, dim0, dim1: g.Identity(x), "", "x = x + self.block(x).transpose(2, 3)"),
    "a constant too much": ("relu", lambda g, x: g.Add(g.Relu(x), g.const(np.float32(1e-4))), "stem.2", ""),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_rule_is_named_with_module_and_line(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    operator, rule, path, line = WRONG[kind]
    torch.manual_seed(0)
    spoiled(monkeypatch, torch_op, operator, rule)
    verdict = judged(tmp_path, Net().eval())
    assert (verdict.status, verdict.at_fault) == (FAIL, "frontend"), verdict.reason
    found = verdict.divergence
    assert isinstance(found, Divergence), found
    assert found.operator.partition(".")[0] == operator
    assert found.module == path
    assert line == "" or found.source.endswith(line_of(line))
    assert found.inputs
    assert "rms" in found.output


@pytest.mark.slow
def test_a_wrong_rule_of_tensorflow_is_named_by_its_operator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    from convert.frontends.tensorflow import ops as _  # noqa: F401  (fills the table)
    from convert.frontends.tensorflow.rules import tf_op

    spoiled(monkeypatch, tf_op, "Softplus", lambda g, features: g.Relu(features))
    kernel = tf.constant(np.random.default_rng(0).standard_normal((3, 3, 3, 6)), tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 3], tf.float32, name="x")])
    def forward(x):  # type: ignore[no-untyped-def]
        x = tf.nn.conv2d(x, kernel, 1, "SAME", name="stem")
        x = tf.math.softplus(x, name="middle")
        return tf.reduce_mean(tf.tanh(x), [1, 2])

    convert.convert(forward, "onnx", tmp_path / "net.onnx", verify=False)
    verdict = convert.verify(forward, tmp_path / "net.onnx").verdict
    assert verdict is not None
    assert (verdict.status, verdict.at_fault) == (FAIL, "frontend"), verdict.reason
    assert isinstance(verdict.divergence, Divergence), verdict.divergence
    assert (verdict.divergence.operator, verdict.divergence.node) == ("Softplus", "middle")


@pytest.mark.slow
def test_a_thousand_nodes_take_two_forward_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search takes less than a minute if a pass takes 100 ms: only the number of passes matters, and no node runs
    alone.
    """
    from convert import api, plugin
    from convert.outcome.report import Report
    from convert.parity.inputs.feeds import Feed
    from convert.parity.locate.places import locate_source
    from convert.processes.run_here import Limits
    from convert.reference import executor
    from convert.request.options import Options

    class Deep(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for i in range(200):
                x = x + (torch.tanh if i == 121 else torch.sin)(x * 0.1 + 0.01 * i) * 0.01
            return x

    x = torch.linspace(-1, 1, 6).reshape(2, 3)
    deep = torch.export.export(Deep(), (x,))
    executed, interpreted = executor.Executor._run, torch.fx.Interpreter.run_node
    nodes: list[str] = []
    operators: list[str] = []

    def followed(self: Any, n: Any) -> Any:
        operators.extend([n.name] * (n.op == "call_function"))
        return interpreted(self, n)

    def counted(self: Any, node: Any) -> None:
        nodes.append(str(node.name))
        executed(self, node)

    monkeypatch.setattr(executor.Executor, "_run", counted)
    spoiled(monkeypatch, torch_op, "tanh", lambda g, x: g.Mul(g.Tanh(x), g.const(np.float32(1.001))))
    monkeypatch.setattr(torch.fx.Interpreter, "run_node", followed)
    source, options = api.open_source(deep), Options()
    graph = plugin.frontend_for(source).read(source, options, Report("read"))
    assert len(graph.graph) == 1001
    operators.clear()
    feed = Feed("one", {"x": x.numpy()})
    found = locate_source(graph, source, feed, 1e-5, options, Limits())
    assert isinstance(found, Divergence), found
    assert found.operator.partition(".")[0] == "tanh"
    assert len(nodes) == len(graph.graph)  # each node once
    assert len(operators) == 1000  # each operator once


@pytest.mark.long
def test_torchscript_is_watched_kernel_by_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch.manual_seed(0)
    spoiled(monkeypatch, torch_op, "gelu", lambda g, x, approximate="none": g.Gelu(x, approximate="tanh"))
    scripted = torch.jit.script(Net().eval())
    torch.jit.save(scripted, tmp_path / "net.pt")
    verdict = judged(tmp_path, tmp_path / "net.pt")
    assert (verdict.status, verdict.at_fault) == (FAIL, "frontend"), verdict.reason
    assert isinstance(verdict.divergence, Divergence), verdict.divergence
    assert verdict.divergence.operator == "gelu"
    assert verdict.divergence.module == "block.1"
    assert verdict.divergence.instead.startswith("Gelu")


def test_an_onnx_file_is_followed_in_its_own_runtime(tmp_path: Path) -> None:
    """The ONNX file runs in a child process, in float32. The node of the file that the graph lacks is named."""
    from convert import plugin
    from convert.outcome.report import Report
    from convert.parity.inputs.feeds import Feed
    from convert.parity.locate.places import locate_source
    from convert.processes.run_here import Limits
    from convert.request.options import Options
    from convert.request.source import Source

    torch.manual_seed(0)
    convert.convert(Net().eval(), "onnx", tmp_path / "net.onnx", inputs="x:float32[batch,3,8,8]", verify=False)
    source = Source("onnx", tmp_path / "net.onnx")
    graph = plugin.frontend_for(source).read(source, Options(), Report("read"))
    (node,) = [n for n in graph.graph if n.op_type == "Softmax"]
    node.attributes.add(ir.AttrInt64("axis", 2))
    feed = Feed("one", {"x": np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)})
    found = locate_source(graph, source, feed, 0.1, Options(), Limits())
    assert isinstance(found, Divergence), found
    assert found.operator == "Softmax"
