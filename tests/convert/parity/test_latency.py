"""The latency of both sides: loading is left out, and a side that cannot be timed is noted."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import convert
from convert.errors import ConvertError, Unsupported
from convert.outcome.notes import Note
from convert.outcome.verdict import PASS, Latency
from convert.parity.inputs.feeds import Feed
from convert.parity.method import VerifyMethod
from convert.parity.runs.latency import measure_latency
from convert.processes.run_here import TIME, Limits, run_all
from convert.request.options import Options
from convert.request.source import Source
from tests.support.sides import Arrays, Side

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
SOURCE = Source("onnx-object", model="timed")


class Slow(Side):
    """A runner that loads for long, and takes this many seconds for each set of inputs."""

    def run(self, source: Source, feeds: list[Arrays], *, precision: str, options: Options) -> object:
        time.sleep(0.05)
        for _ in feeds:
            time.sleep(0.02)
        return [{} for _ in feeds]


def test_loading_is_left_out() -> None:
    """A sleep lasts as long as requested, or longer on a busy machine."""
    found = run_all(Slow(), SOURCE, [{}], (TIME,), Options())[TIME]  # type: ignore[arg-type]
    assert not isinstance(found, Unsupported)
    seconds = found[0]["seconds"]
    assert len(seconds) == 5
    assert np.median(seconds) > 0.015


@pytest.mark.slow
def test_a_pair_is_timed_where_it_is_asked_for() -> None:
    path = FIXTURES / "mnist_cnn.onnx"
    verdict = convert.verify(path, path, method=VerifyMethod(seeds=1, time=True)).verdict
    assert verdict is not None
    assert verdict.status == PASS
    assert verdict.latency is not None
    assert verdict.latency.inputs == verdict.feeds[0]
    assert min(verdict.latency.source, verdict.latency.target) > 0
    plain = convert.verify(path, path, method=VerifyMethod(seeds=1)).verdict
    assert plain is not None
    assert plain.latency is None


def test_what_cannot_be_timed_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(*given: object) -> object:
        class Broken:
            def results(self) -> object:
                raise ConvertError("no run")

        return Broken()

    monkeypatch.setattr("convert.parity.runs.latency.execute", execute)
    found = measure_latency((SOURCE, {}, Options()), (SOURCE, {}, Options()), Feed("one", {}), Limits())
    assert isinstance(found, Note)
    assert found.code == "not-timed"
    assert found.startswith("the source was not timed: no run")


def test_how_it_reads() -> None:
    text = str(Latency(0.002, 0.0005, "seed 0", 7, 2))
    assert text == "source 2 ms, target 0.5 ms (0.25×) for a run on seed 0; medians of 7 rounds, 2 CPUs"
    assert str(Latency(2.5, 5.0, "seed 0", 1, 1)).startswith("source 2.5 s, target 5 s (2.00×)")
