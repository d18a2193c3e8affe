"""Compare every program of the TensorFlow table, in every format, with TensorFlow itself.

One of eight runs by default; the others are slow.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convert
from convert import plugin
from tests.suites.programs.compare import FORMATS, check, refusal, skip_without_runtime
from tests.suites.programs.tensorflow import PROGRAMS
from tests.suites.programs.tensorflow_refused import REFUSED
from tests.support.marks import slow_but_one_of

ROWS = {row.name: row for row in PROGRAMS}


@cache
def source(name: str) -> Any:
    """The traced function."""
    return ROWS[name].concrete()


@cache
def expected(name: str) -> list[dict[str, np.ndarray]]:
    """Return TensorFlow's outputs for each input set."""
    return ROWS[name].run(source(name))


def test_the_table_is_whole() -> None:
    assert len(ROWS) == len(PROGRAMS) >= 60


def attempt(name: str, form: str, folder: Path) -> str:
    """Return the reason for which a program is refused, or "" if its artefact is right.

    Programs in `RUNTIMES` do not run on empty inputs.
    """
    rows = list(zip(ROWS[name].feeds, expected(name), strict=True))
    if (form, name) in RUNTIMES:
        rows = [(feed, want) for feed, want in rows if all(array.size for array in feed.values())]
    return refusal(source(name), form, folder, [feed for feed, _ in rows], [want for _, want in rows])


RUNTIMES = {("keras", "keras_subclassed"): "Add"}
"""Operators that a backend declares for inputs without elements, as in `test_onnx.py`."""


def test_what_runtimes_make_of_nothing_is_declared() -> None:
    for (form, name), operator in RUNTIMES.items():
        assert any(d.empty and operator in d.operators for d in plugin.differences("tensorflow", form))
        assert any(not array.size for feed in ROWS[name].feeds for array in feed.values())


@pytest.mark.parametrize("form", [*FORMATS, pytest.param("torch", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", slow_but_one_of(ROWS, 8))
def test_program(name: str, form: str, tmp_path: Path) -> None:
    skip_without_runtime(form)
    check(attempt(name, form, tmp_path), REFUSED.get(form, {}).get(name))


PROVING_NOTHING = {"switch_of_four": "one value everywhere"}
"""Programs for which random inputs prove nothing, with the words of the verdict."""


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in ROWS if name not in REFUSED.get("onnx", {})])
def test_program_is_verified(name: str, tmp_path: Path) -> None:
    """Programs that the tests above find right get the verdict PASS."""
    report = convert.convert(source(name), "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    if name in PROVING_NOTHING:
        assert (report.verdict.status, PROVING_NOTHING[name] in report.verdict.reason) == ("INCONCLUSIVE", True)
    elif ROWS[name].eager and report.verdict.status == "INCONCLUSIVE":  # oneDNN makes another function of the source
        assert "the source as deployed is" in report.verdict.reason
    else:
        assert report.verdict.status == "PASS", report.verdict.reason
