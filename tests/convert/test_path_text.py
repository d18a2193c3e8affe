"""Paths that are not UTF-8 are refused if a library does not take them, and accepted if none is involved."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import convert
from convert import plugin
from convert.errors import UsageError
from convert.files.sniff import KINDS
from convert.request.destination import destination
from convert.request.options import Options
from convert.request.source import Source, check_path_text

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
ODD = os.fsdecode(b"\xff\xfe")


def test_onnx_is_opened_by_any_name(tmp_path: Path) -> None:
    (tmp_path / ODD).mkdir()
    source = tmp_path / ODD / f"{ODD}.onnx"
    shutil.copy(FIXTURES / "mnist_cnn.onnx", source)
    convert.convert(source, "onnx", tmp_path / f"{ODD}.onnx", verify=False)
    assert (tmp_path / f"{ODD}.onnx").stat().st_size > 100_000


@pytest.mark.parametrize("kind", [*KINDS])
def test_kinds(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ODD).mkdir()
    monkeypatch.chdir(tmp_path / ODD)
    by_python = kind in ("onnx", "keras", "keras-h5", "frozen-graph")
    whole = kind in ("savedmodel", "tf-meta", "caffe2")
    for path, taken in ((Path(f"{ODD}.x"), by_python), (Path("a.x"), not whole), (tmp_path / "a.x", True)):
        if taken:
            check_path_text(kind, path)
            Source(kind, path)
        else:
            with pytest.raises(UsageError, match="UTF-8"):
                Source(kind, path)


@pytest.mark.parametrize("form", ["tf", "torch", "torch-script", "torch-code", "caffe2", "tflite"])
def test_outputs(form: str, tmp_path: Path) -> None:
    name = plugin.formats()[form].suffix
    with pytest.raises(UsageError, match="UTF-8"):
        destination(Source("onnx", tmp_path / "m.onnx"), form, tmp_path / f"{ODD}{name}", Options())
