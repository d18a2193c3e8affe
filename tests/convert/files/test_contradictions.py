"""If a rule fails on a file, the file is first checked for anything that its own framework forbids."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn

import onnx
import onnx.parser
import pytest

import convert
from convert import plugin
from convert.errors import BadInput, ConvertError, ResourceLimit

GOOD = '<ir_version: 9, opset_import: ["": 20]> g (float[2, 3] x) => (float[n, m] y) { y = Flatten<axis = 1>(x) }'
BAD = {
    "an axis": (GOOD.replace("axis = 1", "axis = 100"), "Invalid value(100) for attribute 'axis'"),
    "a broadcast": (GOOD.replace("Flatten<axis = 1>(x)", "Add(x, x)").replace(
        "{ ", "<float[2, 2] w = {1, 2, 3, 4}> { ").replace("Add(x, x)", "Add(x, w)"), "Incompatible dimensions"),
    "a signal of two dims": (GOOD.replace("{ ", "<int64 s = {4}, float[3] w = {1, 2, 3}> { ").replace(
        "Flatten<axis = 1>(x)", "STFT(x, s, w)").replace("[n, m]", "[a, b, c, d]"), "a signal of 2 dims"),
    "an axis that ONNX's inference lets pass": (GOOD.replace("{ ", "<int64 a = {7}> { ").replace(
        "Flatten<axis = 1>(x)", "CumSum(x, a)"), "axis 7 of 2 dims"),
}  # fmt: skip


def _saved(place: Path, text: str) -> Path:
    path = place / "m.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path


def _failing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*given: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(plugin.backend_for("onnx"), "write", write)


@pytest.mark.parametrize("name", BAD)
def test_the_file_is_at_fault(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(IndexError("tuple index out of range"), monkeypatch)
    text, reason = BAD[name]
    with pytest.raises(BadInput) as caught:
        convert.convert(_saved(tmp_path, text), "onnx", tmp_path / "out.onnx", verify=False)
    assert reason in caught.value.message
    assert "defect" not in caught.value.hint
    assert not (tmp_path / "out.onnx").exists()


def test_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(IndexError("tuple index out of range"), monkeypatch)
    path = _saved(tmp_path, GOOD)
    with pytest.raises(ConvertError) as caught:
        convert.convert(path, "onnx", tmp_path / "out.onnx", verify=False)
    assert caught.value.exit_code == 1
    assert "was not foreseen: IndexError: tuple index out of range" in caught.value.message
    assert "if it runs elsewhere this is a defect of convert" in caught.value.hint
    with pytest.raises(ConvertError) as caught:  # what the user made in memory is trusted
        convert.convert(onnx.load(path), "onnx", tmp_path / "out.onnx", verify=False)
    assert caught.value.hint.startswith("this is a defect of convert")


def test_a_limit_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(RuntimeError("Storage size calculation overflowed with sizes=[4611686018427387904, 4]"), monkeypatch)
    with pytest.raises(ResourceLimit):
        convert.convert(_saved(tmp_path, BAD["an axis"][0]), "onnx", tmp_path / "out.onnx", verify=False)


@pytest.mark.parametrize("what", ["the model", "its weights"])
def test_a_file_that_changes_while_it_is_read(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the frontend or backend then says nothing about the file."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (float[2, 3] x) => (float[2, 3] y) '
        "<float[2, 3] w = {1, 2, 3, 4, 5, 6}> { y = Add(x, w) }"
    )
    held = onnx.numpy_helper.to_array(model.graph.initializer[0])
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(held, "w"))  # as bytes, whose position may differ
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    victim = path if what == "the model" else tmp_path / "w.bin"

    def write(*given: Any) -> NoReturn:
        os.utime(victim)
        raise ValueError("mmap length is greater than file size")

    monkeypatch.setattr(plugin.backend_for("onnx"), "write", write)
    with pytest.raises(BadInput, match=f"{victim} was changed while it was read"):
        convert.convert(path, "onnx", tmp_path / "out.onnx", verify=False)
