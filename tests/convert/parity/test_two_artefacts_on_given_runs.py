"""Two artefacts with given graphs and made-up runs: the pairing, and the messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert import plugin
from convert.errors import BadInput, UnsafeInput, Unsupported, UsageError
from convert.graph import Graph
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, Verdict
from convert.parity import two_artefacts
from convert.parity.method import VerifyMethod
from convert.parity.two_artefacts import verify_two
from convert.request.options import Options
from convert.request.source import Source

F = ir.DataType.FLOAT
LEFT, RIGHT = Source("onnx-object", model="left"), Source("onnx-object", model="right")


def graph(scale: float = 2.0, outputs: tuple[str, ...] = ("y",), name: str = "x") -> ir.Model:
    g = Graph()
    x = g.input(name, F, ["n", 3])
    w = g.initializer("w", ir.Tensor(np.full((3, 3), scale, np.float32)))
    for output in outputs:
        g.output(g.MatMul(x, w), output)
    return g.model()


class Judged:
    """Return `verify` of two sources, and the frontend of the right one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, verdict: Verdict, right: Any) -> None:
        self.verdict, self.right = verdict, right
        self.asked: list[tuple[Any, ...]] = []
        self.options: list[Options] = []
        monkeypatch.setattr(two_artefacts, "verify", lambda *given: self.asked.append(given) or verdict)
        monkeypatch.setattr(plugin, "frontend_for", lambda source: self)

    def read(self, source: Source, options: Options, report: Report) -> ir.Model:
        self.options.append(options)
        if isinstance(self.right, Exception):
            raise self.right
        return self.right


def judged(
    monkeypatch: pytest.MonkeyPatch, verdict: Verdict, right: Any, left: ir.Model | None = None,
    method: VerifyMethod | None = None, options: Options | None = None,
) -> tuple[Judged, Report]:  # fmt: skip
    made, report = Judged(monkeypatch, verdict, right), Report("verify")
    left = left or graph()
    report.verdict = verify_two(LEFT, RIGHT, left, options or Options(), method or VerifyMethod(), report)
    return made, report


def test_ends_are_paired_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    left = graph(outputs=("y", "aux", "z"))
    method = VerifyMethod(pairs={"aux": ""})
    right = graph(outputs=("y", "z"), name="in")
    made, report = judged(monkeypatch, Verdict(PASS), right, left, method)
    ((one, other, given, _, used),) = made.asked
    assert (one, other, given) == (LEFT, RIGHT, left)
    assert [v.name for v in left.graph.outputs] == ["y", "z"]
    assert (used.counterparts.inputs, used.counterparts.kept) == ({"x": "in"}, [0, 2])
    assert report.notes[0].startswith("inputs paired by place, because the names differ: x = in")
    assert "not compared, of the first only: aux" in report.notes
    assert {"read", "verify"} <= report.seconds.keys()


def test_nobody_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    for at_fault, kept in (("backend", ""), ("frontend", "frontend"), ("", "")):
        _, report = judged(monkeypatch, Verdict(FAIL, "y: error", at_fault), graph())
        assert report.verdict is not None
        assert (report.verdict.at_fault, report.verdict.reason) == (kept, "y: error")


@pytest.mark.parametrize(
    ("status", "stored", "told"),
    [(FAIL, "", True), (PASS, "", False), (INCONCLUSIVE, "", False), (FAIL, "int8", False)],
)
def test_weights_that_differ_come_first(status: str, stored: str, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    _, report = judged(monkeypatch, Verdict(status, "why", stored=stored), graph(2.5))
    weights = "weights differ: 1 of 1 tensors (w by 0.25 of its size)"
    assert report.verdict is not None
    assert report.verdict.reason == (f"{weights}; why" if told else "why")


def test_a_target_that_cannot_be_read_is_taken_to_have_the_same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = Verdict(FAIL, "why", "backend")
    made, report = judged(monkeypatch, verdict, Unsupported("it is locked"))
    assert report.notes == [
        "the second is taken to have the same names and weights, because it cannot be read: it is locked"
    ]
    assert report.verdict is not None
    assert (made.asked[0][4].counterparts, report.verdict.reason, report.verdict.at_fault) == (None, "why", "")
    with pytest.raises(Unsupported, match="it is locked"):
        judged(monkeypatch, verdict, Unsupported("it is locked"), method=VerifyMethod(pairs={"x": "x"}))


def test_a_broken_target_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    passed, failed = Verdict(PASS), Verdict(FAIL, "the target does not run: it died", "backend")
    wrong = Verdict(FAIL, "y: error", "backend", outputs=[OutputVerdict("y", FAIL)])
    graph_fails = Verdict(FAIL, "the graph does not run", "frontend")
    trusting = VerifyMethod(target=Options(trust=True))
    for error, verdict, method in (
        (BadInput("it is cut off"), passed, None),
        (BadInput("it is cut off"), passed, trusting),
        (UnsafeInput("it runs code"), passed, None),
        (BadInput("its shapes disagree", doubtful=True), failed, None),
    ):
        with pytest.raises(BadInput, match=error.message):
            judged(monkeypatch, verdict, error, method=method)
    judged(monkeypatch, passed, UnsafeInput("it runs code"), method=trusting)
    for verdict in (passed, wrong, graph_fails):  # an artefact that runs is judged
        judged(monkeypatch, verdict, BadInput("its shapes disagree", doubtful=True))


def test_artefacts_are_called_what_their_files_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    right = Source("onnx", path=tmp_path / "b.onnx")
    Judged(monkeypatch, Verdict(PASS), graph(outputs=("y", "z")))
    verify_two(LEFT, right, graph(), Options(), VerifyMethod(), report := Report("verify"))
    assert report.notes == [f"not compared, of {right.label} only: z"]


def test_sizes_that_the_right_fixes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right, left = graph(), graph()
    right.graph.inputs[0].shape = ir.Shape([4, 3])
    _, report = judged(monkeypatch, Verdict(PASS), right, left)
    assert report.notes == ["compared at n = 4 only, which the second is fixed to"]
    assert list(left.graph.inputs[0].shape or ()) == [4, 3]


def test_rules_of_the_users_are_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Options(rules=("mine",))
    assert judged(monkeypatch, Verdict(PASS), graph(), options=rules)[0].options[0].rules == ("mine",)
    own = VerifyMethod(target=Options(rules=("theirs",), model="m"))
    used = judged(monkeypatch, Verdict(PASS), graph(), options=rules, method=own)[0].options[0]
    assert (used.rules, used.model) == (("theirs",), "m")


def test_pairs_that_are_not_there_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--map names 'k', which the first does not have"):
        judged(monkeypatch, Verdict(PASS), graph(), method=VerifyMethod(pairs={"k": "x"}))
