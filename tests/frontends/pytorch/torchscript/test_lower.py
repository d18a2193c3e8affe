"""TorchScript programs, traced and scripted: run by TorchScript itself and, converted, by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from convert.frontends.pytorch.runner import runner
from convert.frontends.pytorch.torchscript.inputs import recorded_inputs
from torch import nn

from convert.errors import UsageError
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.support.torchscript_tools import FIXTURES, agree, converted, kinds, scripted

# -- the fixtures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mnist_cnn_traced.pt", "mnist_cnn_scripted.pt"])
def test_fixture(name: str) -> None:
    path = FIXTURES / name
    module = torch.jit.load(path)
    report = Report("test")
    model = converted(module, report=report, recorded=recorded_inputs(path))
    assert [(v.name, str(v.shape)) for v in model.graph.inputs] == [("input", "[batch,1,28,28]")]
    assert [v.name for v in model.graph.outputs] == ["output"]
    assert model.metadata_props["convert.dims"] == '{"batch": [1, null]}'
    assert {n for n in model.graph.initializers if not n.startswith("const")} == set(module.state_dict())
    assert bool(report.notes) == ("scripted" in name)
    agree(module, model, *((torch.rand(batch, 1, 28, 28),) for batch in (1, 2, 5)))


def test_weights_are_not_copied() -> None:
    module = torch.jit.load(FIXTURES / "mnist_cnn_scripted.pt")
    model = converted(module, "input:float32[batch,1,28,28]")
    weight = model.graph.initializers["fc1.weight"].const_value.numpy()
    assert weight.ctypes.data == module.fc1.weight.data_ptr()


def test_recorded_inputs_of_the_traced_fixture() -> None:
    assert [str(i) for i in recorded_inputs(FIXTURES / "mnist_cnn_traced.pt")] == ["float32[2,1,28,28]"]
    assert recorded_inputs(FIXTURES / "mnist_cnn_scripted.pt") == ()


def test_a_batch_that_the_trace_built_in_stays() -> None:
    def f(x):
        return x.reshape(2, 12) @ torch.ones(12, 3)

    class Module(nn.Module):
        def forward(self, x):
            return f(x)

    traced = torch.jit.trace(Module(), torch.rand(2, 3, 4))
    report = Report("test")
    model = converted(traced, report=report)
    assert str(model.graph.inputs[0].shape) == "[2,3,4]"
    assert any("batch is 2" in note for note in report.notes)
    agree(traced, model, (torch.rand(2, 3, 4),))


def test_frozen_archive_keeps_its_names() -> None:
    module = torch.jit.freeze(
        torch.jit.script(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()), optimize_numerics=False
    )
    model = converted(module, "input:float32[batch,3]")
    assert {"0.weight", "0.bias"} <= set(model.graph.initializers)
    agree(module, model, (torch.rand(5, 3),))


def test_the_constants_of_a_frozen_module_are_widened_too(tmp_path: Path) -> None:
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
    module = torch.jit.freeze(torch.jit.script(layers))
    module.save(str(tmp_path / "frozen.pt"))
    x = torch.rand(2, 3, 5, 5)
    want = layers.double()(x.double()).detach().numpy()
    for source in (
        Source("torchscript", tmp_path / "frozen.pt"),
        Source("torchscript-object", model=module),
    ):
        (got,) = runner.run(source, [{"input": x.numpy()}], precision="float64", options=Options())
        np.testing.assert_allclose(got["output"], want, rtol=1e-6, atol=1e-7)  # freezing folds in float32
        assert got["output"].dtype == np.float64
    assert module(x).dtype == torch.float32


# -- numbers, containers, structure ------------------------------------------------------------------------------------


class Training(nn.Module):
    """A branch on a constant: dropout and batch statistics are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.norm.running_mean.uniform_()
        self.scale = 3
        self.mode = "up"

    def forward(self, x):
        if self.training:
            x = F.dropout(x)
        if self.mode == "up" and self.scale > 2:
            x = self.norm(x) * self.scale
        elif self.mode == "down":
            x = x / self.scale
        else:
            raise ValueError("no such mode")
        return F.leaky_relu(x, 0.2)


