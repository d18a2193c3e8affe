"""Compare every program of the PyTorch and TorchScript tables, in ONNX and as a SavedModel, with PyTorch itself.

One of eight runs by default; the others are slow.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import convert
from tests.suites.programs import (  # noqa: F401  (fill the table)
    torchscript,
    torchscript_asked,
    torchscript_modules,
    torchscript_numbers,
    torchscript_users,
)
from tests.suites.programs.compare import check, refusal
from tests.suites.programs.pytorch import PROGRAMS, REFUSED
from tests.suites.programs.torch_program import SCRIPTS, run_source, source_of, specs_of
from tests.support.marks import slow_but_one_of

ROWS = {row.name: row for row in [*PROGRAMS, *SCRIPTS]}


@cache
def expected(name: str) -> tuple[list[dict[str, np.ndarray]], list[dict[str, np.ndarray]]]:
    """Return the feeds, and PyTorch's outputs for each."""
    return run_source(ROWS[name])


def attempt(name: str, form: str, folder: Path) -> str:
    """Return the reason for which a program is refused, or "" if its artefact is right."""
    feeds, outputs = expected(name)
    return refusal(source_of(ROWS[name]), form, folder, feeds, outputs, inputs=specs_of(ROWS[name]))


def test_the_table_is_whole() -> None:
    assert len(ROWS) == len(PROGRAMS) + len(SCRIPTS)
    assert len(PROGRAMS) >= 80
    assert len(SCRIPTS) >= 50
    assert all(len(row.calls) > 1 for row in ROWS.values())
    assert set().union(*REFUSED.values()) <= set(ROWS)


@pytest.mark.parametrize("form", ["onnx", pytest.param("tf", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", slow_but_one_of(ROWS, 8))
def test_program(name: str, form: str, tmp_path: Path) -> None:
    check(attempt(name, form, tmp_path), REFUSED.get(form, {}).get(name))


PROVING_NOTHING = {
    **dict.fromkeys(("overflow", "Greedy", "GreedyLabels"), "does not depend on the inputs"),
    "while_norm": "no input reached the else branch",  # random inputs are never as short as 0.1
}
"""Programs for which random inputs prove nothing, with the words of the verdict."""

ONCE_REFUSED = ("Conditional", "statistics in eval", "Packed", "lookups", "paddings", "resized", "normalized",
                "hooked", "spectrum_parts", "MaskedEncoder")  # fmt: skip
"""Programs that a verification refused once: control flow in float64, a batch of one, lengths, evaluation of the graph,
special values, an epsilon that follows the dtype, kernels that PyTorch takes without gradients."""


FALSE_ALARMS = {
    "Curvatures": "forward mode multiplies an infinite input by the 0 that a weight changes by; a capture does not",
    "padded_pieces": "lengths that are drawn do not add up: it needs --inputs",
}
"""Right programs that a verification by default calls wrong, or cannot run, with what differs."""


def _marks(name: str) -> list[pytest.MarkDecorator]:
    known = [pytest.mark.xfail(reason=FALSE_ALARMS[name], strict=True)] if name in FALSE_ALARMS else []
    return [pytest.mark.slow if name in ONCE_REFUSED else pytest.mark.long, *known]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=_marks(name)) for name in ROWS if name not in REFUSED["onnx"]]
)
def test_program_is_verified(name: str, tmp_path: Path) -> None:
    """Programs that the tests above find right get the verdict PASS."""
    report = convert.convert(source_of(ROWS[name]), "onnx", tmp_path / "m.onnx", inputs=specs_of(ROWS[name]))
    assert report.verdict is not None
    if name in PROVING_NOTHING:
        assert (report.verdict.status, PROVING_NOTHING[name] in report.verdict.reason) == ("INCONCLUSIVE", True)
    else:
        assert report.verdict.status == "PASS", report.verdict.reason
