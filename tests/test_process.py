"""Child processes: arrays travel whole; a crash, a hang and a refusal each say so."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from convert.errors import ConvertError, ResourceLimit
from convert.parity import inputs
from convert.runners import process
from convert.runners.process import Limits, execute, load_arrays, save_arrays
from convert.source import Source

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def test_arrays_of_every_dtype_and_name_travel(tmp_path: Path) -> None:
    arrays = {
        "a/b:0": np.arange(6, dtype=np.float32).reshape(2, 3),
        "": np.array(3, np.int64),
        "bool": np.array([True]),
        "half": np.array([1.5, np.nan], ml_dtypes.bfloat16),
        "text": np.array([["ä", ""]], dtype=object),
        "complex": np.array([1 + 2j]),
        "empty": np.zeros((0, 4), np.float16),
    }
    save_arrays(tmp_path / "x", arrays)
    back = load_arrays(tmp_path / "x")
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert back[name].tobytes() == array.tobytes() if array.dtype.kind != "O" else (back[name] == array).all()


def test_runs_in_another_process() -> None:
    feed = {"image": np.zeros((1, 1, 28, 28), np.float32)}
    found = execute(Source("onnx", FIXTURES / "mnist_cnn.onnx"), [feed, feed], ("float32", "float64")).results()
    assert found["float32"][0]["log_probs"].dtype == np.float32
    assert found["float64"][1]["log_probs"].dtype == np.float64


def test_a_refusal_of_the_runtime_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"not onnx at all")
    with pytest.raises(ConvertError, match=r"bad\.onnx"):
        execute(Source("onnx", tmp_path / "bad.onnx"), [{}]).results()


def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str) -> None:
    """Replace the interpreter of children by a script: what a native crash or hang of a runtime looks like."""
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setattr(process.sys, "executable", str(script))


def test_a_crash_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child(monkeypatch, tmp_path, "echo last words >&2; kill -SEGV $$")
    with pytest.raises(ConvertError, match=r"died with signal SIGSEGV: last words"):
        execute(Source("onnx", tmp_path / "m.onnx"), [{}]).results()


def test_a_hang_ends_with_a_resource_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child(monkeypatch, tmp_path, "sleep 60")
    with pytest.raises(ResourceLimit, match=r"longer than 0\.3 s"):
        execute(Source("onnx", tmp_path / "m.onnx"), [{}], limits=Limits(seconds=0.3)).results()


def test_inputs_are_read_without_pickle(tmp_path: Path) -> None:
    np.savez(tmp_path / "ok.npz", x=np.ones(3))
    np.savez(tmp_path / "evil.npz", x=np.array([print], dtype=object))
    assert list(inputs.load(tmp_path / "ok.npz")) == ["x"]
    with pytest.raises(ConvertError, match="no readable inputs"):
        inputs.load(tmp_path / "evil.npz")
