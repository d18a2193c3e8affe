"""Modules that a framework imports only for its users are loaded on first use, in the project's own processes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from convert.processes import interpreter
from convert.processes.quiet_import import import_quietly, late_modules


@pytest.fixture
def own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "_own", [True])


@pytest.mark.usefixtures("own_process")
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
    # TensorFlow and `inspect` read these attributes of every module to find the file of a function.
    assert sys.modules[f"{package.name}.extra"].__file__ == str(package / "extra.py")
    assert not hasattr(framework.extra, "__wrapped__")
    assert "framework_of_a_test_s_friend" not in sys.modules
    assert framework.extra.number == 2
    assert "framework_of_a_test_s_friend" in sys.modules
    assert not [finder for finder in sys.meta_path if type(finder).__module__ == import_quietly.__module__]


@pytest.mark.usefixtures("own_process")
def test_hidden_modules_are_importable_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optional = "try:\n    import {0} as friend\nexcept ImportError:\n    friend = None\n"
    _write_modules(tmp_path, {
        "framework_without": optional.format("friend_hidden"), "friend_hidden": "number = 3\n",
        "framework_with": optional.format("friend_imported"), "friend_imported": "number = 4\n",
    })  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    assert import_quietly("framework_without", {}, hidden=["friend_hidden"]).friend is None
    assert importlib.import_module("friend_hidden").number == 3

    friend = importlib.import_module("friend_imported")  # what is imported already stays
    assert import_quietly("framework_with", {}, hidden=["friend_imported"]).friend is friend


def test_a_program_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_modules(tmp_path, {"framework_open": "import friend_open as friend\n", "friend_open": "number = 5\n"})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(interpreter, "_own", [])
    assert import_quietly("framework_open", {}, hidden=["friend_open"]).friend.number == 5


def test_a_program_imports_them_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = "framework_of_a_program"
    _write_modules(tmp_path, {
        f"{package}/__init__": f"from {package} import extra as extra\n", f"{package}/extra": "number = 2\n",
    })  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(interpreter, "_own", [])
    import_quietly(package, {}, late=[f"{package}.extra"])
    assert vars(sys.modules[f"{package}.extra"])["number"] == 2


@pytest.mark.usefixtures("own_process")
def test_modules_that_need_one_another_are_executed_from_outside_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`inner` imports from `shared`, which the package executes first; from inside out there would be a cycle.

    This is the case for `torch.distributed.fsdp` of PyTorch 2.13.
    """
    package = "circle_of_a_test"
    _write_modules(tmp_path, {
        f"{package}/__init__": "from .shared import number\nfrom .inner import double\n",
        f"{package}/shared": "number = 1\nfrom .inner import double\n",
        f"{package}/inner": "from .shared import number\ndouble = 2 * number\n",
        "user_of_a_circle": f"from {package} import inner\n",
    })  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    with late_modules([package, f"{package}.inner"]):
        user = importlib.import_module("user_of_a_circle")
    assert f"{package}.shared" not in sys.modules
    assert user.inner.double == 2
    assert sys.modules[package].double == 2


@pytest.mark.usefixtures("own_process")
def test_a_module_inside_of_a_late_package_comes_with_the_package_when_it_is_used(
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
    assert f"{package}.other" not in sys.modules  # the package imports this when it is executed
    assert user.inner.number == 2
    assert f"{package}.other" in sys.modules
    assert sys.modules[package].number == 1
    assert sys.modules[package].inner is user.inner
    assert sys.modules[f"{package}.other"].number == 3


def _write_modules(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
