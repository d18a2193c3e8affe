"""Modules and TorchScript with inputs of one fixed value: constants of the graph, which verification uses too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import convert
from convert.errors import Unsupported, UsageError
from tests.support.pytorch_tools import noise


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, rate: int, scale: float = 2.0, mode: str = "plain") -> torch.Tensor:
        y = self.layer(x) * rate + scale
        return y.relu() if mode == "fast" else y


class Choosy(nn.Module):
    """A module with keyword-only parameters, a mask that is None, and a number that is annotated as a tensor."""

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None, shift: torch.Tensor, *, size: Any = None, flag: bool = False
    ) -> torch.Tensor:
        y = nn.functional.interpolate(x, size=size) + shift.sum()
        return -y if flag and mask is None else y


CASES: list[tuple[str, Any, dict[str, Any], Any, dict[str, Any]]] = [
    ("by name", Mixed(), {}, {"rate": 3, "mode": "fast"}, {"rate": 3, "mode": "fast"}),
    ("texts", Mixed(), {}, ["rate=3", "scale=1"], {"rate": 3, "scale": 1.0}),
    ("script", torch.jit.script(Mixed()), {}, {"rate": 3, "mode": "fast"}, {"rate": 3, "mode": "fast"}),
    ("script, texts", torch.jit.script(Mixed()), {}, ["rate=3", "scale=1"], {"rate": 3, "scale": 1.0}),
    (
        "keywords",
        Choosy(),
        {},
        ["mask=none", "shift=0.5", "size=[4,6]", "flag=true"],
        {"mask": None, "shift": torch.tensor(0.5), "size": [4, 6], "flag": True},
    ),
    ("traced", Mixed(), {"trace": True}, {"rate": 3}, {"rate": 3}),
]


@pytest.mark.parametrize(("name", "module", "options", "fixed", "given"), CASES, ids=[c[0] for c in CASES])
def test_a_value_is_a_constant_of_the_graph(
    name: str, module: Any, options: dict[str, Any], fixed: Any, given: dict[str, Any], tmp_path: Path
) -> None:
    x = noise(2, 3, 4, 3)
    inputs = {"x": x, **fixed} if isinstance(fixed, dict) else ["x:float32[n,3,4,3]", *fixed]
    report = convert.convert(module, "onnx", tmp_path / "m.onnx", inputs=inputs, verify=False, **options)
    assert any(note.code == "fixed-input" for note in report.notes)
    session = onnxruntime.InferenceSession(onnx.load(tmp_path / "m.onnx").SerializeToString())
    assert [i.name for i in session.get_inputs()] == ["x"]
    expected = module(x=torch.from_numpy(x), **given).detach()
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", [Mixed(), pytest.param(torch.jit.script(Mixed()), marks=pytest.mark.long)], ids=["module", "script"]
)
def test_verify_knows_the_values(module: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    convert.convert(module, "onnx", path, inputs={"x": noise(2, 3), "rate": 3}, verify=False)
    assert convert.verify(module, path, inputs=["x:float32[batch,3]", "rate=3"]).verdict.status == "PASS"
    assert convert.verify(module, path, inputs=["x:float32[batch,3]", "rate=4"]).verdict.status == "FAIL"


@pytest.mark.parametrize("module", [Mixed(), torch.jit.script(Mixed())], ids=["module", "script"])
def test_a_name_that_forward_lacks_is_refused(module: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no input 'rates'"):
        convert.convert(module, "onnx", tmp_path / "m.onnx", inputs={"x": noise(2, 3), "rates": 3})


def test_a_captured_program_keeps_its_own(tmp_path: Path) -> None:
    program = torch.export.export(Mixed(), (torch.ones(2, 3), 3))
    with pytest.raises(UsageError, match="captured with 3 for rate"):
        convert.convert(program, "onnx", tmp_path / "m.onnx", inputs={"rate": 4})
    assert convert.convert(program, "onnx", tmp_path / "m.onnx", inputs={"rate": 3}, verify=False).inputs[0].name == "x"


class Repeated(nn.Module):
    """Repeats as often as an input says, which is a number."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        for _ in range(int(n)):
            x = next(iter([x * 0.5 + 1]))  # TorchScript does not compile this
        return x


def test_a_refusal_names_the_number_that_decides_and_a_constant_of_it_settles_it() -> None:
    x = torch.randn(2, 3)
    with pytest.raises(Unsupported) as error:
        convert.to_onnx(Repeated(), {"x": x, "n": torch.tensor(3)}, verify=False)
    assert "if n decides, --input n=3 makes a constant of it" in error.value.hint
    proto = convert.to_onnx(Repeated(), {"x": x, "n": 3}, verify=False)
    (found,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(found, Repeated()(x, torch.tensor(3)).numpy(), rtol=1e-6)


@pytest.mark.parametrize("value", ["=fast", None, [1, [2]], 2**70])
def test_a_value_that_is_no_tensor(value: object) -> None:
    class Halved(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / 2

    program = torch.jit.script(Halved())
    with pytest.raises(UsageError, match="the input x is a tensor, which"):
        convert.convert(program, "onnx", "unused.onnx", inputs={"x": value}, verify=False)
