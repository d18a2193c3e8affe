"""The table of patches against the installed releases: what it replaces exists, and is restored afterwards."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.export import patch_table as table
from convert.frontends.pytorch.export.patches import patch
from convert.frontends.pytorch.export.patches.patch import Need, Patch, Put, Stage, Within, Wrap, in_place, target_of
from convert.frontends.pytorch.torch_internals import import_compiler
from torch import nn

import convert
from convert.errors import Unsupported
from tests.support.import_graph import ROOT
from tests.support.timm_helper import declare_torchvision_operators
from tests.support.wall_of_internals import replaces_functions

NAMED = [(row, name) for row in table.TABLE for name in row.targets]


class Layers(nn.Module):
    """A network that needs many patches: a transformer layer with a mask, and a stack of blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)
        self.blocks = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(5)))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.blocks(self.layer(x, mask))


INPUTS = (torch.ones(2, 3, 8), torch.zeros(3, 3))


def import_modules(row: Patch, name: str) -> None:
    """Import the modules in which a row replaces something; skip the test if that library is not installed."""
    if row.library != "torch":
        if find_spec(row.library) is None:
            pytest.skip(f"{row.library} is not installed")
        declare_torchvision_operators()
    for place in ("mamba.modeling_mamba", "mamba2.modeling_mamba2", "lfm2.modeling_lfm2",
                  "qwen3_next.modeling_qwen3_next", "kimi_linear.modeling_kimi_linear"):  # fmt: skip
        with suppress(ImportError):  # the part before the last may be a class
            importlib.import_module(name.rpartition(".")[0].replace("*", place))


def value_of(name: str) -> Any:
    """Return the current value of a patched name; for an operator, which stays the same object, its kernels."""
    found = target_of(name).value
    return dict(found.py_kernels) if hasattr(found, "py_kernels") else found


@pytest.mark.parametrize(("row", "name"), [pytest.param(*pair, id=pair[1]) for pair in NAMED])
def test_a_target_is_there(row: Patch, name: str) -> None:
    import_modules(row, name)
    assert patch._targets(name)


EXCHANGED = [pytest.param(*pair, id=pair[1]) for pair in NAMED if not isinstance(pair[0].change, Within)]


@pytest.mark.parametrize(("row", "name"), EXCHANGED)
def test_a_function_is_exchanged_and_put_back(row: Patch, name: str) -> None:
    import_modules(row, name)
    before = [(target, target.name in vars(target.holder)) for target in patch._targets(name)]
    with in_place([row]):
        assert before
        for target, _ in before:
            assert getattr(target.holder, target.name) is not target.value
    for target, own in before:
        assert (target.name in vars(target.holder)) is own
        assert not own or getattr(target.holder, target.name) is target.value


@pytest.fixture
def as_before() -> Iterator[None]:
    """Assert that everything that any row replaces is the same before and after the test."""
    import_compiler()  # it replaces some functions by its own
    names = [name for row, name in NAMED if row.library == "torch" and not row.where_imported]
    before = [value_of(name) for name in names]
    yield
    for name, value in zip(names, before, strict=True):
        now = value_of(name)
        assert now == value if isinstance(value, dict) else now is value, name


@pytest.mark.usefixtures("as_before")
def test_all_is_put_back_after_a_capture() -> None:
    report = convert.inspect(Layers().eval(), inputs=INPUTS)
    assert [tensor.shape for tensor in report.outputs] == [("batch", 3, 8)]


@pytest.mark.usefixtures("as_before")
def test_all_is_put_back_after_a_capture_that_fails() -> None:
    class Failing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise KeyError("no")

    with pytest.raises(convert.ConvertError):
        convert.inspect(Failing(), inputs="float32[n,4]")


def without(row: Patch) -> tuple[Patch, ...]:
    """Return the table for a release that lacks the targets of a row."""
    gone = replace(row, targets=tuple(f"{name}_of_another_release" for name in row.targets))
    return tuple(gone if other is row else other for other in table.TABLE)


