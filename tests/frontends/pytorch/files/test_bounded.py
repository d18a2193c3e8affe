"""PyTorch programs that would keep their reader busy forever."""

from __future__ import annotations

import ast
import zipfile
from pathlib import Path

import pytest
import torch
from convert.frontends.pytorch.files.expressions import TooLarge, check_cost
from convert.frontends.pytorch.torchscript.inputs import Input, check_runs

from convert import api, limits
from convert.errors import ResourceLimit
from convert.processes import sandbox

SYMBOL = "Symbol('s77', positive=True, integer=True)"


def Int(value: int) -> str:
    return f"Integer({value})"


@pytest.mark.parametrize(
    "text",
    [
        f"Pow({Int(10)}, Pow({Int(10)}, {Int(10)}))",
        f"Mul({Int(6)}, {SYMBOL}, Pow({Int(7)}, Pow({Int(9)}, {Int(9)})))",
        f"Pow(Add({SYMBOL}, {Int(1)}), {Int(100_000)})",
        f"Pow(Pow(Pow(s0, {Int(60)}), {Int(60)}), {Int(60)})",
        f"Pow({Int(10)}, Mul({Int(10**10)}, s0, Pow(s0, {Int(-1)})))",
        "Mul(" + ", ".join(f"Add(a{i}, b{i})" for i in range(60)) + ")",
        "9**9**9",
        "1 << (1 << 40)",
        f"LShift({Int(1)}, {Int(1 << 40)})",
        "'a' * 10**11",
        f"exp({Int(100_000)})",
        "sqrt(Float(2, precision=10000000000))",
    ],
)
def test_sizes_that_take_for_ever(text: str) -> None:
    with pytest.raises(TooLarge):
        check_cost(ast.parse(text, mode="eval"))


@pytest.mark.parametrize(
    "text",
    [
        "s0",
        "int_oo",
        SYMBOL,
        f"Mul({Int(6)}, {SYMBOL})",
        f"Add(FloorDiv(Add({SYMBOL}, {Int(-1)}), {Int(2)}), {Int(1)})",
        f"Pow({SYMBOL}, {Int(2)})",
        f"Pow({Int(2)}, {SYMBOL})",
        f"Pow({SYMBOL}, Rational({1}, {2}))",
        f"Eq(Mod({SYMBOL}, {Int(4)}), {Int(0)})",
        Int(2**63 - 1),
        "Float(2.0, precision=53)",
        "-s0 + 9223372036854775807",
    ],
)
def test_sizes_that_programs_have(text: str) -> None:
    check_cost(ast.parse(text, mode="eval"))


class _Flat(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1) + 1


def test_a_program_with_such_a_size(tmp_path: Path) -> None:
    dims = ({0: torch.export.Dim("b", min=2, max=64)},)
    torch.export.save(torch.export.export(_Flat(), (torch.zeros(4, 6),), dynamic_shapes=dims), tmp_path / "m.pt2")
    with zipfile.ZipFile(tmp_path / "m.pt2") as old, zipfile.ZipFile(tmp_path / "bad.pt2", "w") as new:
        for name in old.namelist():
            text = old.read(name)
            if name.endswith("model.json"):
                assert SYMBOL.encode() in text
                text = text.replace(f'"{SYMBOL}"'.encode(), f'"Pow({Int(9)}, Pow({Int(9)}, {Int(9)}))"'.encode())
            new.writestr(name, text)
    with pytest.raises(ResourceLimit, match="takes too long to compute"):
        api.inspect(tmp_path / "bad.pt2")


class _List(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = [1]
        for _ in range(12):
            a = a + a
        return x + len(a)


class _Text(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = "a"
        for _ in range(12):
            a = a + a
        return x + len(a)


class _Repeated(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + len([1, 2] * 4096)


@pytest.mark.parametrize("module", [_List, _Text, _Repeated])
def test_lists_that_grow_while_a_program_is_read(
    module: type[torch.nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = torch.jit.script(module())
    report = api.convert(scripted, "onnx", "unused.onnx", inputs="x:float32[2,3]", dry_run=True)
    assert report.operators
    monkeypatch.setattr(limits, "TORCHSCRIPT_LIST_ITEMS", 1000)
    with pytest.raises(ResourceLimit, match=r"is more than the 1,000 that are taken"):
        api.convert(scripted, "onnx", "unused.onnx", inputs="x:float32[2,3]", dry_run=True)


class Grows(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        numbers = [0]
        while len(numbers) > 0:
            numbers = numbers + numbers
        return x


def test_a_program_that_grows_is_ended_by_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_has_own_process", [True])
    monkeypatch.setattr(limits, "TORCHSCRIPT_RUN_BYTES", 200 << 20)
    with pytest.raises(ResourceLimit, match=r"more than 0.2 GB of memory on an example") as caught:
        check_runs(torch.jit.script(Grows()), [Input("x", torch.float32, (2,), (2,))], {})
    assert "--memory" in caught.value.hint


class Repeats(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1).expand(1 << 14, 1 << 14), requires_grad=False)

    def forward(self, x: torch.Tensor):
        return x + (self.weight + 1).sum()


def test_a_weight_that_repeats_one_number_allows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_has_own_process", [True])
    monkeypatch.setattr(limits, "TORCHSCRIPT_RUN_BYTES", 200 << 20)
    with pytest.raises(ResourceLimit, match=r"more than 0.2 GB of memory on an example"):
        check_runs(torch.jit.script(Repeats()), [Input("x", torch.float32, (2,), (2,))], {})
