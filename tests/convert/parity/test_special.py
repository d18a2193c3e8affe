"""Special inputs, the outputs on them that matter, and their effect on a verdict."""

from __future__ import annotations

import json

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.metadata import DIMS_KEY, OPERATOR_KEY
from convert.outcome.notes import visible_notes
from convert.outcome.verdict import FAIL, PASS, Verdict
from convert.parity.compare.special_verdict import SpecialRun, judge_special, operators_behind
from convert.parity.inputs.feeds import generate_feeds, smallest_feed, special_feed
from convert.parity.inputs.special import reaches_shapes, special_difference
from convert.runtimes.differences import Difference, difference_notes

F, INTEGER = ir.DataType.FLOAT, ir.DataType.INT32
NAN, INF = np.nan, np.inf


def graph(operator: str = "Neg") -> ir.Model:
    g = Graph()
    g.output(g.node(operator, [g.input("x", F, ["batch", 4])]), "y")
    return g.model()


def test_a_batch_has_rows_of_nan_of_infinities_of_zeros_and_of_denormals() -> None:
    feed = special_feed(graph(), 3)
    assert feed is not None
    assert feed.special
    assert feed.edge
    x = feed.arrays["x"]
    assert x.shape == (4, 4)
    assert np.isnan(x).sum(axis=1).tolist() == [1, 0, 0, 0]
    assert [(x == INF).sum(), (x == -INF).sum()] == [1, 1]
    assert not x[2].any()
    tiny = np.finfo(np.float32).tiny
    assert np.all((np.abs(x[3]) > 0) & (np.abs(x[3]) < tiny))


def test_a_denormal_may_be_zero_and_what_becomes_of_it_may_not_differ() -> None:
    source = np.array([[1e-40, -1e-39, 1.0]], np.float32)
    got = np.array([[0.0, 0.0, 1.0]], np.float32)
    assert special_difference(source, source.astype(np.float64), None, got) == ""
    assert special_difference(np.log(source[:, :1]), np.log(source[:, :1]), None, np.array([[-INF]], np.float32)) != ""
    assert special_difference(source[:, :1] > 0, None, None, got[:, :1] > 0) != ""


def test_what_has_no_rows_has_one_nan() -> None:
    g = Graph()
    g.output(g.Neg(g.input("x", F, [5])), "y")
    feed = special_feed(g.model(), 3)
    assert feed is not None
    assert np.isnan(feed.arrays["x"]).sum() == 1


def test_integers_have_the_limits_of_their_dtype_but_for_indices_and_sizes() -> None:
    g = Graph()
    free, index, size = (g.input(n, INTEGER, [3]) for n in ("free", "index", "size"))
    g.output(g.Neg(free), "a")
    g.output(g.Gather(g.const(np.arange(7.0, dtype=np.float32)), index), "b")
    g.output(g.Expand(g.const(np.float32(1)), g.Cast(g.Abs(size), to=ir.DataType.INT64)), "c")
    model = g.model()
    feed = special_feed(model, 3)
    assert feed is not None
    ends = np.iinfo(np.int32)
    assert set(feed.arrays["free"].tolist()) == {ends.min, -1, ends.max}
    assert 0 <= feed.arrays["index"].min() <= feed.arrays["index"].max() < 7
    assert np.abs(feed.arrays["size"]).max() < 100
    assert [reaches_shapes(v) for v in model.graph.inputs] == [False, False, True]


def test_no_special_feed_where_nothing_takes_special_values() -> None:
    g = Graph()
    g.output(g.Not(g.input("x", ir.DataType.BOOL, [5])), "y")
    assert special_feed(g.model(), 3) is None


SOURCE = np.array([[NAN, 1.0, INF], [0.5, -2.0, -INF]], np.float32)


