"""Hostile files under a watcher of system calls: a sample of those that need no framework, the others behind `long`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.suites import hostile as suite
from tests.suites.hostile import MAKERS
from tests.suites.hostile_files.case import Canary, Case

pytestmark = [
    pytest.mark.not_core,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace, which watches the system calls, is not here"),
]

ROOT = Path(__file__).resolve().parents[2]


def hostile(*words: str) -> str:
    """Run the suite in a process of its own; it fails where a score is not 0."""
    command = [sys.executable, "-m", "tests.suites.hostile", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_some_files_do_no_harm_when_they_are_inspected() -> None:
    told = hostile("--classes", "caffe2,places", "--verbs", "inspect", "--sample", "8", "--light")
    assert "caffe2: 88 files, 11 commands" in told


@pytest.mark.parametrize(("end", "told"), [(ZeroDivisionError, "ZeroDivisionError"), (None, "ended with -6")])
def test_files_made_before_their_maker_failed_are_tried(
    end: type[Exception] | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def maker(folder: Path, canary: Canary) -> Iterator[Case]:
        yield Case("first", folder / "first.onnx", kept=("a",), swap=(folder / "a", folder / "b"))
        if end is None:
            os.abort()
        raise end

    monkeypatch.setitem(suite.MAKERS, "odd", maker)
    (case,), failure = suite.made("odd", tmp_path, Canary(tmp_path / "marker", 1))
    assert case == Case(
        "first", tmp_path / "odd" / "first.onnx", kept=("a",), swap=(tmp_path / "odd" / "a", tmp_path / "odd" / "b")
    )
    assert told in failure


@pytest.mark.long
@pytest.mark.parametrize("kind", MAKERS)
def test_files_do_no_harm(kind: str) -> None:
    pytest.importorskip("torch", reason="some of the files are PyTorch's")
    pytest.importorskip("tensorflow", reason="some of the files are TensorFlow's")
    hostile("--classes", kind, "--sample", "5")
