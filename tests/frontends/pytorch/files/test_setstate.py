"""TorchScript code that runs while an archive is loaded: without --trust it may restore data, and nothing else."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from convert.frontends.pytorch.files import loader
from convert.frontends.pytorch.files.loader import load
from convert.frontends.pytorch.files.setstate_safety import setstate_findings
from torch import nn

from convert import limits
from convert.errors import BadInput, ConvertError, ResourceLimit, UnsafeInput
from convert.outcome.report import Report
from convert.processes.model_reading import read_model
from convert.processes.sandbox import CALLS, FILES, available_measures
from convert.request.options import Options
from convert.request.source import Source
from tests.support.confined import Hostile, run_trusted
from tests.support.work import at_most_calls

BODIES = {
    "a loop": ("while torch.eq(1, 1):\n      pass", "While"),
    "a round for each": ("for _0 in range(99999999999):\n      pass", "For"),
    "a comprehension": ("_0 = [_1 for _1 in state]", "ListComp"),
    "a large tensor": ("_0 = torch.zeros([99999999999])", "torch.zeros"),
    "a file": ("_0 = torch.save(state, 'x')", "torch.save"),
    "an operator": ("_0 = ops.aten.zeros([9])", "ops.aten.zeros"),
    "a method that loops": ("_0 = (self).again()", "While"),
    "a function that calls itself": ("_0 = __torch__.itself()", "calls itself"),
    "calls of calls of calls": ("_0 = __torch__.f0()", "more than 1000 calls"),
    "calls in calls in calls": ("_0 = __torch__.g0()", "more than 50 deep"),
    "a function from elsewhere": ("_0 = __torch__.unknown(state)", "__torch__.unknown"),
    "what is computed": ("_0 = (state[0])()", "what is computed"),
    "a text that doubles": ("\n    ".join(["_0 = state[1]", *["_0 = torch.add(_0, _0)"] * 5]), "joins more than 4"),
    "a text many times over": ("_0 = torch.format('{}' * 6, *state)\n    _1 = torch.format('{}{}', _0, _0)", "BinOp"),
    "texts that are put together": ("_0 = torch.format('{}{}{}{}{}{}', a, a, a, a, a, a)", "joins more than 4"),
    "an arithmetic loop": ("_0 = 9 ** 9 ** 9", "BinOp"),
    # TorchScript decides what a name refers to: a method may have the name of a function or of a module.
    "a method called torch": ("torch = self\n    _0 = torch.size(3)", "the name torch"),
    "a method called int": ("int = (self).again\n    _0 = int(3)", "the name int"),
    "a method called by a function's name": ("good = (self).again\n    _0 = good()", "calls good"),
    "torch by another name": ("_0 = torch\n    _1 = _0.good([99999999999])", "gives torch another name"),
    "a part of torch": ("_0 = torch.autograd.good([99999999999])", "torch.autograd.good"),
    "a function of torch by another name": ("good = torch.zeros\n    _0 = good([99999999999])", "another name"),
    "a tensor's method of a function's name": ("_0 = (state).repeat([99999999999])", "state.repeat"),
    "a method that a thread calls": ("_0 = fork((self).again)", "calls fork"),
    "a class of a function's name": ("_0 = __torch__.Twofold()", "While"),
    "what an index calls": (
        "_0 = (self)[0]\n  def __getitem__(self, i: int) -> int:\n    while torch.eq(1, 1):\n      pass",
        "__getitem__, that has more",
    ),
}
_MORE = """
def good() -> NoneType:
  pass
def repeat() -> NoneType:
  pass
def fork() -> NoneType:
  pass
def Twofold() -> NoneType:
  pass
class Twofold(Module):
  def __init__(self) -> NoneType:
    while torch.eq(1, 1):
      pass
class More(Module):
  def again(self) -> NoneType:
    while torch.eq(1, 1):
      pass
def itself() -> NoneType:
  _0 = __torch__.itself()
