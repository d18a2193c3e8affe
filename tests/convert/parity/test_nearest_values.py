"""Values of two runs that are equal up to a layout, by their numbers; and weights that are equal, in any order."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.parity.locate.pairing import agreeing_names, departing_steps, steps_of, trace_graph
from convert.parity.locate.profile import _axis_moves, _best_arrangement, _relative_error
from convert.parity.pairing.weights import describe_weights
from convert.runtimes.trace import Trace, summarize

RNG = np.random.default_rng(0)
ARRAY = RNG.standard_normal((2, 3, 4, 5))


def least_error(reference: np.ndarray, value: np.ndarray) -> float:
    found = _best_arrangement(reference, value)
    assert found is not None
    assert _relative_error(reference, found[1]) == found[0]
    return found[0]


def test_the_error_is_relative_where_both_are_finite() -> None:
    exact = np.array([3.0, -4.0, np.nan, 1.0])
    value = np.array([3.0, -4.5, 1.0, np.inf])
    assert _relative_error(exact, value) == pytest.approx(np.sqrt(0.125) / np.sqrt(12.5))
    assert _relative_error(exact, exact) == 0
    assert _relative_error(exact, exact[:2]) is None
    assert _relative_error(np.full(2, np.nan), np.zeros(2)) is None
    assert _relative_error(np.zeros(2), np.ones(2)) is None


@pytest.mark.parametrize("perm", [(0, 2, 3, 1), (0, 3, 1, 2), (1, 0, 2, 3), (0, 1, 3, 2)])
def test_a_value_in_another_layout_is_the_same(perm: tuple[int, ...]) -> None:
    moved = ARRAY.transpose(perm)
    assert least_error(ARRAY, moved) == 0
    assert least_error(ARRAY, ARRAY.reshape(6, 20)) == 0
    assert least_error(ARRAY, moved + 1e-3) == pytest.approx(1e-3 / np.sqrt(np.mean(ARRAY**2)))
    assert perm in _axis_moves(4)


def test_a_value_whose_dims_are_turned_round_is_not() -> None:
    assert least_error(ARRAY, ARRAY.transpose(3, 2, 1, 0)) > 0.5
    assert (3, 2, 1, 0) not in _axis_moves(4)
    assert _axis_moves(2) == [(1, 0)]
    assert len(_axis_moves(3)) == 4, "all orders of three dims but as is and turned round"


def test_a_value_of_more_numbers_is_another() -> None:
    """[1, 2] and the same numbers twice have equal minimum, maximum, mean and mean square; each matches a value of its
    size.
    """
    few, many = np.array([1.0, 2.0]), np.array([1.0, 2.0, 1.0, 2.0])
    other = {size: np.linspace(5, 7, size) for size in (2, 4)}
    for ours, theirs in ((few, many), (many, few)):
        traces = [
            Trace([], {n: summarize(a) for n, a in values.items()})
            for values in ({"a": ours}, {"b": theirs, "c": other[ours.size], "d": other[theirs.size]})
        ]
        assert agreeing_names(*traces, 1e-6, ordered=False) == set()
        assert agreeing_names(traces[0], traces[0], 1e-6, ordered=False) == {"a"}


def chain(scale: float = 2.0) -> ir.Model:
    g = Graph()
    a = g.Mul(g.input("x", ir.DataType.FLOAT, [4, 5]), np.float32(scale))
    b = g.Exp(a)
    g.output(g.Tanh(g.Add(b, a)), "y")
    return g.model()


def test_values_agree_by_their_statistics_and_steps_depart_at_the_first_that_does_not() -> None:
    x = RNG.standard_normal((4, 5)).astype(np.float32)
    (ours, found), (theirs, _), (other, _) = (trace_graph(chain(s), {"x": x}) for s in (2.0, 2.0, 2.1))
    names = [step.outputs[0] for step in ours.steps]
    assert agreeing_names(ours, theirs, 1e-12, ordered=True) >= set(names)
    np.testing.assert_allclose(found["y"], np.tanh(np.exp(2.0 * x.astype(float)) + 2.0 * x), rtol=1e-12)
    agreed = agreeing_names(ours, other, 1e-6, ordered=True)
    assert not agreed & set(names)
    assert "x" in agreed
    assert [s.outputs[0] for s in departing_steps(ours, agreed)] == names
    assert [s.outputs[0] for s in departing_steps(ours, {names[1]})] == names[2:]
    assert [s.outputs[0] for s in departing_steps(ours, {names[0]})] == names[1:]
    assert list(departing_steps(ours, {names[-1]})) == []
    assert [s.outputs[0] for s in departing_steps(ours, set(), lambda s: s.outputs[0] != names[0])] == names[1:]


def test_order_counts_where_it_is_asked_for() -> None:
    array = RNG.standard_normal(100)
    ours, theirs = (Trace([], {"v": summarize(a)}) for a in (array, np.sort(array)))
    assert agreeing_names(ours, theirs, 1e-9, ordered=False) == {"v"}
    assert agreeing_names(ours, theirs, 1e-9, ordered=True) == set()
    near, far = (Trace([], {"v": summarize(array * (1 + e))}) for e in (1e-7, 1e-5))
    assert agreeing_names(ours, near, 1e-6, ordered=True) == {"v"}
    assert agreeing_names(ours, far, 1e-6, ordered=True) == set()
    assert agreeing_names(ours, Trace([], {"v": summarize(array[:50])}), 1.0, ordered=False) == set()


def test_what_a_branch_reads_is_an_input_of_the_step() -> None:
    g = Graph()
    x, c = g.input("x", ir.DataType.FLOAT, [2]), g.input("c", ir.DataType.BOOL, [])
    then, other = g.body("then"), g.body("other")
    then.output(then.Neg(x), "a")
    other.output(other.Abs(x), "b")
    g.output(g.facts(g.If(c, then_branch=then, else_branch=other), ir.DataType.FLOAT, [2]), "y")
    (step,) = steps_of(g.model().graph)
    assert set(step.inputs) >= {"c", "x"}
    assert step.outputs == ("y",)


def held(**arrays: np.ndarray) -> ir.Model:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [1])
    for name, array in arrays.items():
        g.output(g.Add(x, g.initializer(name, ir.Tensor(array))), f"{name}_out")
    return g.model()


W, V = (RNG.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
B = np.float32([0.0, 1.0, 2.0])
WITHOUT = "without a counterpart in r, which may have folded or rearranged them"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"w": W}, {"w": W}),
        ({"w": W}, {"other": W.T.copy()}),
        ({"w": W, "b": B}, {"b": -B[::-1] * -1, "w": W.T.copy()}),
        ({"w": W}, {"w": W * np.float32(1 + 5e-6)}),
        ({"b": B}, {"c": np.float32([-0.0, 1.0, 2.0])}),
        ({"s": np.float32([1.0])}, {"t": np.float32([2.0])}),  # single numbers with other names may be anything
    ],
)
def test_equal_weights_in_any_order_are_not_told(left: dict, right: dict) -> None:
    assert describe_weights(held(**left), held(**right), ("l", "r")) == ""


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        ({"w": W, "b": B}, {"w": W * np.float32(1.05), "b": B}, "1 of 2 tensors (w by 0.05 of its size)"),
        ({"w": W}, {"other": W * np.float32(1.05)}, "1 of 1 tensors (w by 0.05 of its size)"),
        ({"w": W, "v": V}, {"a": W * np.float32(1.05)}, f"2 of 2 tensors (w, v), 2 {WITHOUT}"),
        ({"b": B}, {"w": W}, f"1 of 1 tensors (b), 1 {WITHOUT}"),
        ({"s": np.float32([1.0])}, {"s": np.float32([2.0])}, "1 of 1 tensors (s by 1 of its size)"),
        (
            {f"w{i}": B + i for i in range(7)}, {f"w{i}": 2 * (B + i) for i in range(7)},
            "7 of 7 tensors (" + ", ".join(f"w{i} by 1 of its size" for i in range(5)) + " and 2 more)",
        ),
        (
            {f"w{i}": B + i for i in range(5)}, {f"w{i}": 2 * (B + i) for i in range(5)},
            "5 of 5 tensors (" + ", ".join(f"w{i} by 1 of its size" for i in range(5)) + ")",
        ),
    ],
)  # fmt: skip
def test_weights_that_differ_are_named_with_how_far(left: dict, right: dict, told: str) -> None:
    assert describe_weights(held(**left), held(**right), ("l", "r")) == f"weights differ: {told}"
