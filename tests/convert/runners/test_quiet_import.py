"""Modules that a framework imports for its users alone are loaded when they are used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from convert.runners.quiet_import import import_quietly, late_modules


def test_late_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "framework_of_a_test"
    _write_modules(tmp_path, {
        "framework_of_a_test/__init__": "from framework_of_a_test import extra as extra, used as used\n",
        "framework_of_a_test/used": "number = 1\n",
        "framework_of_a_test/extra": "import framework_of_a_test_s_friend\nnumber = 2\n",
        "framework_of_a_test_s_friend": "",
    })  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)

    framework = import_quietly(package.name, {}, late=[f"{package.name}.extra"])
    assert "framework_of_a_test_s_friend" not in sys.modules
    assert framework.used.number == 1
    # What TensorFlow and `inspect` ask every module for, when they look for the file that a function is from.
    assert sys.modules[f"{package.name}.extra"].__file__ == str(package / "extra.py")
    assert not hasattr(framework.extra, "__wrapped__")
    assert "framework_of_a_test_s_friend" not in sys.modules
    assert framework.extra.number == 2
    assert "framework_of_a_test_s_friend" in sys.modules
    assert not [finder for finder in sys.meta_path if type(finder).__module__ == import_quietly.__module__]


def test_a_module_inside_of_a_late_package_comes_without_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = "late_package_of_a_test"
    _write_modules(tmp_path, {
        f"{package}/__init__": "from . import inner as inner, other as other\nnumber = 1\n",
        f"{package}/inner": "number = 2\n",
        f"{package}/other": "number = 3\n",
        "user_of_a_test": f"from {package} import inner\n",
    })  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)

    with late_modules([package, f"{package}.inner"]):
        user = importlib.import_module("user_of_a_test")
    assert f"{package}.other" not in sys.modules  # which the package imports when it is executed
    assert user.inner.number == 2
    assert f"{package}.other" not in sys.modules
    assert sys.modules[package].number == 1
    assert sys.modules[package].inner is user.inner
    assert sys.modules[f"{package}.other"].number == 3


def _write_modules(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
