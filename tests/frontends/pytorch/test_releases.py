"""An untested release of PyTorch: the message for the user, and the effect of a missing private name."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from convert.frontends.pytorch import releases
from torch import nn

import convert
from convert.errors import Unsupported


def notes_about_releases(**options: Any) -> list[str]:
    report = convert.inspect(nn.ReLU(), inputs="float32[n,4]", **options)
    return [note for note in report.notes if note.code == "untested-version"]


def test_a_release_that_was_not_tried_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(releases, "RELEASE", (2, 99))
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    (note,) = notes_about_releases()
    assert note == (
        "this converter was not tested with PyTorch 2.99.0 (but with 2.10, 2.11, 2.12, 2.13, 2.14): "
        "rely on the verification"
    )
    report = convert.convert(nn.ReLU(), "onnx", tmp_path / "m.onnx", inputs="float32[n,4]")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert note in report.notes


@pytest.mark.parametrize("release", releases.TRIED)
def test_a_release_that_was_tried_is_not(release: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "RELEASE", release)
    assert notes_about_releases() == []


@pytest.mark.parametrize(
    ("version", "release"),
    [("2.13.0+cpu", (2, 13)), ("2.14.1", (2, 14)), ("2.15.0a0+git1f3", (2, 15)), ("3.0.0.dev20270101", (3, 0))],
)
def test_numbers_of_a_release(version: str, release: tuple[int, int]) -> None:
    assert releases._parsed(version) == release


def test_a_name_that_is_missing_when_it_is_imported_is_told_with_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    own, plain = "convert.frontends.pytorch.reader", builtins.__import__

    def lacking(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "reader":
            raise ImportError("cannot import name '_x' from 'torch._y'", name="torch._y")
        return plain(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, own)
    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(Unsupported, match=r"does not know PyTorch .* cannot import name '_x'"):
        convert.inspect(nn.ReLU(), inputs="float32[n,4]")


@pytest.mark.parametrize(
    "place",
    [
        "torch._C.parse_schema",
        pytest.param("torch.fx.experimental.symbolic_shapes.ShapeEnv", marks=pytest.mark.slow),
    ],
)
def test_a_private_part_that_is_missing_is_told_with_the_release(place: str) -> None:
    """The check runs in a separate process, which imports no module of the package before the name is removed."""
    module, _, name = place.rpartition(".")
    code = (
        f"import torch, convert, {module}\n"
        f"delattr({module}, {name!r})\n"
        "try:\n    convert.inspect(torch.nn.ReLU(), inputs='float32[n,4]')\n"
        "except convert.ConvertError as error:\n    print(type(error).__name__, error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"Unsupported this converter does not know PyTorch {torch.__version__}")
    assert name in done.stdout