"""
_BOMB = (
    "".join(f"def f{i}() -> NoneType:\n  _0 = __torch__.f{i + 1}()\n  _1 = __torch__.f{i + 1}()\n" for i in range(30))
    + "def f30() -> NoneType:\n  pass\n"
)
_DEEP = "".join(f"def g{i}() -> NoneType:\n  _0 = __torch__.g{i + 1}()\n" for i in range(400))


@pytest.mark.parametrize("case", BODIES)
def test_more_than_data_is_refused(case: str) -> None:
    body, why = BODIES[case]
    code = f"class M(Module):\n  def __setstate__(self, state: Tensor) -> NoneType:\n    {body}{_MORE}{_BOMB}{_DEEP}"
    assert any(why in found for found in setstate_findings([code]))


def test_a_body_that_is_no_python_is_refused() -> None:
    assert list(setstate_findings(["def __setstate__(self, state) -> :"]))
    assert not list(setstate_findings(["def forward(self, x) -> :", "def forward(self, x):\n  while x:\n    pass"]))


def test_what_it_calls_in_a_file_that_is_no_python_is_refused() -> None:
    """After the number 0x1. Python reads a name, and PyTorch the end of a number."""
    state = "class M(Module):\n  def __setstate__(self, state: Tensor) -> NoneType:\n    _0 = (self.w).unpack()\n"
    looping = (
        "class W(Module):\n  def unpack(self) -> NoneType:\n    _0 = 0x1.\n    while torch.eq(1, 1):\n      pass\n"
    )
    assert list(setstate_findings([state])) == []  # methods of packed weights, which are in C++
    (found,) = setstate_findings([state, looping.replace("0x1.", "1")])
    assert "While" in found
    (found,) = setstate_findings([state, looping])
    assert "cannot be looked through" in found


_ONE = "class M(Module):\n  def __setstate__(self, state: Tensor) -> NoneType:\n    self.a = state\n"
_MANY_CALLS = _ONE + "    _0 = __torch__.f()\n" * 900
_LONG = "def f() -> NoneType:\n" + "  _0 = 1\n" * 1000


def test_much_code_is_gone_over_once() -> None:
    """A thousand lines, each called 900 times by ten callers, took minutes: nine million lines."""
    with at_most_calls(12_000_000):
        assert not list(setstate_findings([_MANY_CALLS] * 10 + [_LONG]))
    assert list(setstate_findings([_MANY_CALLS, _LONG + "  while True:\n    pass\n"]))


def test_code_that_has_nothing_to_do_with_it_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TORCHSCRIPT_SETSTATE_BYTES", len(_ONE))
    assert not list(setstate_findings([_ONE, "def forward(self, x):\n  return x\n" * 1000]))
    with pytest.raises(ResourceLimit, match="__setstate__"):
        list(setstate_findings([_MANY_CALLS, _LONG]))


class Recurrent(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


def _static() -> nn.Module:
    quantization = torch.ao.quantization
    layers = [nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3)]
    module = nn.Sequential(quantization.QuantStub(), *layers, quantization.DeQuantStub()).eval()
    module.qconfig = quantization.get_default_qconfig("fbgemm")  # type: ignore[assignment]
    prepared = quantization.prepare(module)
    prepared(torch.randn(1, 1, 8, 8))
    return quantization.convert(prepared)


def _dynamic(layer: nn.Module) -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(nn.Sequential(layer).eval(), {type(layer)}, dtype=torch.qint8)


HONEST: dict[str, Callable[[], nn.Module]] = {
    "static": _static,
    "linear": lambda: _dynamic(nn.Linear(4, 4)),
    "lstm": lambda: Recurrent(_dynamic(nn.LSTM(4, 4))[0]),  # type: ignore[index]
    "gru": lambda: Recurrent(_dynamic(nn.GRU(4, 4))[0]),  # type: ignore[index]
}


@pytest.mark.parametrize("name", HONEST)
def test_quantized_layers_are_loaded(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(HONEST[name]()).save(path)
    load(Source("torchscript", path), Options())


SPELLINGS = {
    "as PyTorch writes it": "    c = __torch__.torch.classes._nnapi.Compilation()\n",
    "with a blank": "    c = __torch__.torch.classes. _nnapi.Compilation()\n",
    "on two lines": "    c = __torch__.torch.classes.\\\n_nnapi.Compilation()\n",
    "in parentheses": "    c = (__torch__.torch).classes._nnapi.Compilation()\n",
    "by another name": "    a = __torch__.torch\n    b = a.classes\n    c = b._nnapi.Compilation()\n",
    "by getattr": '    a = getattr(__torch__, "torch")\n    c = getattr(a, "classes")._nnapi.Compilation()\n',
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_objects_of_other_libraries_are_refused_however_they_are_called(tmp_path: Path, spelling: str) -> None:
    """PyTorch accepts each of them; the class of Android's neural network library loads a library and takes
    addresses.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(nn.Identity()).save(tmp_path / "plain.pt")
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(tmp_path / "plain.pt") as plain, zipfile.ZipFile(path, "w") as archive:
        for entry in plain.infolist():
            content = plain.read(entry)
            if b"def forward(" in content:
                content = re.sub(rb"(\) -> [^\n]*:\n)", lambda found: found[1] + SPELLINGS[spelling].encode(), content)
            archive.writestr(entry.filename, content)
    torch.jit.load(path)
    with pytest.raises(UnsafeInput, match=r"torch\.classes\._nnapi|by a name that is not whole"):
        load(Source("torchscript", path), Options())


