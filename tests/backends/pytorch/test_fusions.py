"""Programs are written for speed without a change of results or gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper

import convert
from tests.backends.pytorch.test_backend import model_of

WIDE = np.random.default_rng(0).normal(size=(4, 4, 3, 3)).astype(np.float32)
ONES = {n: np.linspace(0.5, 2, 4).astype(np.float32) for n in ("scale", "shift", "mean", "var")}


def node(operator: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(operator, inputs.split(), [output], **attributes)


CONV = node("Conv", "x w", "c", pads=[1, 1, 1, 1])
CASES: dict[str, tuple[list[Any], list[str], list[str]]] = {
    "block": (
        [CONV, node("BatchNormalization", "c scale shift mean var", "b"), node("Relu", "b", "r"),
         node("Conv", "r w", "d", pads=[1, 1, 1, 1]), node("Add", "x d", "a"), node("Relu", "a", "y")],
        ["y"],
        ["conv2d.default", "batch_norm.default", "relu_.default", "conv2d.default", "add_.Tensor", "relu_.default"],
    ),
    "swish": ([CONV, node("Sigmoid", "c", "s"), node("Mul", "s c", "y")], ["y"], ["conv2d.default", "silu_.default"]),
    "a gate that is an output": (
        [node("Sigmoid", "x", "s"), node("Mul", "x s", "y")], ["y", "s"], ["sigmoid.default", "mul.Tensor"],
    ),
    "another gate": (
        [CONV, node("Sigmoid", "c", "s"), node("Mul", "x s", "y")], ["y"],
        ["conv2d.default", "sigmoid.default", "mul.Tensor"],
    ),
    "read twice": (
        [CONV, node("Relu", "c", "r"), node("Sub", "r c", "y")], ["y"],
        ["conv2d.default", "relu.default", "sub.Tensor"],
    ),
    "an output too": ([CONV, node("Relu", "c", "y")], ["y", "c"], ["conv2d.default", "relu.default"]),
    "the caller's": ([node("Relu", "x", "r"), node("Add", "r x", "y")], ["y"], ["relu.default", "add.Tensor"]),
    "doubled": ([CONV, node("Add", "c c", "y")], ["y"], ["conv2d.default", "add.Tensor"]),
    "smaller than the sum": (
        [CONV, node("GlobalAveragePool", "c", "p"), node("Conv", "p one", "q"), node("Add", "q x", "y")], ["y"],
        ["conv2d.default", "mean.dim", "conv2d.default", "add.Tensor"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_over_what(name: str, tmp_path: Path) -> None:
    nodes, outputs, wanted = CASES[name]
    weights = {"w": WIDE, "one": WIDE[:, :, :1, :1], **ONES}
    read = {n for step in nodes for n in step.input}
    model = model_of(nodes, {"x": ["n", 4, 5, 5]}, outputs, {k: v for k, v in weights.items() if k in read})
    convert.convert(model, "torch", tmp_path / "m.pt2", verify=False)
    program = torch.export.load(tmp_path / "m.pt2")
    calls = [str(n.target).removeprefix("aten.") for n in program.graph.nodes if n.op == "call_function"]
    assert calls == wanted
    x = np.random.default_rng(1).normal(size=(2, 4, 5, 5)).astype(np.float32)
    onnx.save(model, tmp_path / "m.onnx")
    expected = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(outputs, {"x": x})
    given = torch.from_numpy(x.copy()).requires_grad_()
    found = program.module()(given)
    for name, y in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found[name].detach().numpy(), y, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(given.detach().numpy(), x)
    sum(y.square().sum() for y in found.values()).backward()
    step = torch.zeros_like(given)
    step[0, 1, 2, 3] = 1e-2
    with torch.no_grad():
        ends = [sum(y.double().square().sum() for y in program.module()(given + s).values()) for s in (step, -step)]
    assert given.grad is not None
    assert float(given.grad[0, 1, 2, 3]) == pytest.approx(float(ends[0] - ends[1]) / 2e-2, rel=0.05, abs=0.05)


def test_a_program_says_nothing_of_a_device(tmp_path: Path) -> None:
    """torch.export asserts dtype and device of every cast tensor; here the tensor has the dtype already."""
    nodes = [CONV, node("BatchNormalization", "c scale shift mean var", "y")]
    model = model_of(nodes, {"x": ["n", 4, 5, 5]}, ["y"], {"w": WIDE, **ONES})
    convert.convert(model, "torch", tmp_path / "m.pt2", verify=False)
    program = torch.export.load(tmp_path / "m.pt2")
    assert not [n for n in program.graph.nodes if "assert" in str(n.target) or str(n.target) == "aten.to.dtype"]
