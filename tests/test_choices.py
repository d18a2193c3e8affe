"""Test which tests `-m core` and the options of samples choose, and that the core imports no framework."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.core_tests import ROOT, imports_framework, is_core_file
from tests.support.samples import is_sampled, place_in_order


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import torch", True),
        ("from torch import nn", True),
        ("import keras.layers as layers", True),
        ("from convert.frontends.pytorch import ops", True),
        ("from convert.backends import tensorflow", True),
        ("from tests.support import tensorflow_helper", True),
        ("from tests.support.tensorflow_helper import anything", True),
        ("import pytest\ntorch = pytest.importorskip('torch', reason='the oracle')", True),
        ("import pytest\npytest.importorskip('tensorflow')", True),
        ("import pytest\nimage = pytest.importorskip('PIL.Image')", False),
        ("import torchish\nfrom convert.backends.caffe2 import emit", False),
        ("def test():\n    import torch", False),  # not when it is imported; the test itself would fail
        ("import numpy, onnx, onnxruntime\nfrom tests.support import onnx_support", False),
    ],
)
def test_a_module_that_imports_a_framework_is_told(text: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(text)
    assert imports_framework(tmp_path / "test_it.py") is found


def test_core_lies_in_its_places() -> None:
    assert is_core_file(ROOT / "tests/convert/passes/test_passes.py")
    assert is_core_file(ROOT / "tests/test_walls.py")
    assert not is_core_file(ROOT / "tests/convert/parity/test_chain.py")  # imports torch
    assert not is_core_file(ROOT / "tests/frontends/caffe2/ops/test_rules.py")


@pytest.mark.slow
@pytest.mark.not_core
def test_collecting_the_core_imports_no_framework() -> None:
    """`tests/support/core_tests.py` watches the imports of each test."""
    places = [
        "tests/test_walls.py",
        "tests/convert/parity",
        "tests/frontends/onnx",
        "tests/backends/onnx",
        "tests/backends/keras",
    ]
    options = ["-n", "0", "-q", "-p", "no:cacheprovider", "-m", "core", "--collect-only"]
    command = [sys.executable, "-m", "pytest", *options, *places]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    files = {line.split("::")[0] for line in done.stdout.splitlines() if "::" in line}
    assert "tests/convert/parity/test_verdict.py" in files
    assert all(is_core_file(ROOT / file) for file in files)


def test_a_sample_is_the_same_everywhere() -> None:
    names = [f"tests/test_it.py::test_case[{i}]" for i in range(1000)]
    found = [name for name in names if is_sampled(name, 10)]
    assert 60 <= len(found) <= 140
    assert found == [name for name in reversed(names) if is_sampled(name, 10)][::-1]
    assert all(is_sampled(name, 1) for name in names)


def test_an_order_is_drawn_from_a_word_and_keeps_modules_together() -> None:
    names = [f"tests/test_{i}.py::test_{case}" for i in range(50) for case in ("b", "a")]
    found = sorted(names, key=lambda name: place_in_order(name, "one"))
    assert found != names
    assert [name.partition("::")[2] for name in found] == ["test_b", "test_a"] * 50, "in a module as written"
    assert all(a.partition("::")[0] == b.partition("::")[0] for a, b in zip(found[::2], found[1::2], strict=True))
    assert found == sorted(names, key=lambda name: place_in_order(name, "one"))
    half = {word: {*sorted(names, key=lambda name: place_in_order(name, word))[:50]} for word in "abcdefghijkl"}
    assert set.union(*half.values()) == {*names}, "some words bring every test into the first half"


@pytest.mark.slow
@pytest.mark.not_core
def test_what_would_begin_too_late_is_skipped_in_the_order_of_the_word(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for name in "abcdefgh":
        (tmp_path / f"test_{name}.py").write_text("import time\ndef test_it():\n    time.sleep(2)\n")
    plugins = ["-p", "no:cacheprovider", "-p", "tests.support.samples"]
    options = ["-v", "-rs", "-c", str(tmp_path / "pytest.ini"), "--sample-order", "word", "--sample-seconds"]
    command = [sys.executable, "-m", "pytest", *plugins, *options]
    done = subprocess.run([*command, "3", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split()[:2] for line in done.stdout.splitlines() if "::test_it " in line]
    order = sorted((f"test_{name}.py::test_it" for name in "abcdefgh"), key=lambda name: place_in_order(name, "word"))
    assert [Path(name).name for name, _ in lines] == order
    ends = [end for _, end in lines]
    assert 1 <= ends.count("PASSED") <= 2
    assert ends == sorted(ends), "those that pass come first"
    assert "the 3 seconds of the sample are over" in done.stdout
    done = subprocess.run([*command, "0", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 5, "all are skipped: nothing was shown"
