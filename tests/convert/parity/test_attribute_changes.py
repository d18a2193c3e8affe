"""Epsilons and axes of source and target are compared, because every format keeps those of a normalization."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import convert
from convert.files.sniff import sniff
from convert.graph import Graph
from convert.outcome.report import Report
from convert.outcome.verdict import INCONCLUSIVE
from convert.parity.pairing.attribute_changes import changed_attributes
from convert.processes.model_reading import read_model
from convert.request.options import Options
from convert.request.source import Source
from tests.support.marks import slow_but

ONES = np.linspace(0.5, 1.5, 6, dtype=np.float32)
SUFFIXES = {"onnx": ".onnx", "tf": ".savedmodel", "tf-frozen": ".pb", "tflite": ".tflite", "keras": ".keras",
            "torch": ".pt2", "caffe2": ".c2"}  # fmt: skip

Build = Callable[[Graph, ir.Value, float], ir.Value]

NORMALIZATIONS: dict[str, Build] = {
    "batch": lambda g, x, e: g.BatchNormalization(x, ONES, ONES, ONES, ONES, epsilon=e),
    "instance": lambda g, x, e: g.InstanceNormalization(x, ONES, ONES, epsilon=e),
    "layer": lambda g, x, e: g.LayerNormalization(x, ONES, axis=-1, epsilon=e),
    "group": lambda g, x, e: g.GroupNormalization(x, ONES, ONES, num_groups=2, epsilon=e),
    "rms": lambda g, x, e: g.RMSNormalization(x, ONES, axis=-1, epsilon=e),
    "written out": lambda g, x, e: g.Div(
        x, g.Sqrt(g.Add(g.ReduceMean(g.Mul(x, x), [3], keepdims=1), np.float32(e)))
    ),
}  # fmt: skip


def network(build: Build, epsilon: float) -> ir.Model:
    """Return a normalization between two convolutions of one pixel, so that it is not next to an input or output."""
    g, weight = Graph(opset=23), np.eye(6, dtype=np.float32)[..., None, None] + np.float32(0.1)
    x = g.input("x", ir.DataType.FLOAT, ["n", 6, 4, 6])
    g.output(g.Softmax(build(g, g.Tanh(g.Conv(x, weight)), epsilon), axis=1), "y")
    return g.model()


def read(path: Path) -> ir.Model:
    return read_model(Source(sniff(path), path), Options(), Report("test"))


@pytest.mark.not_core
@pytest.mark.parametrize("to", slow_but(SUFFIXES, "onnx", "torch"))
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_every_format_keeps_the_epsilon(tmp_path: Path, name: str, to: str) -> None:
    source, target = tmp_path / "a.onnx", tmp_path / f"b{SUFFIXES[to]}"
    ir.save(network(NORMALIZATIONS[name], 3e-4), source)
    convert.convert(source, to, target, verify=False)
    assert changed_attributes(read(source), read(target)) == []


@pytest.mark.parametrize("name", ["layer", "instance", "group", "rms"])
def test_another_epsilon_or_axis_is_seen(tmp_path: Path, name: str) -> None:
    left = network(NORMALIZATIONS[name], 3e-4)
    found = changed_attributes(left, network(NORMALIZATIONS[name], 1e-7))
    assert len(found) == 1
    assert "epsilon 0.0003" in found[0]
    right = network(NORMALIZATIONS[name], 3e-4)
    next(node for node in right.graph if node.op_type == "Softmax").attributes["axis"] = ir.AttrInt64("axis", -1)
    assert changed_attributes(left, right) == ["axes (1,) of Softmax in 1 of 1 nodes"]


@pytest.mark.parametrize("name", ["layer", "rms"])
def test_an_epsilon_is_found_where_the_other_side_writes_it_out(name: str) -> None:
    def written_out(epsilon: float) -> ir.Model:
        return network(NORMALIZATIONS["written out"], epsilon)

    left = network(NORMALIZATIONS[name], 3e-4)
    assert changed_attributes(left, written_out(3e-4)) == []
    assert len(changed_attributes(left, written_out(1e-7))) == 1


def test_the_verdict_names_it(tmp_path: Path) -> None:
    """The variance of every sampled input is far above both epsilons."""
    for name, epsilon in (("a", 1e-14), ("b", 1e-12)):
        ir.save(network(NORMALIZATIONS["layer"], epsilon), tmp_path / f"{name}.onnx")
    verdict = convert.verify(tmp_path / "a.onnx", tmp_path / "b.onnx").verdict
    assert verdict is not None
    assert verdict.status == INCONCLUSIVE
    assert "epsilon 1e-14 of LayerNormalization" in verdict.reason
