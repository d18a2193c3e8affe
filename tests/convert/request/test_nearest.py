"""A hint suggests similar names, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from convert.cli.option_suggestions import suggestion_for_option
from convert.files.missing import near_path
from convert.request.nearest import names_hint, nearest

OPTIONS = ("--quiet", "--json", "--outputs", "--output", "--no-verify", "--opset", "--trust", "--trace", "--timeout")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("--junit", ""), ("--jsn", "--json"), ("--no_verify", "--no-verify"), ("--opst", "--opset"), ("--xml", ""),
     ("--profile", ""), ("--tset", ""), ("--unit", ""), ("--timeuot", "--timeout"), ("--TRUST", "--trust")],
)  # fmt: skip
def test_an_option_is_suggested_only_if_it_is_near(typed: str, meant: str) -> None:
    """Dashes alone do not make two names similar."""
    assert suggestion_for_option(typed, OPTIONS) == (f"did you mean {meant}?" if meant else "")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("wieghts.pt", "weights.pt"), ("resnet5.onnx", "resnet50.onnx"), ("weights.pth", "weights.pt"),
     ("resnet50.pb", "resnet50.onnx"), ("resnet50", "resnet50.onnx"), ("other.onnx", ""), ("b.onnx", ""),
     ("data.npz", "")],
)  # fmt: skip
def test_a_file_is_suggested_by_its_stem(typed: str, meant: str, tmp_path: Path) -> None:
    for name in ("weights.pt", "resnet50.onnx", "a.onnx"):
        (tmp_path / name).touch()
    assert near_path(tmp_path / typed) == (str(tmp_path / meant) if meant else "")


def test_the_only_input_is_meant_however_it_is_spelled() -> None:
    assert names_hint("x", ["image"]) == "did you mean image? its inputs are image"
    assert names_hint("x", ["ids", "mask"]) == "its inputs are ids, mask"
    assert nearest("Ids", ["ids", "mask"]) == "ids"
