"""Exported programs whose names, conditions or structures PyTorch would turn into code."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.files.exported_names import findings, is_condition
from convert.frontends.pytorch.files.pt2_archive import read_exported
from torch import nn

from convert import api
from convert.errors import UnsafeInput
from tests.suites.hostile_files.case import members, stored


class Writes(nn.Module):
    """PyTorch makes its writes explicit, and executes the program's conditions on the way."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[:, 0].add_(1)
        return y


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "m.pt2"
    torch.export.save(torch.export.export(Writes(), (torch.ones(2, 3),)), path)
    return path


def changed(original: Path, path: Path, old: str, new: str) -> Path:
    """Return the archive with another text in its program."""
    content = members(original)
    place = next(name for name in content if name.endswith("models/model.json"))
    text = content[place].decode()
    assert old in text
    return stored(path, content | {place: text.replace(old, new).encode()})


def test_conditions_and_names_are_not_executed(original: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    code = f"__import__('os').system('touch {marker}')"
    for old, new in (('"guards_code": []', json.dumps({"guards_code": [f"{code} == 0"]})[1:-1]),
                     ('"x"', json.dumps(f"x={code}"))):  # fmt: skip
        evil = changed(original, tmp_path / "evil.pt2", old, new)
        with pytest.raises(UnsafeInput, match="would have to execute code"):
            api.convert(evil, "onnx", tmp_path / "m.onnx", verify=False)
        assert not marker.exists()
        with contextlib.suppress(SyntaxError):  # PyTorch itself executes both, and fails on the second later
            torch.export.load(evil).module()(torch.ones(2, 3))
        assert marker.exists()
        os.unlink(marker)


@pytest.mark.parametrize(
    "document",
    [
        {"forward_arg_names": ["x=f()"]},
        {"tensor_values": {"x\ny": {}}},
        {"as_tensor": {"name": "lambda"}},
        {"parameter_name": 'a"),f(),("'},
        {"range_constraints": {"s0": {"min_val": "f()"}}},
        {"guards_code": ["L['x'].size()[0] == (lambda: 3)()"]},
        {"guards_code": ["L['x'].__class__ == 3"]},
        {"guards_code": ["L['x\"'].size()[0] == 3"]},
        {"guards_code": ["open('x')"]},
        {"guards_code": ["9**9**9 == 3"]},
        {
            "in_spec": json.dumps(
                [1, {"type": "builtins.dict", "context": json.dumps({"__enum__": True, "fqn": "os:x"})}]
            )
        },
        {"in_spec": json.dumps([1, {"context": json.dumps({"default_factory_module": "os"})}])},
        {"in_spec": json.dumps([1, {"context": json.dumps(["x'])"])}])},
    ],
)
def test_what_could_become_code(document: Any) -> None:
    assert list(findings(document))


class Many(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({"a-b": nn.Linear(4, 4), "x y": nn.BatchNorm1d(4)})

    def forward(self, x: torch.Tensor, *rest: torch.Tensor, options: Any, **more: torch.Tensor) -> Any:
        y = self.parts["x y"](self.parts["a-b"](x))
        if x.shape[0] % 3 == 0:
            y = y + rest[0] * options["k 1"][0]
        return {"out": y, "more": (y.sum(), [more["scale"]])}


def test_what_pytorch_writes_is_taken(tmp_path: Path) -> None:
    x = torch.ones(6, 4)
    given = {"options": {"k 1": [torch.ones(4)]}, "scale": x}
    torch.export.save(torch.export.export(Many().eval(), (x, x), given), tmp_path / "m.pt2")
    assert read_exported(tmp_path / "m.pt2").graph_signature.user_inputs


@pytest.mark.parametrize(
    "text",
    ["(L['x'].size()[0] % 3) == 0", "L['y']['k'].size()[1] > 2*L['x'].size()[1]", "Mod(L['x'].stride()[0], 4) != 0",
     "math.trunc(L['x'].size()[0] / 2.0) <= 8 and not L['x'].storage_offset() == 0"],
)  # fmt: skip
def test_conditions_on_sizes_are_taken(text: str) -> None:
    assert is_condition(text)


def test_layers_of_a_pickle_are_not_called_code(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(3, 3))
    module._modules['a"),exec("x"),("'] = nn.Linear(3, 3)
    torch.save(module, tmp_path / "m.pt")
    with pytest.raises(UnsafeInput, match="has layers or weights called"):
        api.inspect(tmp_path / "m.pt", inputs="x:float32[2,3]")
