"""What a declared difference excuses: only what depends on elements that it is about, on the special inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest

from convert.differences import Difference
from convert.graph import Graph
from convert.parity.special_verdict import SpecialRun, judge_special, operators_behind
from convert.verdict import FAIL, PASS, Verdict

F = ir.DataType.FLOAT
NONFINITE = Difference(("Exp",), "it makes a number of NaN", integers=False, nonfinite=True)
EQUAL = Difference(("TopK",), "of equal elements it takes any", integers=False, equal=True)
PLAIN = np.array([[1, 2, 3], [3, 1, 2]], np.float32)
NAN = np.array([[1, np.nan, 3], [3, 1, 2]], np.float32)


def exponents() -> ir.Model:
    """Exp of the input as it is, of the input without NaN, and inside a branch."""
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
    """What is inside a branch is not looked at, and excuses as before."""
    model, arrays = exponents(), {"x": x.astype(np.float32)}
    found = {str(v.name) for v in model.graph.outputs if operators_behind(model, v, [NONFINITE], arrays)}
    assert found == excused
    every = {str(v.name) for v in model.graph.outputs if operators_behind(model, v, [NONFINITE])}
    assert every == {"given", "filled", "branch"}


def picks(axis: int = -1) -> ir.Model:
    """The values and the places of the largest two, and what is gathered at these places."""
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
        ([[1, 1 + 1e-6, 3], [3, 1, 2]], -1, BEHIND),  # which float32 rounds to the same elsewhere
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
    run = SpecialRun("special", source, exact, exact, target, arrays={"x": x})
    verdict = Verdict(PASS)
    judge_special(verdict, picks(), run, (), [EQUAL])
    assert verdict.status == status