@pytest.mark.parametrize(
    ("suffix", "old", "new"),
    [
        (".py", rb"Module\):\n", b"Module):\n  store : __torch__.torch.classes.c10d.Store\n"),
        # PyTorch appends a part if this process has scripted another class of this name before.
        (
            "data.pkl",
            rb"__torch__\.torch\.nn\.modules\.linear(\.___torch_mangle_\d+)?\n",
            b"__torch__.torch.classes.c10d\n",
        ),
    ],
)
def test_objects_of_other_libraries_are_refused(tmp_path: Path, suffix: str, old: bytes, new: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(nn.Linear(2, 2)).save(tmp_path / "plain.pt")
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(tmp_path / "plain.pt") as plain, zipfile.ZipFile(path, "w") as archive:
        for entry in plain.infolist():
            content = plain.read(entry)
            archive.writestr(entry.filename, re.sub(old, new, content) if entry.filename.endswith(suffix) else content)
    with pytest.raises(UnsafeInput, match=r"torch\.classes\.c10d"):
        load(Source("torchscript", path), Options())


# -- an archive that writes while it is loaded --------------------------------------------------------------------


class Saving(nn.Module):
    """Saves a tensor to a file when it is loaded; the file's name is written into the archive's code afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.training = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch.jit.export
    def __getstate__(self) -> tuple[torch.Tensor, bool]:
        return torch.ones(2), self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]) -> None:
        self.training = state[1]
        print(state[0].dim(), "THE PLACE")


def save_hostile(path: Path, canary: Path) -> Hostile:
    plain = path.with_suffix(".plain")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Saving()).save(plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename.endswith(".py"):
                lines = content.decode().splitlines()
                printing = next(i for i, line in enumerate(lines) if "print" in line)
                indent = lines[printing][: len(lines[printing]) - len(lines[printing].lstrip())]
                lines[printing] = f'{indent}ops.aten.save((state)[0], "{canary}")'
                content = "\n".join(lines).encode() + b"\n"
            new.writestr(entry.filename.replace("plain", "archive"), content)
    return Hostile("torchscript", path, "x", (3,))


@pytest.mark.slow
@pytest.mark.skipif(not {FILES, CALLS} <= set(available_measures()), reason="no Landlock or no seccomp here")
@pytest.mark.parametrize("sandbox", [True, pytest.param(False, marks=pytest.mark.long)])
def test_an_archive_that_writes_does_so_without_the_sandbox_only(tmp_path: Path, sandbox: bool) -> None:
    canary = tmp_path / "canary"
    hostile = save_hostile(tmp_path / "m.pt", canary)
    with pytest.raises(UnsafeInput, match="save"):
        load(Source(hostile.kind, hostile.path), Options())
    told = run_trusted(tmp_path, [hostile], sandbox=sandbox)
    assert told
    assert canary.exists() is not sandbox, told


@pytest.mark.skipif(not {FILES, CALLS} <= set(available_measures()), reason="no Landlock or no seccomp here")
@pytest.mark.parametrize("trust", [False, True])
def test_reading_loads_where_nothing_can_be_written(
    tmp_path: Path, trust: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is switched off here; a trusted copy of the file shows that the archive would have written."""
    canary = tmp_path / "canary"
    hostile = save_hostile(tmp_path / "m.pt", canary)
    monkeypatch.setattr(loader, "refuse_unsafe", lambda path: None)
    with suppress(BadInput):  # PyTorch does not check whether it could open the file
        load(Source(hostile.kind, hostile.path), Options(trust=trust))
    assert canary.exists() is trust
    (tmp_path / "after").write_text("the process itself is not confined")


class Filing(torch.nn.Module):
    """A scripted module that creates a file whenever it is run."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place
        self.layer = nn.Linear(3, 3)  # inputs are guessed and tried by running the module, before any rule is used

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + torch.from_file(self.place, shared=True, size=3)


@pytest.mark.skipif(not {FILES, CALLS} <= set(available_measures()), reason="no Landlock or no seccomp here")
@pytest.mark.parametrize("trust", [False, True])
def test_what_is_run_to_read_it_writes_nothing_in_a_program(
    tmp_path: Path, trust: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is switched off here: a TorchScript module is also run on an example when Python reads it."""
    canary = tmp_path / "canary"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Filing(str(canary))).save(tmp_path / "m.pt")
    monkeypatch.setattr(loader, "refuse_unsafe", lambda path: None)
    with pytest.raises(ConvertError):  # it cannot be run, or there is no rule for it
        read_model(Source("torchscript", tmp_path / "m.pt"), Options(trust=trust), Report("test"))
    assert canary.exists() is trust
    (tmp_path / "after").write_text("the process itself is not confined")
