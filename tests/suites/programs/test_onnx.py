"""Compare every program of the ONNX table, in every format, with onnxruntime or ONNX's own evaluator."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import convert
from convert import plugin
from tests.suites.programs.compare import FORMATS, check, refusal, skip_without_runtime
from tests.suites.programs.onnx import PROGRAMS
from tests.suites.programs.onnx_program import OnnxProgram
from tests.suites.programs.onnx_refused import REFUSED
from tests.support.marks import slow_but_one_of

ROWS = {row.name: row for row in PROGRAMS}


@cache
def expected(name: str) -> list[dict[str, np.ndarray]]:
    """Return the source's outputs for each input set."""
    row = ROWS[name]
    names = [output.name for output in row.model.graph.output]
    return [dict(zip(names, values, strict=True)) for values in _run(row)]


def _run(row: OnnxProgram) -> list[list[np.ndarray]]:
    if row.oracle == "reference":
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(row.model)
        return [[np.asarray(y) for y in evaluator.run(None, feed)] for feed in row.feeds]
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    # Fused quantized products saturate in 16 bits on processors with AVX2 alone, which no specification says.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(row.model.SerializeToString(), options, ["CPUExecutionProvider"])
    return [[np.asarray(y) for y in session.run(None, feed)] for feed in row.feeds]


def test_the_table_is_whole() -> None:
    assert len(ROWS) == len(PROGRAMS) >= 60
    assert sum(len(row.feeds) > 1 for row in PROGRAMS) > 0.9 * len(PROGRAMS)


def attempt(name: str, form: str, folder: Path) -> str:
    """Return the reason for which a program is refused, or "" if its artefact is right.

    Programs in `RUNTIMES` do not run on empty inputs.
    """
    rows = list(zip(ROWS[name].feeds, expected(name), strict=True))
    if (form, name) in RUNTIMES:
        rows = [(feed, want) for feed, want in rows if all(array.size for array in feed.values())]
    return refusal(ROWS[name].model, form, folder, [feed for feed, _ in rows], [want for _, want in rows])


RUNTIMES = {
    ("keras", "empty_batch_through_a_network"): "Conv",
    ("tflite", "empty_batch_through_a_network"): "Conv",
    ("tflite", "empty_batch_through_pools"): "MaxPool",
    ("tflite", "depth_to_space_both_ways"): "SpaceToDepth",
    ("tflite", "matmuls_of_all_ranks"): "MatMul",
}
"""Operators that `DIFFERENCES` of a backend declare for inputs without elements, on all or some processors."""


def test_what_runtimes_make_of_nothing_is_declared() -> None:
    for (form, name), operator in RUNTIMES.items():
        declared = [d for d in plugin.differences("onnx", form) if d.empty and operator in d.operators]
        assert declared, (form, name)
        assert any(not array.size for feed in ROWS[name].feeds for array in feed.values())


PROVING_NOTHING: dict[str, str] = {}
"""Programs for which random inputs prove nothing, with the words of the verdict."""


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", slow_but_one_of(ROWS, 4))
def test_program(name: str, form: str, tmp_path: Path) -> None:
    skip_without_runtime(form)
    check(attempt(name, form, tmp_path), REFUSED.get(form, {}).get(name))


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in ROWS if name not in REFUSED["onnx"]])
def test_program_is_verified(name: str, tmp_path: Path) -> None:
    """Programs that the tests above find right get the verdict PASS."""
    report = convert.convert(ROWS[name].model, "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    if name in PROVING_NOTHING:
        assert (report.verdict.status, PROVING_NOTHING[name] in report.verdict.reason) == ("INCONCLUSIVE", True)
    else:
        assert report.verdict.status == "PASS", report.verdict.reason
