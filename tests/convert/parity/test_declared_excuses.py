"""On special inputs, a declared difference explains only outputs that depend on the affected elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.outcome.verdict import FAIL, PASS, Verdict
from convert.parity.compare.special_verdict import SpecialRun, judge_special, operators_behind
from convert.reference.executor import run
from convert.runtimes.differences import Difference

F = ir.DataType.FLOAT
NONFINITE = Difference(("Exp",), "it makes a number of NaN", integers=False, nonfinite=True)
EQUAL = Difference(("TopK",), "of equal elements it takes any", integers=False, equal=True)
PLAIN = np.array([[1, 2, 3], [3, 1, 2]], np.float32)
NAN = np.array([[1, np.nan, 3], [3, 1, 2]], np.float32)


def exponents() -> ir.Model:
    """Return Exp of the input, of the input without NaN, and inside a branch."""
    g = Graph()
    x = g.input("x", F, ["n", 3])
    g.output(g.Exp(x), "given")
    g.output(g.Neg(g.Exp(g.Where(g.IsNaN(x), np.float32(0), x))), "filled")
    then, other = Graph("then", parent=g), Graph("other", parent=g)
    then.output(then.Exp(then.Abs(x)), "exp")
    other.output(other.Abs(x), "abs")
    g.output(g.If(g.const(np.bool_(True)), then_branch=then, else_branch=other), "branch")
    return g.model()


@pytest.mark.parametrize(
    ("x", "excused"),
    [
        (NAN, {"given", "branch"}),
        (PLAIN, {"branch"}),
        (np.where(PLAIN > 2, -np.inf, PLAIN), {"given", "filled", "branch"}),
    ],
)
def test_a_difference_about_nan_and_infinities_needs_one_of_them(x: np.ndarray, excused: set[str]) -> None:
    """Values inside a branch are not examined, so the difference still explains them."""
    model, arrays = exponents(), {"x": x.astype(np.float32)}
    found = {str(v.name) for v in model.graph.outputs if operators_behind(model, v, [NONFINITE], arrays)}
    assert found == excused
    every = {str(v.name) for v in model.graph.outputs if operators_behind(model, v, [NONFINITE])}
    assert every == {"given", "filled", "branch"}


def test_a_difference_about_an_activation_concerns_layers_that_have_it() -> None:
    relu = Difference(("LSTM",), "its Relu passes over NaN", integers=False, activations=("Relu",))
    g = Graph()
    x = g.input("x", F, [1, "n", 3])
    w, r = np.ones((1, 8, 3), np.float32), np.ones((1, 8, 2), np.float32)
    usual = g.LSTM(x, w, r, hidden_size=2, outputs=3)[0].producer()
    other = g.LSTM(x, w, r, hidden_size=2, activations=["Sigmoid", "Relu", "Relu"], outputs=3)[0].producer()
    assert usual is not None
    assert other is not None
    assert (relu.of(usual), relu.of(other)) == (False, True)


def picks(axis: int = -1) -> ir.Model:
    """Return the values and the indices of the largest two, and what is gathered at these indices."""
    g = Graph()
    x = g.input("x", F, ["n", 3])
    values, places = g.TopK(x, g.const(np.array([2], np.int64)), axis=axis, outputs=2)
    g.output(g.Neg(values), "values")
    g.output(g.Identity(places), "places")
    g.output(g.GatherElements(g.Exp(x), places, axis=axis), "gathered")
    return g.model()


BEHIND = {"places", "gathered"}


@pytest.mark.parametrize(
    ("x", "axis", "excused"),
    [
        ([[1, 2, 3], [3, 1, 2]], -1, set()),
        ([[1, 2, 3], [3, 1, 3]], -1, BEHIND),
        ([[1, 2, 3], [3, 1, 3]], 0, BEHIND),
        ([[1, 2, 3], [1, 3, 2]], -1, set()),
        ([[1, 2, 3], [1, 3, 2]], 0, BEHIND),
        ([[np.nan, 2, np.nan], [3, 1, 2]], -1, BEHIND),
        ([[np.inf, np.inf, 1], [3, 1, 2]], -1, BEHIND),
        ([[np.inf, -np.inf, 1], [3, 1, 2]], -1, set()),
        ([[1, 1 + 1e-6, 3], [3, 1, 2]], -1, BEHIND),  # elsewhere float32 rounds these to equal numbers
        ([[0, -0.0, 3], [3, 1, 2]], -1, BEHIND),
    ],
)
def test_a_difference_about_equal_elements_needs_some_and_excuses_places(
    x: Sequence[Sequence[float]], axis: int, excused: set[str]
) -> None:
    model = picks(axis)
    arrays = {"x": np.array(x, np.float32)}
    found = {str(v.name) for v in model.graph.outputs if operators_behind(model, v, [EQUAL], arrays)}
    assert found == excused
    assert {str(v.name) for v in model.graph.outputs if operators_behind(model, v, [EQUAL])} == BEHIND


def test_what_cannot_be_evaluated_excuses_as_declared() -> None:
    model = picks()
    odd = model.graph.node(0)
    assert odd.op_type == "TopK"
    before = ir.Node("nobody", "Unknown", [model.graph.inputs[0]], name="odd")
    before.outputs[0].name, before.outputs[0].dtype = "o", F
    model.graph.insert_before(odd, before)
    odd.replace_input_with(0, before.outputs[0])
    assert operators_behind(model, model.graph.outputs[1], [EQUAL], {"x": PLAIN}) == ["TopK"]


@pytest.mark.parametrize(("name", "status"), [("values", FAIL), ("places", PASS)])
def test_wrong_numbers_behind_the_values_that_are_picked_fail(name: str, status: str) -> None:
    """Equal elements are the same number, whichever comes first."""
    x = np.zeros((2, 3), np.float32)
    source = {"values": np.zeros((2, 2), np.float32), "places": np.array([[0, 1], [1, 0]]), "gathered": np.ones((2, 2))}
    exact = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in source.items()}
    target = source | {name: source[name] + 1}
    special = SpecialRun("special", source, exact, exact, target, arrays={"x": x})
    verdict = Verdict(PASS)
    verdict = verdict.after(judge_special(picks(), special, (), [EQUAL]))
    assert verdict.status == status


ROWS = np.array([[1, np.nan, 3], [3, np.inf, 2], [0, 0, 0], [4, 5, 6]], np.float32)


def rows_apart(mixed: bool = False) -> ir.Model:
    """Return Tanh of Exp; with `mixed`, minus the maximum of each column, which mixes rows."""
    g = Graph()
    x = g.input("x", F, ["n", 3])
    y = g.Tanh(g.Exp(x))
    g.output(g.Sub(y, g.ReduceMax(y, g.const(np.array([0])))) if mixed else g.Neg(y), "y")
    return g.model()


def verdict_on(
    model: ir.Model,
    off: Sequence[int],
    of_target: Sequence[Difference],
    of_source: Sequence[Difference] = (),
    graph_off: Sequence[int] = (),
) -> Verdict:
    """Return the verdict on a target and a graph that differ from the source, which is `model`, in some rows."""
    (exact,) = run(model, {"x": ROWS.astype(np.float64)}).values()
    source = exact.astype(np.float32)

    def wrong(array: np.ndarray, rows: Sequence[int]) -> np.ndarray:
        changed = array.copy()
        changed[list(rows)] = 0.5
        return changed

    verdict = Verdict(PASS)
    special = SpecialRun("special", {"y": source}, {"y": exact}, {"y": wrong(exact, graph_off)},
                         {"y": wrong(source, off)}, arrays={"x": ROWS})  # fmt: skip
    return verdict.after(judge_special(model, special, of_target, of_source))


@pytest.mark.parametrize("row", range(4))
def test_a_difference_excuses_the_rows_that_it_is_about(row: int) -> None:
    """NaN and an infinity are in the first two rows; a target that is wrong in other rows is wrong."""
    verdict = verdict_on(rows_apart(), [row], [NONFINITE])
    assert verdict.status == (PASS if row < 2 else FAIL)
    both = verdict_on(rows_apart(), [0, row], [NONFINITE])
    assert both.status == verdict.status
    if row >= 2:
        assert both.at_fault == "backend"
        assert both.reason.startswith(
            "y: on special, in rows that no declared difference of Exp affects, 3 of 12 elements differ"
        )


def test_rows_that_meet_are_excused_together() -> None:
    assert verdict_on(rows_apart(mixed=True), [3], [NONFINITE]).status == PASS


def test_a_difference_about_anything_excuses_every_row() -> None:
    assert verdict_on(rows_apart(), [3], [Difference(("Exp",), "whatever", integers=False)]).status == PASS


def test_either_side_has_its_rows() -> None:
    """The source's runtime differs from the graph in one row and the target in another, each for its own reason."""
    of_source = [Difference(("Tanh",), "of equal ones", integers=False, nonfinite=True)]
    assert verdict_on(rows_apart(), [0], [NONFINITE], graph_off=[0]).status == FAIL
    assert verdict_on(rows_apart(), [0], [], of_source, graph_off=[0]).status == PASS
    assert verdict_on(rows_apart(), [0, 1], [NONFINITE], of_source, graph_off=[0]).status == PASS
    found = verdict_on(rows_apart(), [2], [NONFINITE], of_source, graph_off=[2])
    assert (found.status, found.at_fault) == (FAIL, "frontend")


@pytest.mark.parametrize(("row", "status"), [(2, PASS), (3, FAIL)])
def test_equal_elements_excuse_their_own_row(row: int, status: str) -> None:
    x = np.where(np.isfinite(ROWS), ROWS, 9)
    values = np.sort(x)[:, ::-1][:, :2]
    places = np.argsort(-x, axis=1, kind="stable")[:, :2]
    source = {"values": -values, "places": places, "gathered": np.exp(values)}
    exact = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in source.items()}
    target = {**source, "places": places.copy()}
    target["places"][row] = 1 - places[row]
    verdict = Verdict(PASS)
    verdict = verdict.after(
        judge_special(picks(), SpecialRun("special", source, exact, exact, target, arrays={"x": x}), (), [EQUAL])
    )
    assert verdict.status == status
