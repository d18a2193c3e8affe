"""Where a rule stumbles over a file, the file is asked first whether it says what its own framework forbids."""

from __future__ import annotations

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
    with pytest.raises(ConvertError) as caught:  # what the user made in memory was no stranger's
        convert.convert(onnx.load(path), "onnx", tmp_path / "out.onnx", verify=False)
    assert caught.value.hint.startswith("this is a defect of convert")


def test_a_limit_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(RuntimeError("Storage size calculation overflowed with sizes=[4611686018427387904, 4]"), monkeypatch)
    with pytest.raises(ResourceLimit):
        convert.convert(_saved(tmp_path, BAD["an axis"][0]), "onnx", tmp_path / "out.onnx", verify=False)
