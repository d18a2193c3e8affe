"""The settings of other processors reach the tests, and failures under one are reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import processors
import pytest


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("..F\n1 failed, 2 passed, 3 skipped in 0.1s", {"failed": 1, "passed": 2, "skipped": 3}),
        ("4 passed in 1.0s\nI1129 a library's last words", {"passed": 4}),
        ("no tests ran in 0.0s", {}),
        ("1 error in 0.5s", {"error": 1}),
    ],
)
def test_counts_are_those_of_the_last_line(told: str, found: dict[str, int]) -> None:
    assert processors.counts(told) == found


@pytest.mark.slow
def test_a_test_that_fails_on_one_processor_is_named(tmp_path: Path) -> None:
    file = tmp_path / "test_one.py"
    file.write_text("import os\ndef test_one(): assert os.environ.get('OPENBLAS_CORETYPE') != 'Prescott'\n")
    words = ["--settings", "this one", "SSE3", "--workers", "0", str(file), "-p", "no:cacheprovider"]
    command = [sys.executable, processors.__file__, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 1, done.stdout + done.stderr
    assert rows[1:3] == [["this", "one", "1", "0", "0"], ["SSE3", "0", "1", "0"]]
    assert "test_one" in done.stdout
    assert done.stdout.splitlines()[-1] == "2 settings: 1 passed, 1 failed"
