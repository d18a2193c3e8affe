"""Mutated files of eleven formats: a sample of the quick formats by default, more of all behind `long`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.suites.fuzzing.judges import difference
from tests.suites.fuzzing.seeds import WRITERS

pytestmark = pytest.mark.not_core

ROOT = Path(__file__).resolve().parents[2]


def fuzz(formats: str, *more: str) -> None:
    """Run the suite in a process of its own: workers are forked from a process without threads."""
    command = [sys.executable, "-m", "tests.suites.fuzz", "--formats", formats, *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all("refused" in line for line in done.stdout.splitlines())


def test_sums_that_overflow_may_be_inf_or_nan() -> None:
    inf, nan = np.array([1, np.inf], "f4"), np.array([1, np.nan], "f4")
    assert difference([inf], [nan], []) != ""
    assert difference([inf], [nan], [np.array([1, 3e66])]) == ""
    assert difference([inf], [nan], [np.array([1, 3e30])]) != ""
    assert difference([nan], [nan], []) == ""
    assert difference([inf], [np.array([2, np.inf], "f4")], [np.array([1, 3e66])]) != ""


@pytest.mark.slow
def test_a_few_changes_are_refused_or_right() -> None:
    pytest.importorskip("onnxruntime", reason="it runs what was converted")
    fuzz("onnx,caffe2", "--count", "25")


@pytest.mark.long
@pytest.mark.parametrize("form", WRITERS)
def test_more_changes_are_refused_or_right(form: str) -> None:
    pytest.importorskip("torch", reason="several of the formats are PyTorch's")
    pytest.importorskip("tensorflow", reason="several of the formats are TensorFlow's")
    fuzz(form, "--first", "1000", "--count", "100")