def rows(need: Need) -> list[Any]:
    """Return the rows about PyTorch itself that apply to any capture."""
    stages = (Stage.MESSAGES, Stage.WATCH, Stage.CAPTURE, Stage.LENGTHS, Stage.BLOCKS)
    own = [row for row in table.TABLE if row.library == "torch" and row.targets and not row.where_imported]
    return [pytest.param(row, id=row.targets[0]) for row in own if row.need is need and row.stage in stages]


@pytest.mark.parametrize("row", rows(Need.TIME))
@pytest.mark.usefixtures("as_before")
def test_what_saves_time_is_left_out_where_its_target_is_missing(row: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "TABLE", without(row))
    report = convert.inspect(Layers().eval(), inputs=INPUTS)
    assert [tensor.shape for tensor in report.outputs] == [("batch", 3, 8)]
    assert not [note for note in report.notes if "another_release" in note]


@pytest.mark.parametrize("row", rows(Need.RESULT))
@pytest.mark.usefixtures("as_before")
def test_what_decides_is_refused_with_the_release(row: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "TABLE", without(row))
    with pytest.raises(Unsupported, match="which lacks a part that it needs") as error:
        convert.inspect(Layers().eval(), inputs=INPUTS)
    assert f"does not know PyTorch {torch.__version__}" in error.value.message
    assert f"{row.targets[0].rpartition('.')[2]}_of_another_release" in error.value.message
    assert "2.13, 2.14" in (error.value.hint or "")


def test_models_of_another_library_are_left_to_pytorch() -> None:
    import_modules(next(row for row in table.TABLE if row.library == "torchvision"), "torchvision.ops.boxes.nms")
    row = Patch(Stage.CAPTURE, ("torchvision.ops.boxes.of_another_release",), Put(None), "", Need.MODELS, "torchvision",
                where_imported=True)  # fmt: skip
    with in_place([row]) as entered:
        assert entered == {}


def test_another_library_is_named_with_its_release() -> None:
    transformers = pytest.importorskip("transformers")
    row = Patch(Stage.CACHE, ("transformers.of_another_release",), Put(None), "", library="transformers")
    with pytest.raises(Unsupported, match=f"does not know transformers {transformers.__version__}"), in_place([row]):
        pass


def test_modules_that_nobody_imported_are_not_imported_for_a_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.nn.attention.flex_attention", raising=False)
    monkeypatch.setattr(patch, "target_of", lambda name: pytest.fail(f"{name} was looked up"))
    row = next(row for row, name in NAMED if name.endswith("flex_attention_hop"))
    with in_place([row]):
        pass


def test_a_later_row_wraps_an_earlier_one() -> None:
    def made(name: str) -> Patch:
        return Patch(Stage.CAPTURE, ("torch.nn.functional.relu",), Wrap(lambda original: (name, original)), "")

    own = nn.functional.relu
    with in_place([made("first"), made("second")]):
        assert nn.functional.relu == ("second", ("first", own))
    assert nn.functional.relu is own


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{i}") for i, row in enumerate(table.TABLE)])
def test_a_row_says_why(row: Patch) -> None:
    assert len(row.why.split()) > 3
    assert row.library in ("torch", "transformers", "torchvision", "diffusers")
    assert all(name.startswith(f"{row.library}.") for name in row.targets)
    assert not row.upstream or row.upstream.startswith("https://github.com/")
    assert not row.where_imported or not isinstance(row.change, Within)


PACKAGE = ROOT / "frontends/pytorch"
MANAGERS = [row.change.manager for row in table.TABLE if isinstance(row.change, Within)]
REPLACING = {str(sys.modules[manager.__module__].__file__) for manager in MANAGERS if hasattr(manager, "__module__")}


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_only_the_table_replaces_functions(file: Path) -> None:
    """Modules that replace functions are those of `patches`, and those of context managers in the table."""
    assert file.parent.name == "patches" or str(file) in REPLACING or not replaces_functions(file)


@pytest.mark.parametrize(
    "text",
    [
        "from unittest import mock",
        "from unittest.mock import patch",
        "import unittest.mock",
        "setattr(torch.nn.Module, 'register_buffer', other)",
        "torch.nn.Module.to = other",
        "nn.Module.to = other",
    ],
)
def test_a_replacement_is_seen(text: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(text)
    assert replaces_functions(file)
