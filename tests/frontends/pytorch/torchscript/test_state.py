"""Attributes that a TorchScript module changes: inputs and outputs of the graph, which repeated calls pass on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import convert.api
from convert.errors import Unsupported
from convert.outcome.report import Report
from tests.support.pytorch_tools import noise
from tests.support.torchscript_tools import converted, kinds, scripted, session


class Inner(nn.Module):
    """Replaces its buffer and counts in floats."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("h", torch.zeros(3))
        self.k = 2.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.h = self.h * 0.5 + x[0]
        self.k = self.k + 1.0
        return self.h * self.k


class Counts(nn.Module):
    """Writes in place to a buffer, counts in integers, and has a submodule with its own state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.calls = 0
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += x[0]
        self.calls += 1
        return x + self.seen + self.inner(x) * self.calls


class Branches(nn.Module):
    """Writes depending on data, and once in each step of a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("high", torch.full((3,), -1.0))
        self.register_buffer("table", torch.zeros(4, 3))
        self.resets = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for row in x:
            self.high = torch.maximum(self.high, row)
        if bool(x.sum() > 0):
            self.table[1] = self.high
            self.resets += 1
        return self.table.sum(0) + self.high


class Stream(nn.Module):
    """A recurrent layer that keeps its state, and may be told to reset it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(3, 3)
        self.register_buffer("state", torch.zeros(1, 1, 3))

    def forward(self, x: torch.Tensor, forget: bool) -> torch.Tensor:
        if forget:
            self.state = torch.zeros_like(self.state)
        y, self.state = self.layer(x.unsqueeze(1), self.state)
        return y


class Resets(nn.Module):
    """Assigns to attributes in branches, to another one in each, before anything has read them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("low", torch.full((3,), 2.0))
        self.register_buffer("high", torch.full((3,), 3.0))
        self.resets = 1
        self.kept = 4

    def reset(self) -> None:
        self.low = torch.zeros(3)
        self.resets = 0
        self.kept = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            self.reset()
        else:
            self.high = x[0] * 2
        for row in x:
            if bool(row[0] > 0):
                self.resets = self.resets + 2
        self.low = self.low + x[0]
        return self.low * self.resets + self.high * self.kept


CASES = {
    Counts: ["seen", "calls", "inner_h", "inner_k"],
    Branches: ["high", "table", "resets"],
    Stream: ["state"],
    Resets: ["low", "resets", "kept", "high"],
}


def calls(kind: type[nn.Module]) -> list[tuple[Any, ...]]:
    rows = [torch.from_numpy(noise(n, 3, seed=n) + shift) for n, shift in ((2, 0.0), (1, 1.0), (4, -1.0), (3, 0.5))]
    return [(row, i == 2) for i, row in enumerate(rows)] if kind is Stream else [(row,) for row in rows]


