"""Pickled modules: the classes of a script are found in the file of `--model`, and one of several modules is chosen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.files.loader import load as load_file
from torch import nn

import convert
from convert.errors import BadInput, UnsafeInput, UsageError
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source

SCRIPT = """
import torch

class Scorer(torch.nn.Module):
    class Head(torch.nn.Linear):
        pass

    def __init__(self, width=8):
        super().__init__()
        self.body, self.head = torch.nn.Linear(5, width), Scorer.Head(width, 3)

    def forward(self, features):
        return self.head(self.body(features).relu())

def build():
    raise RuntimeError("a pickled module is not built again")
"""


def load(path: Path, report: Report | None = None, **options: Any) -> Any:
    return load_file(Source("torch-module", path), Options(**options), report)


def names_of(module: str, tmp_path: Path) -> dict[str, Any]:
    """Write the script, run it as a module of that name, and return what it defines."""
    (tmp_path / "train.py").write_text(SCRIPT)
    names: dict[str, Any] = {"__name__": module}
    exec(compile(SCRIPT, "train.py", "exec"), names)
    return names


@pytest.fixture(params=["__main__", "train"])
def pickled(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, nn.Module]:
    """Return a file with a module of a class that cannot be imported any more, and the module."""
    names = names_of(request.param, tmp_path)
    module = names["Scorer"]().eval()
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "__main__":
            patch.setattr(sys.modules["__main__"], "Scorer", names["Scorer"], raising=False)
        else:
            patch.setitem(sys.modules, "train", type("Module", (), names))  # type: ignore[misc]
        for old in (False, True):
            torch.save(module, tmp_path / f"{old}.pt", _use_new_zipfile_serialization=not old)
        torch.save({"model": module, "epoch": 3}, tmp_path / "checkpoint.pt")
    return tmp_path, module


@pytest.mark.parametrize("file", ["False.pt", "True.pt", "checkpoint.pt"])
@pytest.mark.parametrize("name", ["Scorer", "build"])
def test_classes_of_a_script_are_found_in_the_file_of_model(
    pickled: tuple[Path, nn.Module], file: str, name: str
) -> None:
    folder, module = pickled
    found = load(folder / file, trust=True, model=f"{folder / 'train.py'}:{name}")
    x = torch.randn(2, 5)
    torch.testing.assert_close(found(x), module(x))


def test_a_module_of_a_script_passes_its_verification(pickled: tuple[Path, nn.Module], tmp_path: Path) -> None:
    folder, _ = pickled
    report = convert.convert(
        folder / "checkpoint.pt", "onnx", tmp_path / "m.onnx", trust=True, model=f"{folder / 'train.py'}:Scorer"
    )
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


def test_without_its_script_a_module_leads_on(pickled: tuple[Path, nn.Module]) -> None:
    folder, _ = pickled
    with pytest.raises(BadInput) as error:
        load(folder / "False.pt", trust=True)
    main = "__main__" in error.value.message
    assert (
        "--model FILE.py:Scorer" if main else "--code FOLDER/train.py, which defines train.Scorer"
    ) in error.value.hint
    with pytest.raises(UnsafeInput) as refused:
        load(folder / "False.pt")
    assert "--trust" in refused.value.hint
    assert f"--trust and --{'model FILE.py:Scorer' if main else 'code FOLDER/train.py'}" in refused.value.hint
    with pytest.raises(UnsafeInput, match="execute code"):
        load(folder / "False.pt", model=f"{folder / 'train.py'}:Scorer")


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove modules that `--code` imports, so that other tests do not find them."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("train", None)


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("file", ["False.pt", "True.pt", "checkpoint.pt"])
def test_classes_are_found_in_a_file_of_code(pickled: tuple[Path, nn.Module], file: str, tmp_path: Path) -> None:
    """The module name in the saving process does not matter, and processes that run the model find the file too."""
    folder, module = pickled
    code = (str(folder / "train.py"),)
    report = convert.convert(folder / file, "onnx", tmp_path / "m.onnx", trust=True, code=code)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    x = torch.randn(2, 5)
    torch.testing.assert_close(load(folder / file, trust=True, code=code)(x), module(x))


def test_a_script_without_the_class_is_told(pickled: tuple[Path, nn.Module]) -> None:
    folder, _ = pickled
    (folder / "train.py").write_text("def build(): pass\n")
    with pytest.raises(BadInput, match=r"Scorer|train"):
        load(folder / "False.pt", trust=True, model=f"{folder / 'train.py'}:build")


# -- several modules ---------------------------------------------------------------------------------------------------


class Generator(nn.Linear):
    pass


class Critic(nn.Linear):
    pass


def saved(thing: Any, tmp_path: Path) -> Path:
    torch.save(thing, tmp_path / "gan.pt")
    return tmp_path / "gan.pt"


def test_a_checkpoint_of_several_modules_lists_them(tmp_path: Path) -> None:
    path = saved({"nets": {"critic": Critic(4, 1), "generator": Generator(2, 4)}, "step": 9}, tmp_path)
    with pytest.raises(UsageError, match=r"2 modules: nets\.generator \(Gen.*, nets\.critic \(Cri") as error:
        load(path, trust=True)
    assert "--part nets.generator" in error.value.hint
    for place, kind in (("nets.critic", Critic), ("nets.generator", Generator)):
        assert type(load(path, trust=True, extra={"part": place})) is kind
    with pytest.raises(UsageError, match="no module at 'generator'"):
        load(path, trust=True, extra={"part": "generator"})


def test_the_class_of_model_chooses_a_module(tmp_path: Path) -> None:
    path, report = saved({"critic": Critic(4, 1), "generator": Generator(2, 4)}, tmp_path), Report("load")
    assert type(load(path, report, trust=True, model=f"{__name__}:Critic")) is Critic
    assert any("critic" in str(note) and "beside it lie generator" in str(note) for note in report.notes)


@pytest.mark.parametrize(
    ("beside", "part"),
    [
        ({"criterion": nn.CrossEntropyLoss(torch.ones(3))}, ""),
        ({"ema": nn.Linear(2, 3)}, ""),
        ({"ema": nn.Linear(2, 3)}, "model"),
        ({"epoch": 3, "best": None}, "model"),
    ],
    ids=["a loss", "an average", "an average, named", "numbers"],
)
def test_losses_and_averages_are_no_choice(beside: dict[str, Any], part: str, tmp_path: Path) -> None:
    module = nn.Linear(2, 3)
    path = saved({**beside, "model": module}, tmp_path)
    assert torch.equal(load(path, trust=True, extra={"part": part}).weight, module.weight)


def test_one_module_under_two_keys_is_one(tmp_path: Path) -> None:
    module = nn.Linear(2, 3)
    assert torch.equal(load(saved({"net": module, "best": module}, tmp_path)).weight, module.weight)


def test_a_pickle_without_modules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no torch\.nn\.Module"):
        load(saved({"step": 3}, tmp_path))