@pytest.mark.parametrize(
    ("place", "value"), [((0, 0), 0.0), ((0, 1), NAN), ((0, 2), 3.4e38), ((1, 2), INF), ((1, 1), -2.5)]
)
def test_a_difference_is_seen(place: tuple[int, int], value: float) -> None:
    got = SOURCE.copy()
    got[place] = value
    exact = SOURCE.astype(np.float64)
    assert special_difference(SOURCE, exact, exact, SOURCE) == ""
    assert special_difference(SOURCE, exact, exact, got).startswith("1 of 6 elements differ")


def test_what_the_source_itself_gets_differently_in_float64_does_not_count() -> None:
    exact = SOURCE.astype(np.float64)
    exact[0, 2], exact[1, 2] = 1e39, NAN
    got = SOURCE.copy()
    got[0, 2], got[1, 2] = 3e38, 7.0
    assert special_difference(SOURCE, exact, None, got) == ""
    # 10 % of noise next to a number allows a difference of the same size.
    exact[1, 0], got[1, 0] = 0.55, 0.6
    assert special_difference(SOURCE, exact, None, got) == ""


def test_integers_count_where_the_source_is_certain() -> None:
    source = np.array([1, 2, 3])
    assert special_difference(source, source, None, np.array([1, 2, 4])) != ""
    assert special_difference(source, np.array([1, 2, 4]), None, np.array([1, 2, 4])) == ""
    assert special_difference(source, source, None, np.array([1, 2])).startswith("shape [2]")


def run_on(target: np.ndarray, graph_float64: np.ndarray | None = None) -> SpecialRun:
    exact = SOURCE.astype(np.float64)
    meant = exact if graph_float64 is None else graph_float64
    return SpecialRun("special", {"out": SOURCE}, {"out": exact}, {"y": meant}, {"y": target})


def wrong() -> np.ndarray:
    """Return a number where the source has an infinity."""
    got = SOURCE.copy()
    got[np.isinf(SOURCE)] = 1.0
    return got


def test_a_difference_fails_a_pair_and_says_whose_it_is() -> None:
    verdict = Verdict(PASS)
    verdict = verdict.after(judge_special(graph(), run_on(wrong()), []))
    assert (verdict.status, verdict.at_fault) == (FAIL, "backend")
    assert "1.0 where the source has" in verdict.reason
    verdict = Verdict(PASS)
    verdict = verdict.after(judge_special(graph(), run_on(wrong(), wrong().astype(np.float64)), []))
    assert (verdict.status, verdict.at_fault) == (FAIL, "frontend")


def test_a_nan_that_kernels_lose_is_a_note_and_one_that_the_graph_loses_is_not() -> None:
    got = np.where(np.isnan(SOURCE), np.float32(1), SOURCE)
    verdict = Verdict(PASS)
    verdict = verdict.after(judge_special(graph(), run_on(got), []))
    assert verdict.status == PASS
    assert "its kernels lose a NaN" in verdict.notes[0]
    verdict = Verdict(PASS)
    verdict = verdict.after(judge_special(graph(), run_on(got, got.astype(np.float64)), []))
    assert (verdict.status, verdict.at_fault) == (FAIL, "frontend")


def test_a_declared_difference_is_a_note() -> None:
    declared = [Difference(("Neg",), "it passes over NaN", integers=False)]
    verdict = Verdict(PASS)
    verdict = verdict.after(judge_special(graph(), run_on(wrong()), declared))
    assert verdict.status == PASS
    assert "special values in Neg differ" in verdict.notes[0]
    verdict = Verdict(PASS)
    verdict = verdict.after(judge_special(graph("Abs"), run_on(wrong()), declared))
    assert verdict.status == FAIL


@pytest.mark.parametrize(("batch", "notes"), [("batch", 1), (0, 1), (2, 0)])
def test_what_concerns_inputs_without_elements_is_told_where_there_may_be_some(batch: int | str, notes: int) -> None:
    g = Graph()
    g.output(g.node("Neg", [g.input("x", F, [batch, 4])]), "y")
    assert len(difference_notes(g.model(), [Difference(("Neg",), "nothing is refused", empty=True)])) == notes


