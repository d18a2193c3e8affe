"""Inputs on which the source does not run in float64: there the graph is the reference, with a note."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import Unsupported
from convert.graph import Graph
from convert.outcome.verdict import INCONCLUSIVE, PASS, Verdict
from convert.parity.compare.special_verdict import take_special
from convert.parity.evidence import RunOutputs, note_stand_ins
from convert.parity.inputs.feeds import Feed
from tests.support.verdict_on import verdict_on

X = [np.random.default_rng(i).standard_normal(500) for i in range(3)]


def graph() -> ir.Model:
    g = Graph()
    g.output(g.Neg(g.input("x", ir.DataType.FLOAT, [500])), "y")
    return g.model()


def held(stand_ins: int, source_off: float = 0.0, target_off: float = 0.0) -> Verdict:
    """Return the verdict for a source and a target that are off by these shares on the last of three feeds."""
    exact = [{"y": -x} for x in X]
    shares = ([0.0, 0.0, source_off], [0.0, 0.0, target_off])
    source, target = ([{"y": (-x * (1 + s)).astype(np.float32)} for x, s in zip(X, off, strict=True)] for off in shares)
    runs = RunOutputs({"float32": source, "float64": exact}, target, [*exact], stand_ins=stand_ins)
    feeds = [Feed(f"set {i}", {"x": x}) for i, x in enumerate(X)]
    verdict = verdict_on(graph(), feeds, runs)
    return note_stand_ins(verdict, feeds, runs)


def test_the_feeds_without_a_float64_run_of_the_source_are_named() -> None:
    assert held(0).reference == "the source in float64"
    assert held(0).notes == []
    verdict = held(1)
    assert verdict.status == PASS
    assert verdict.reference == "the source in float64; on set 2: the shared graph in float64"
    assert verdict.notes == ["the source does not run in float64 on set 2: there the graph is compared with itself"]


@pytest.mark.parametrize(("stand_ins", "status"), [(0, PASS), (1, INCONCLUSIVE)])
def test_a_source_far_from_a_graph_that_judges_itself_proves_nothing(stand_ins: int, status: str) -> None:
    verdict = held(stand_ins, source_off=1e-4)
    assert verdict.status == status
    assert ("rounding does not explain that" in verdict.reason) == (status == INCONCLUSIVE)
    # Where the target follows the source, the graph is off.
    assert held(stand_ins, source_off=1e-4, target_off=1e-4).status == PASS


@pytest.mark.parametrize("at", [1, 2])
def test_the_special_inputs_are_no_stand_in_of_the_rest(at: int) -> None:
    outputs = [{"y": -x} for x in X]
    feeds = [Feed(f"set {i}", {"x": x}, edge=i > 0, special=i == at) for i, x in enumerate(X)]
    runs = RunOutputs({"float32": outputs, "float64": outputs}, outputs, outputs, stand_ins=1)
    plain, rest, special = take_special(feeds, runs)
    assert special is not None
    assert [len(plain), rest.stand_ins] == [2, 2 - at]
    runs = RunOutputs({"float32": outputs, "float64": Unsupported("no")}, outputs, outputs)
    assert take_special(feeds, runs)[1].stand_ins == 0
