"""Test operators on special values (`special_values.py`): some of PyTorch's rows by default, every table with
`long`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from special_known import is_known
from special_values import Found, isolated, rows_of, runner_of

from tests.support.cases import Case

TABLES = [("pytorch", "onnx"), ("tensorflow", "onnx"), ("onnx", "tf"), ("onnx", "keras"), ("onnx", "torch")]
MENDED = ("clamp_min", "floor_divide", "atan2", "hypot", "softshrink", "threshold", "sign", "bucketize")


def unknown_differences(source: str, target: str, step: int, only: tuple[str, ...] = ()) -> list[str]:
    """Return the unknown differences of every `step`-th row."""
    rows = [row for row in rows_of(source) if not only or row.operator in only][::step]
    found = [f for row in rows for f in runner_of(source, target)(row)]
    assert Counter(f.outcome for f in found)["same"]
    wrong = [f for f in found if f.outcome == "differs" and not is_known(source, target, f.operator, f.noted)]
    return [f"{f.operator} {f.label}: {f.detail}" for f in wrong]


def test_what_was_mended_of_pytorch_stays_so() -> None:
    pytest.importorskip("torch")
    assert unknown_differences("pytorch", "onnx", 4, MENDED) == []


@pytest.mark.long
@pytest.mark.parametrize(("source", "target"), TABLES)
def test_no_operator_differs_unknown(source: str, target: str) -> None:
    """Run the rows in a fresh process: each row forks a process of its own, which may crash."""
    command = [sys.executable, str(Path(__file__).with_name("special_values.py")), source, target]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    bad = ("differs", "unsaid", "ended")
    assert done.returncode == 0, "\n".join(w for w in done.stdout.splitlines() if w.startswith(bad))


def test_a_row_that_ends_its_process_is_named() -> None:
    def ends(row: Case) -> Iterator[Found]:
        yield Found(row.operator, "first", "same")
        os._exit(3)

    found = list(isolated(ends, Case("Op", (), {}, "row")))
    assert [(f.label, f.outcome, f.detail) for f in found] == [
        ("first", "same", ""), ("row", "ended", "the process ended with 3, after 'first'")
    ]  # fmt: skip