def test_a_difference_of_the_target_does_not_excuse_the_graph() -> None:
    declared = [Difference(("Neg",), "it passes over NaN", integers=False)]
    off = run_on(wrong(), wrong().astype(np.float64))
    verdict = Verdict(PASS)
    verdict = verdict.after(judge_special(graph(), off, declared))
    assert (verdict.status, verdict.at_fault) == (FAIL, "frontend")
    verdict = Verdict(PASS)
    verdict = verdict.after(judge_special(graph(), off, (), declared))
    assert verdict.status == PASS
    assert "special values in Neg differ" in verdict.notes[0]


def two_outputs() -> ir.Model:
    """Return outputs by a branch whose second output is declared to differ, by a loop, by a size, and by none of
    these.
    """
    g = Graph()
    x, flag = g.input("x", F, ["n"]), g.input("flag", ir.DataType.BOOL, [])
    then, other, body = Graph(g), Graph(g), Graph(g)
    for branch, operator in ((then, "Abs"), (other, "Neg")):
        branch.output(branch.node("Abs", [x]), f"{operator}_a")
        branch.output(branch.node(operator, [x]), f"{operator}_b")
    plain, differing = g.If(flag, then_branch=then, else_branch=other, outputs=2)
    body.input("i", ir.DataType.INT64, [])
    keep, state = body.input("keep", ir.DataType.BOOL, []), body.input("state", F, ["n"])
    body.output(body.Identity(keep), "kept")
    body.output(body.Neg(state), "next")
    rounds = g.Loop(g.const(np.int64(2)), flag, x, body=body, outputs=1)
    sized = g.Expand(g.const(np.float32(1)), g.Shape(g.Neg(x)))
    for value, name in ((plain, "plain"), (differing, "differing"), (rounds, "rounds"), (sized, "sized")):
        g.output(value, name)
    return g.model()


def test_a_declared_difference_counts_for_the_outputs_behind_it() -> None:
    declared = [Difference(("Neg",), "why", integers=False)]
    model = two_outputs()
    found = {str(v.name): operators_behind(model, v, declared) for v in model.graph.outputs}
    assert found == {"plain": [], "differing": ["Neg"], "rounds": ["Neg"], "sized": []}


def test_a_difference_beside_an_output_is_no_excuse() -> None:
    g = Graph()
    x = g.input("x", F, ["n", 3])
    g.output(g.Abs(x), "y")
    g.output(g.Neg(x), "z")
    declared = [Difference(("Neg",), "why", integers=False)]
    exact = SOURCE.astype(np.float64)
    for name, status in (("y", FAIL), ("z", PASS)):
        target = {"y": SOURCE, "z": SOURCE} | {name: wrong()}
        run = SpecialRun("special", {"y": SOURCE, "z": SOURCE}, {"y": exact, "z": exact}, None, target)
        verdict = Verdict(PASS)
        verdict = verdict.after(judge_special(g.model(), run, declared))
        assert verdict.status == status


def test_a_difference_of_a_source_s_operator_is_of_all_that_it_is_read_as() -> None:
    g = Graph()
    x = g.input("x", F, ["n"])
    g.output(g.Abs(g.Neg(x)), "y")
    model = g.model()
    for node in model.graph:
        node.metadata_props[OPERATOR_KEY] = "Lgamma" if node.op_type == "Neg" else "Lgammas"
    declared = [Difference((), "float32", sources=("Lgamma",)), Difference((), "more", sources=("Zeta",))]
    assert difference_notes(model, declared) == ["special values: Lgamma: float32"]
    assert [declared[0].of(node) for node in model.graph] == [True, False]


def test_what_is_only_told_excuses_nothing() -> None:
    declared = [Difference(("Neg",), "denormals", excuses=False), Difference(("Neg",), "in 3 dims", rank=3)]
    verdict = Verdict(PASS)
    verdict = verdict.after(judge_special(graph(), run_on(wrong()), declared))
    assert verdict.status == FAIL
    assert difference_notes(graph(), declared) == ["special values: Neg: denormals"]