@pytest.mark.parametrize("kind", CASES)
def test_state_is_passed_on_from_call_to_call(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module, report = scripted(kind()), Report("test")
    specs = ["x:float32[n,3]", *(["forget:bool[]"] if kind is Stream else [])]
    model = converted(module, *specs, report=report)
    run = session(model)
    names = [i.name for i in run.get_inputs()]
    assert names[len(specs) :] == CASES[kind]
    assert any(note.code == "state-inputs" for note in report.notes)
    held: dict[str, Any] = {"inner_h": module.inner.h, "inner_k": module.inner.k} if kind is Counts else {}
    held |= {name: getattr(module, name) for name in CASES[kind] if name not in held}
    state = {n: np.array(v.numpy() if isinstance(v, torch.Tensor) else v) for n, v in held.items()}
    for call in calls(kind):
        with torch.no_grad():
            want = module(*call)
        feeds = dict(
            zip(names, [c.numpy() if isinstance(c, torch.Tensor) else np.array(c) for c in call], strict=False)
        )
        got = dict(zip([o.name for o in run.get_outputs()], run.run(None, {**feeds, **state}), strict=True))
        np.testing.assert_allclose(got["output"], want.numpy(), rtol=1e-5, atol=1e-6)
        state = {name: got[f"{name}_next"] for name in CASES[kind]}


def test_branches_and_loops_stay() -> None:
    assert {"If", "Loop"} <= set(kinds(converted(scripted(Branches()), "x:float32[n,3]")))


@pytest.mark.parametrize("form", ["file", "object"])
def test_state_is_verified_and_the_module_left_as_it_was(tmp_path: Path, form: str) -> None:
    module = torch.jit.script(Counts())
    module.save(str(tmp_path / "m.pt"))
    source = module if form == "object" else tmp_path / "m.pt"
    report = convert.api.convert(source, "onnx", tmp_path / "m.onnx", inputs="x:float32[2,3]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert [row.name for row in report.verdict.outputs] == ["output", *(f"{n}_next" for n in CASES[Counts])]
    assert (module.calls, module.inner.k) == (0, 2.5)
    assert not module.seen.any()
    assert not module.inner.h.any()


class Writes(nn.Module):
    """State that has no equivalent in a graph."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.w = way, nn.Parameter(torch.zeros(3))
        self.rows: list[torch.Tensor] = [torch.zeros(3)]
        self.register_buffer("grown", torch.zeros(1, 3))
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.way == "parameter":
            with torch.no_grad():
                self.w += x[0]
        if self.way == "list":
            self.rows.append(x[0])
        if self.way == "grown":
            self.grown = torch.cat([self.grown, x[:1]])
        if self.way == "kept":
            self.last = x[0]
        return x * self.w + self.rows[-1] + self.grown.sum(0)


@pytest.mark.parametrize(("way", "said"), [("parameter", "parameter"), ("list", "rows, a list"), ("grown", "shape")])
def test_state_that_has_no_equivalent(way: str, said: str) -> None:
    with pytest.raises(Unsupported, match=said) as caught:
        converted(scripted(Writes(way)), "x:float32[n,3]")
    assert "buffer" in caught.value.hint


def test_what_forward_only_leaves_behind_is_no_state() -> None:
    report = Report("test")
    model = converted(scripted(Writes("kept")), "x:float32[n,3]", report=report)
    assert [v.name for v in model.graph.inputs] == ["x"]
    assert any(note.code == "unused-state" for note in report.notes)


class Remembers(nn.Module):
    """Its state is None before the first call, which uses the input times `scale` instead."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.fc, self.scale = nn.Linear(4, 4), scale
        self.last = torch.jit.Attribute(None, Optional[torch.Tensor])  # noqa: UP045  (TorchScript reads no other)
        self.first = torch.jit.Attribute(None, Optional[torch.Tensor])  # noqa: UP045

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last, first = self.last, self.first
        if last is None or first is None:
            last, first = x * self.scale, torch.zeros(2, 1)
        last = torch.tanh(self.fc(x) + last + first)
        self.last, self.first = last, last[:, :1]
        return last


def test_zeros_do_for_state_that_is_none_where_the_first_call_is_the_same_with_them(tmp_path: Path) -> None:
    module = torch.jit.script(Remembers(0.0).eval())
    report = convert.api.convert(module, "onnx", tmp_path / "m.onnx", inputs="x:float32[2,4]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert any("last is unset until the first call" in note and "zeros of [2, 4]" in note for note in report.notes)
    assert module.last is None
    run = session(converted(module, "x:float32[2,4]"))
    state = {"last": np.zeros((2, 4), np.float32), "first": np.zeros((2, 1), np.float32)}
    for x in (noise(2, 4), noise(2, 4) * -2):
        got = dict(zip([o.name for o in run.get_outputs()], run.run(None, {"x": x, **state}), strict=True))
        np.testing.assert_allclose(got["output"], module(torch.from_numpy(x)).detach(), rtol=1e-5, atol=1e-6)
        state = {name: got[f"{name}_next"] for name in state}


@pytest.mark.parametrize(("scale", "spec"), [(0.5, "x:float32[2,4]"), (0.0, "x:float32[n,4]")])
def test_state_that_is_none_is_refused_before_the_first_call_and_converted_after_it(scale: float, spec: str) -> None:
    """The first call would differ with zeros as state, or the state has another shape for another length. The call may
    record gradients.
    """
    module = torch.jit.script(Remembers(scale))
    with pytest.raises(Unsupported, match="last is None before forward") as error:
        convert.to_onnx(module, spec, verify=False)
    assert "call the module once" in error.value.hint
    module(torch.zeros(2, 4))
    held = module.last.detach().clone()
    proto = convert.to_onnx(module, "x:float32[2,4]")
    assert [i.name for i in proto.graph.input] == ["x", "last", "first"]
    assert torch.equal(module.last, held)


def test_attributes_that_another_class_assigns_to_are_left_alone() -> None:
    """A quantized convolution assigns to its padding when it is loaded; a pool's padding is a constant."""
    from torch.ao import quantization

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps, self.numbers = quantization.QuantStub(), quantization.DeQuantStub()
            self.conv, self.pool = nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.numbers(self.pool(self.conv(self.steps(x))))

    module = Pooled().eval()
    module.qconfig = quantization.default_qconfig
    module = quantization.prepare(module)
    x = torch.rand(2, 3, 8, 8)
    module(x)
    module = quantization.convert(module)
    proto = convert.api.to_onnx(module, x, verify=False)
    runner = onnxruntime.InferenceSession(proto.SerializeToString())
    (got,) = runner.run(None, {proto.graph.input[0].name: x.numpy()})
    step = float(module.conv.scale)
    assert np.abs(got - module(x).numpy()).max() <= step * 1.01
