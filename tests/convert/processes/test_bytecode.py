"""A note names packages that Python compiles for every command, because they have no bytecode."""

from __future__ import annotations

import importlib
import os
import py_compile
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from convert.processes import bytecode

ROOT = Path(__file__).resolve().parents[3]


def test_modules_without_bytecode_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package_without_bytecode"
    package.mkdir()
    for name in ("__init__", "one", "two"):
        (package / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("one", "two"):
        importlib.import_module(f"{package.name}.{name}")
    key = (package.name, str(tmp_path))
    assert key not in bytecode.modules_without_bytecode(), "a checkout"
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert bytecode.modules_without_bytecode()[key] == 3

    monkeypatch.setattr(bytecode, "_FEW", 1)
    note = bytecode.bytecode_note()
    assert note is not None
    assert note.code == "missing-bytecode"

    for path in package.glob("*.py"):
        py_compile.compile(str(path))
    assert key not in bytecode.modules_without_bytecode()


@pytest.mark.slow
@pytest.mark.not_core
def test_a_command_names_them_once(tmp_path: Path) -> None:
    model = str(ROOT / "fixtures" / "mnist_cnn.onnx")
    words = [sys.executable, "-m", "convert", model, "--to", "onnx", "-o", "copy.onnx"]
    without = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=without, capture_output=True, text=True, check=True)
    assert done.stderr.count("python -m compileall") == 1, done.stderr