@pytest.mark.parametrize(("number", "status"), [(0.0, PASS), (0.5, FAIL)])
def test_denormals_that_count_as_zeros_are_a_note(number: float, status: str) -> None:
    source = np.array([[1.0], [2.0], [0.0], [1.0]], np.float32)  # results of Sign, for example
    target = np.array([[1.0], [2.0], [0.0], [number]], np.float32)
    run = SpecialRun("special", {"out": source}, {"out": source.astype(np.float64)}, None, {"y": target})
    verdict = Verdict(PASS)
    verdict = verdict.after(judge_special(graph(), run))
    assert verdict.status == status
    assert any("take denormal numbers for 0" in note for note in verdict.notes) == (status == PASS)


def test_a_target_that_refuses_special_values_is_a_note() -> None:
    verdict = Verdict(PASS)
    verdict = verdict.after(judge_special(graph(), SpecialRun("", {}, None, None, {}, "it says no"), []))
    assert verdict.status == PASS
    assert verdict.notes == ["special values are not verified: it says no"]


def test_notes_name_the_operators_that_a_model_has() -> None:
    declared = [Difference(("Neg", "Abs"), "why", integers=False), Difference(("Neg",), "of integers", integers=True)]
    assert difference_notes(graph(), declared) == ["special values: Neg: why"]


@pytest.mark.parametrize(("low", "least"), [(None, 1), (0, 0), (3, 3)])
def test_the_smallest_feed_is_empty_where_the_contract_allows_it(low: int | None, least: int) -> None:
    g = Graph()
    g.output(g.Neg(g.input("x", ir.DataType.FLOAT, [4, "length"])), "y")
    model = g.model()
    model.metadata_props[DIMS_KEY] = json.dumps({} if low is None else {"length": [low, None]})
    feed = smallest_feed(model, 3)
    shapes = [f.arrays["x"].shape for f in generate_feeds(model)]
    found = [shape[1] for shape in shapes] if feed is None else [feed.arrays["x"].shape[1]]
    assert min(found) == least


def test_outputs_without_elements_do_not_differ() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert special_difference(empty, empty.astype(np.float64), None, empty) == ""
    assert special_difference(empty, None, None, np.zeros((0, 2), np.float32)).startswith("shape [0, 2]")


def test_integers_do_not_count_where_the_graph_has_other_ones() -> None:
    """If the graph's integer differs from the source's in either direction, the element is uncertain."""
    source, got = np.array([5, 5, 5]), np.array([4, 4, 5])
    for graph in (np.array([3, 3, 3]), np.array([7, 7, 7])):
        assert special_difference(source, None, graph, got) == ""
    assert special_difference(source, None, source, got)


@pytest.mark.parametrize(
    ("operator", "places", "status"),
    [("Neg", (0, 1), PASS), ("IsNaN", (0, 1), FAIL), ("Neg", (2, 0), FAIL), ("Neg", (0, 2), PASS)],
)
def test_a_nan_that_spreads_inside_of_its_row_is_a_note(operator: str, places: tuple[int, int], status: str) -> None:
    """It is a failure if the model tests for NaN, or if a row of ordinary numbers has one.

    Infinity times 0 is NaN, too.
    """
    source = np.concatenate([SOURCE, np.array([[1, 2, 3], [4, 5, 6]], np.float32)])
    got = source.copy()
    got[places] = NAN
    exact, verdict = source.astype(np.float64), Verdict(PASS)
    run = SpecialRun("special", {"out": source}, {"out": exact}, {"y": got.astype(np.float64)}, {"y": got})
    verdict = verdict.after(judge_special(graph(operator), run, []))
    assert verdict.status == status
    shown = visible_notes(verdict.notes, 0)
    assert [n.startswith("special values: NaN and infinities reach other elements") for n in shown] == [True] * (
        status == PASS
    )
