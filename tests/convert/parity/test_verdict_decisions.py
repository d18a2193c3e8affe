"""Decisions of the verdict that depend on one comparison, on both sides of it, with numbers worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert import plugin
from convert.errors import Location, Unsupported
from convert.graph import Graph
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Divergence, OutputVerdict, Verdict
from convert.parity import two_artefacts
from convert.parity.compare import declared_signature, overflow
from convert.parity.compare.outputs import _differences_of_float32
from convert.parity.compare.randomness import random_outputs
from convert.parity.compare.special_verdict import _Excuse, _excused_rows
from convert.parity.evidence import RunOutputs
from convert.parity.generation.decoders import _prompt
from convert.parity.inputs import size_search
from convert.parity.inputs.feeds import Feed
from convert.parity.locate.places import _locate_in_graph
from convert.parity.method import VerifyMethod
from convert.parity.pairing.weights import _comparable
from convert.request import stored
from convert.request.options import Options
from convert.runtimes.declared_signature import DeclaredSignature, DeclaredTensor
from convert.runtimes.generation import Generation
from convert.runtimes.trace import Trace, TraceStep, summarize
from tests.convert.parity.input_models import plain

F = ir.DataType.FLOAT
NAN, INF = np.nan, np.inf


# -- ties -------------------------------------------------------------------------------------------------------------


def picker(operator: str = "TopK", computed: bool = True) -> tuple[ir.Model, ir.Node]:
    g = Graph()
    x = g.input("x", F, [1, "n"])
    scores = g.Identity(x) if computed else x
    node = g.ArgMax(scores, axis=1) if operator == "ArgMax" else g.TopK(scores, np.array([2]), outputs=2)[1]
    g.output(node, "y")
    return g.model(), next(n for n in g.model().graph if n.op_type == operator)


# -- errors, noises and margins ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lost", "off", "told"), [(1, 2.0, True), (0, 2.0, True), (1, 0.0, False)])
def test_numbers_of_float32_alone_are_compared_on_every_set(lost: int, off: float, told: bool) -> None:
    """On one of two sets the second element is a number in float32, and none in float64."""
    exact = [np.array([1.0, 2.0, 3.0]) for _ in range(2)]
    source, target = ([e.astype(np.float32) for e in exact] for _ in range(2))
    exact[lost][1] = INF
    target[lost][1] += off
    found = _differences_of_float32(exact, source, target)
    assert found == ("1 elements are numbers in float32 and none in float64, and differ" if told else "")
    words = [np.array(["a"], object)] * 2
    assert _differences_of_float32(words, words, words) == ""


def test_single_weights_are_compared_with_single_ones() -> None:
    one, none, two = (ir.tensor(np.zeros(n, np.float32)) for n in (1, 0, 2))
    assert list(_comparable({"w": one}, {"w": one})) == ["w"]
    assert list(_comparable({"w": one}, {"w": none})) == []
    assert list(_comparable({"w": one}, {"w": two})) == []
    assert list(_comparable({"w": two}, {})) == ["w"]


# -- larger numbers ---------------------------------------------------------------------------------------------------


def test_outputs_of_other_shapes_tell_no_overflow() -> None:
    """An output of another shape is judged as such, and not ignored as an overflow."""
    lost, one, two = np.array([NAN]), np.array([NAN, NAN]), np.ones(2)
    assert overflow._overflow_reason([lost], [two], [two]) == ""
    assert overflow._overflow_reason([two * NAN], [lost], [np.ones(1)]) == ""
    assert overflow._overflow_reason([one], [one], [np.ones(1)]) == ""
    assert overflow._overflow_reason([lost], [one], [two]) == ""
    assert overflow._overflow_reason([one], [one], [two]) == "the source is infinite or NaN, and the target is not,"
    assert overflow._overflow_reason([one], [two], [one]) == "in its own dtypes the source overflows"


def test_an_output_that_the_target_lacks_has_no_number_where_the_source_has_none() -> None:
    feeds = [Feed("large", {}, edge=True, uneven=True)]
    lost = [{"y": np.array([NAN])}]
    runs = RunOutputs({"float32": lost, "float64": lost}, [{}], lost)
    assert overflow.without_overflow(plain(), feeds, runs)[0] == feeds


# -- small elements ---------------------------------------------------------------------------------------------------


# -- special values, random numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        (np.ones((3, 2)), np.ones((3, 2)), frozenset({1})),
        (np.ones((3, 1)), np.ones((3, 2)), None),
        (np.ones((3, 2)), np.ones((3, 1)), None),
        (np.ones((4, 2)), np.ones((4, 2)), None),
        (np.ones(()), np.ones(()), None),
    ],
)
def test_rows_go_their_own_ways_where_other_rows_change_no_shape(
    before: np.ndarray, after: np.ndarray, rows: frozenset[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = iter([before, after])
    monkeypatch.setattr("convert.reference.executor.run", lambda *_, **__: {"y": next(given)})
    excuse = _Excuse(plain().graph.node(0), frozenset({1}))
    assert _excused_rows(plain(), "y", [excuse], {"x": np.zeros((3, 4))}) == rows


def test_all_states_of_a_scan_are_told_from_what_it_scans() -> None:
    """The second of two states is random from the second iteration on, and so are the values computed from it."""
    body = Graph()
    first, second, row = (body.input(n, F, [3]) for n in ("first", "second", "row"))
    body.output(body.Add(first, row), "a")
    body.output(body.RandomNormal(shape=[3]), "b")
    body.output(body.Mul(second, row), "c")
    g = Graph()
    x, start = g.input("x", F, [2, 3]), g.const(np.zeros(3, np.float32))
    made = g.Scan(start, start, x, body=body.model().graph, num_scan_inputs=1, outputs=3)
    for value, name in zip(made, ("one", "two", "three"), strict=True):
        g.output(value, name)
    assert sorted(random_outputs(g.model())) == ["three", "two"]


# -- places, ends, generation -----------------------------------------------------------------------------------------


def test_the_first_output_of_a_step_is_described() -> None:
    values = {"a": summarize(np.ones((2, 3))), "b": summarize(np.ones((4, 5, 6)))}
    step = TraceStep(Location(operator="Split", node="split", module="block"), (), ("a", "b"))
    found = _locate_in_graph(Divergence("Split", "", "", "", [], ""), set(), Trace([step], values, "float32"))
    assert "2, 3" in found.instead
    assert "4, 5" not in found.instead


@pytest.mark.parametrize(
    ("status", "theirs", "after", "reason", "notes"),
    [
        (PASS, False, FAIL, "the target has its inputs in the order b, a, and the source in the order a, b", 0),
        (INCONCLUSIVE, False, FAIL, "the target has its inputs in the order b, a, and the source in the order a, b", 0),
        (FAIL, False, FAIL, "before", 0),
        (PASS, True, PASS, "before", 1),
    ],
)
def test_other_ends_than_declared_fail(
    status: str, theirs: bool, after: str, reason: str, notes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = DeclaredSignature(
        [DeclaredTensor(n, "float", (None, 4)) for n in "ba"], [DeclaredTensor("y", "float", (None, 4))]
    )
    runner = SimpleNamespace(declared_signature=lambda target: declared)
    monkeypatch.setattr(plugin, "runner_for", lambda kind: runner if kind == "onnx" else None)
    g = Graph()
    a, b = (g.input(n, F, ["n", 4]) for n in "ab")
    g.output(g.Add(a, b), "y")
    verdict = Verdict(status, "before", outputs=[OutputVerdict("y")])
    method, source, target = VerifyMethod(theirs=theirs), SimpleNamespace(kind="pytorch"), SimpleNamespace(kind="onnx")
    verdict = verdict.after(
        declared_signature.compare_declared_signature(
            source, target, g.model(), [], "", method, dtypes=not verdict.stored
        )
    )  # type: ignore[arg-type]
    assert (verdict.status, verdict.reason, len(verdict.notes)) == (after, reason, notes)


@pytest.mark.parametrize(
    ("kept", "theirs", "status", "notes"),
    [("", False, FAIL, 0), (stored.WEIGHTS, False, PASS, 0), ("", True, PASS, 0), (stored.WEIGHTS, True, PASS, 0)],
)
def test_inputs_have_the_graphs_dtypes_where_nothing_was_narrowed(
    kept: str, theirs: bool, status: str, notes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = DeclaredSignature([DeclaredTensor("x", "double", (None, 4))], [DeclaredTensor("y", "float", (None, 4))])
    runner = SimpleNamespace(declared_signature=lambda target: declared)
    monkeypatch.setattr(plugin, "runner_for", lambda kind: runner if kind == "onnx" else None)
    verdict = Verdict(PASS, outputs=[OutputVerdict("y")], stored=kept)
    method, source, target = VerifyMethod(theirs=theirs), SimpleNamespace(kind="pytorch"), SimpleNamespace(kind="onnx")
    verdict = verdict.after(
        declared_signature.compare_declared_signature(
            source, target, plain(), [], "", method, dtypes=not verdict.stored
        )
    )  # type: ignore[arg-type]
    assert (verdict.status, len(verdict.notes)) == (status, notes)


def test_two_artefacts_are_each_others_and_the_second_is_read_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(two_artefacts, "_read_right", lambda *given: Unsupported("no"))
    monkeypatch.setattr(two_artefacts, "verify", lambda *given: asked.append(given[4]) or Verdict(PASS))
    report, stages = Report("verify"), []  # type: ignore[var-annotated]
    stage = report.stage
    monkeypatch.setattr(report, "stage", lambda *names: stages.append(names) or stage(*names))
    left, right = (SimpleNamespace(label=label, kind="onnx") for label in "ab")
    two_artefacts.verify_two(left, right, plain(), Options(), VerifyMethod(), report)  # type: ignore[arg-type]
    assert [method.theirs for method in asked] == [True]
    assert stages == [("read", "b"), ("verify",)]


def test_the_words_of_a_prompt_are_as_many_as_the_scores_of_that_name() -> None:
    outputs = [
        ir.Value(name=n, type=ir.TensorType(F), shape=ir.Shape([2, 6, d]))
        for n, d in (("other", 9), ("log" + "its", 3))
    ]
    made = ir.Model(ir.Graph([], outputs, nodes=[], opset_imports={"": 23}), ir_version=10)
    how = Generation(32, "ids", "".join(["log", "its"]), (), "", "")
    assert set(_prompt(made, how)[0].ravel()) == {1, 2}


# -- sizes ------------------------------------------------------------------------------------------------------------


def test_shapes_are_inferred_for_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes eight of ten seconds: the second begins at 8, and there is no third."""
    now = [0.0]
    seen: list[int] = []

    def agree(graph: Any, proto: Any, sizes: dict[str, int]) -> bool:
        now[0] += 8.0
        seen.append(sizes["n"])
        return sizes["n"] > 1

    monkeypatch.setattr(size_search, "monotonic", lambda: now[0])
    monkeypatch.setattr(size_search, "_shapes_agree", agree)
    found = list(size_search._that_fit(plain(), [{"n": n} for n in range(1, 9)]))
    assert seen == [1, 2]
    assert found == [{"n": 2}]


def test_sizes_of_two_and_channels_of_two_are_suggested() -> None:
    g = Graph()
    x = g.input("x", F, ["n", "t"])
    g.output(g.Add(x, np.zeros((1, 2), np.float32)), "y")
    assert size_search.suggested_sizes(g.model()) == [2]
    g = Graph()
    x = g.input("x", F, ["n", 2, "h"])
    y = g.Conv(x, np.zeros((2, 2, 1), np.float32))
    g.output(g.MatMul(g.Flatten(y), np.zeros((14, 3), np.float32)), "y")
    assert 7 in size_search.suggested_sizes(g.model())