class Nested(nn.Module):
    """Submodules in lists, methods, helpers, and a dict of results."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())])
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})

    @torch.jit.export
    def twice(self, x):
        return x * 2

    def forward(self, x):
        outputs: dict[str, torch.Tensor] = {}
        for layer in self.layers:
            x = self.twice(layer(x))
        for name, head in self.heads.items():
            outputs[name] = head(x)
        return outputs


class Containers(nn.Module):
    """Lists and tuples that are built, read, sliced and unpacked."""

    def forward(self, x, y):
        parts: list[torch.Tensor] = []
        for i in range(3):
            parts.append(x * i)
        parts[1] = y
        parts.insert(0, x - y)
        first, rest = parts[0], parts[1:]
        pair: tuple[torch.Tensor, tuple[torch.Tensor, int]] = (first, (rest[-1], len(rest)))
        a, (b, n) = pair
        for u, v in zip(parts, rest):  # noqa: B905  (TorchScript's zip takes no strict)
            a = a + u * v
        for i, u in enumerate(rest):
            b = b + u * i
        return torch.cat(parts, dim=1), (a, b), n, parts.pop() + torch.stack(rest).sum(0)


class Sizes(nn.Module):
    """Arithmetic on sizes that are known at run time only."""

    def forward(self, x):
        n, c, h, w = x.size()
        pad = (8 - h % 8) % 8
        x = F.pad(x, [0, pad, 0, pad])
        half = h // 2
        x = x[:, :, half:, : max(half, 2)]
        flat = x.reshape(n, c, -1).permute(0, 2, 1)
        return (
            flat.view(n, -1, c // 2, 2),
            float(h) / float(w),
            n * c,
            int(w / 2),
            -(-h // 3),
            h == w,
            (h - 20) // 3,
            (h - 20) % 3,
        )


class Optionals(nn.Module):
    def forward(self, x, mask: torch.Tensor | None = None, scale: float = 2.0, names: list[str] | None = None):
        if mask is not None:
            x = x * mask
        if names is None:
            names = ["a", "b"]
        return x * scale * len(names)


class Dynamic(nn.Module):
    """A branch on data, which writes on both sides or on one."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        y = x + 1
        extra: list[torch.Tensor] = [x]
        kept = y[0]
        if x.sum() > 0:
            y = self.a(y)
            n = 1
            extra[0] = x * 2
        else:
            y[0] = 7.0
            y = self.b(y) - kept
            n = x.size(0)
        if bool(x.max() > 10):
            y.zero_()
        return y, n, extra[0], kept


class Returns(nn.Module):
    """Early returns become conditions with values that are never read."""

    def forward(self, x):
        if x.sum() > 100:
            return x, 0
        for i in range(4):
            x = x * 2
            if x.max() > 6:
                return x - 1, i
        return x, -1


POSITIVE, NEGATIVE = torch.rand(4, 3), -torch.rand(2, 3)

STRAIGHT = [
    (Training(), ["x:float32[batch,3,h,w]"], [(torch.rand(2, 3, 4, 5),), (torch.rand(1, 3, 2, 2),)]),
    (Nested(), ["x:float32[batch,4]"], [(torch.rand(2, 4),), (torch.rand(5, 4),)]),
    (
        Containers(),
        ["x:float32[batch,4]", "y:float32[batch,4]"],
        [(torch.rand(n, 4), torch.rand(n, 4)) for n in (2, 3)],
    ),
    (Sizes(), ["x:float32[n,4,h,w]"], [(torch.rand(n, 4, h, w),) for n, h, w in ((1, 8, 8), (2, 13, 9), (3, 22, 6))]),
    (Optionals(), ["x:float32[batch]"], [(torch.rand(3),)]),
    (Optionals(), ["x:float32[batch]", "mask:float32[batch]"], [(torch.rand(3), torch.rand(3))]),
    (Dynamic(), ["x:float32[batch,3]"], [(POSITIVE,), (NEGATIVE,), (POSITIVE * 30,)]),
    (Returns(), ["x:float32[batch,3]"], [(POSITIVE,), (NEGATIVE,), (POSITIVE * 5,), (POSITIVE * 100,)]),
]


@pytest.mark.parametrize(
    ("module", "inputs", "calls"), STRAIGHT, ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else ""
)
def test_program(module: nn.Module, inputs: list[str], calls: list[tuple[Any, ...]]) -> None:
    program = scripted(module)
    agree(program, converted(program, *inputs), *calls)


def test_branch_on_a_constant_leaves_no_if() -> None:
    model = converted(scripted(Training()), "x:float32[batch,3,h,w]")
    assert "If" not in kinds(model)


def test_branch_on_data_becomes_if() -> None:
    model = converted(scripted(Dynamic()), "x:float32[batch,3]")
    assert kinds(model).count("If") == 2


# -- networks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["trace", "script"])
def test_transformer_layer(way: str) -> None:
    module = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        x = torch.rand(2, 5, 8)
        program = torch.jit.trace(module, x) if way == "trace" else scripted(module)
        model = converted(program, "src:float32[batch,5,8]")
        agree(program, model, (torch.rand(3, 5, 8),))
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_undescribed_inputs() -> None:
    with pytest.raises(UsageError, match="x, y"):
        converted(scripted(Containers()))
    with pytest.raises(UsageError, match="no input 'z'"):
        converted(scripted(Containers()), "z:float32[2,4]")
