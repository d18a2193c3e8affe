"""The choice among several candidates: the step, the position, the index, the weights that differ most."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import Location
from convert.graph import Graph
from convert.graph.metadata import RANGE_KEY
from convert.outcome.verdict import FAIL, INCONCLUSIVE, Place
from convert.parity.generation.decoders import _prompt, compare_generation
from convert.parity.locate.pairing import departing_steps
from convert.parity.locate.places import _describe_counterpart
from convert.parity.locate.profile import _axis_moves, relevant_places
from convert.parity.pairing import weights
from convert.parity.pairing.weights import describe_weights, weight_differences
from convert.runtimes.generation import CachePart, Generation
from convert.runtimes.trace import Trace, TraceStep, summarize

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64


# -- generation -------------------------------------------------------------------------------------------------------


def test_the_first_row_of_a_prompt_is_shorter_where_there_is_a_mask() -> None:
    logits = ir.Value(name="logits", type=ir.TensorType(F), shape=ir.Shape([2, 6, 50]))
    masks = [ir.Value(name="mask", type=ir.TensorType(ir.DataType.INT64))]
    made = ir.Model(ir.Graph(masks, [logits], nodes=[], opset_imports={"": 23}), ir_version=10)
    for name in ("", "mask"):
        how = Generation(32, "ids", "logits", (CachePart("a", "b", (2, 0, 4)),), name, "")
        words, mask = _prompt(made, how)
        wanted = np.random.default_rng(0).integers(1, 50, (2, 6))
        ones = np.ones((2, 6))
        if name:
            wanted[0, :2] = ones[0, :2] = 0
        np.testing.assert_array_equal(words, wanted)
        np.testing.assert_array_equal(mask, ones)
        assert words.min() == (0 if name else words.min())
    masks[0].metadata_props[RANGE_KEY] = "[1, 1]"
    assert _prompt(made, how)[1].tolist() == np.ones((2, 6)).tolist()
    for last in ("n", 1):
        logits.shape = ir.Shape([2, 6, last])
        assert _prompt(made, how)[0][1].tolist() == [1] * 6


@pytest.mark.parametrize(("margin", "status"), [(31.9 * 2.0**-10, INCONCLUSIVE), (32.1 * 2.0**-10, FAIL)])
def test_tokens_are_tied_up_to_twice_sixteen_floors(margin: float, status: str) -> None:
    scores = np.array([[[4.0, 4.0 * (1 - margin), np.nan]]])
    wanted = {"tokens": np.array([[0]]), "scores": scores}
    got = {"tokens": np.array([[1]]), "scores": scores + np.array([0.0, -0.25, 0.0])}
    size = np.sqrt(np.mean(scores[0, 0, :2] ** 2))
    found = compare_generation(wanted, got, 2.0**-10 * 4 / size)
    assert (found.status, found.difference) == (status, pytest.approx(0.25))


def test_the_first_step_of_any_row_comes_before_later_ones() -> None:
    scores = np.tile(np.array([3.0, 1.0]), (2, 3, 1))
    tokens, others = np.zeros((2, 3), int), np.zeros((2, 3), int)
    others[0, 2] = others[1, 1] = 1
    found = compare_generation({"tokens": tokens, "scores": scores}, {"tokens": others, "scores": scores}, 1e-9)
    assert found.reason.startswith("token 2 of 3 of row 1 is 1 where the source has 0: its scores of the two are 2.0")


# -- where it departs -------------------------------------------------------------------------------------------------


def at(operator: str, module: str = "", source: str = "", node: str = "") -> Any:
    return Location(node=node, operator=operator, module=module, source=source)


@pytest.mark.parametrize("size", [3, 3000])
def test_the_counterpart_is_of_the_same_module_and_line(size: int) -> None:
    from convert.graph import location_of
    from convert.graph.metadata import MODULE_KEY, OPERATOR_KEY

    g = Graph()
    x = g.input("x", F, [size])
    for name in ("a", "b", "c"):
        g.output(g.Neg(x), name)
    made = g.model()
    for node, module in zip(made.graph, ("m1", "m2", "m3"), strict=True):
        node.metadata_props.update({MODULE_KEY: module, OPERATOR_KEY: "aten::neg"})
    values = {n: summarize(np.full(size, float(i))) for i, n in enumerate("abc")}
    ours = Trace([], values)
    for node, name in zip(made.graph, "abc", strict=True):
        place = location_of(node)
        step = TraceStep(at("aten::neg", place.module, place.source), ("x",), ("t",))
        told = _describe_counterpart(made, step, Trace([step], {"t": summarize(np.ones(size))}), ours)
        assert told == f"{place.operator}, {ours.describe_value(name)}"
        step = TraceStep(at("aten::neg", "m0", place.source), ("x",), ("t",))
        assert _describe_counterpart(made, step, Trace([step], {"t": summarize(np.ones(size))}), ours) == ""


def test_steps_depart_where_nothing_behind_them_agrees() -> None:
    steps = [TraceStep(at(n), tuple(i), (n,)) for n, i in (("a", "x"), ("b", "a"), ("c", "b"), ("d", "a"))]
    trace = Trace(steps, {n: summarize(np.ones(2)) for n in "abcd"})

    def found(*agreed: str) -> list[str]:
        return [s.outputs[0] for s in departing_steps(trace, set(agreed))]

    assert (found(), found("a"), found("b")) == (["a", "b", "c", "d"], ["b", "c", "d"], ["c", "d"])
    assert (found("c"), found("d"), found("c", "d")) == (["d"], ["b", "c"], [])
    whole = Trace(steps, {**trace.values, "b": summarize(np.arange(2))})
    assert [s.outputs[0] for s in departing_steps(whole, set())] == ["a", "c", "d"]
    assert [s.outputs[0] for s in departing_steps(trace, set(), lambda s: s.outputs != ("a",))] == ["b", "c", "d"]


def test_errors_before_something_right_are_of_no_value() -> None:
    g = Graph()
    x = g.input("x", F, [3])
    first = g.Neg(x)
    g.output(g.Abs(first), "y")
    g.output(g.Exp(x), "z")
    a, b, c = g.model().graph

    def told(*errors: float | None) -> list[float | None]:
        places = {n: Place("", "", "", "", 1.0, e) for n, e in zip((a, b, c), errors, strict=True)}
        return [p.error for p in relevant_places(places)]

    assert told(9.0, 4.0, 9.0) == [None, 4.0, 9.0]
    assert told(9.0, 4.1, 4.0) == [9.0, 4.1, 4.0]
    assert told(None, 5.0, None) == [None, 5.0, None]
    assert told(4.0, 5.0, 4.1) == [4.0, 5.0, 4.1]


def test_orders_of_three_dims() -> None:
    assert _axis_moves(1) == []
    assert _axis_moves(2) == [(1, 0)]
    assert _axis_moves(3) == [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1)]


# -- ties -------------------------------------------------------------------------------------------------------------


# -- weights ----------------------------------------------------------------------------------------------------------


def holding(**numbers: object) -> ir.Model:
    arrays = {name: np.array(a, np.float32) for name, a in numbers.items()}
    graph = ir.Graph([], [], nodes=[], opset_imports={"": 23})
    for name, array in arrays.items():
        value = ir.Value(name=name, const_value=ir.Tensor(array, name=name))
        graph.register_initializer(value)
    return ir.Model(graph, ir_version=10)


def test_weights_differ_beyond_a_hundred_thousandth() -> None:
    """In float32 a difference of 2**-20 in numbers of 2**-20 / 1e-5 is exactly a hundred-thousandth."""
    one, other = np.array([1.0, 1.0], np.float32), np.array([1.0, 2.0], np.float32)
    left, right = holding(w=one), holding(w=other)
    for bound, found in ((np.sqrt(0.5), False), (0.7, True), (0.71, False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(weights, "_ROUNDED", bound)
            assert bool(weight_differences(left, right)) == found
            assert bool(describe_weights(left, right, ("one", "two"))) == found


def test_numbers_that_differ_are_those_beyond_the_bound() -> None:
    """The bound is 2**-10 relative to a size of 2; only numbers beyond it are counted."""
    one = np.full((2, 3), 2.0)
    other = one + np.array([[2.0**-9, 2.0**-8, -(2.0**-9)], [-(2.0**-8), 0.0, 2.0**-7]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "_ROUNDED", 2.0**-10)
        (found,) = weight_differences(holding(w=one), holding(w=other))
    assert (found.elements, found.largest) == (3, 2.0**-8)


def test_weights_of_other_sizes_are_not_compared() -> None:
    left = holding(a=[1, 2], b=[1, 2, 3], c=1)
    right = holding(a=[1, 2, 3], b=[5, 2, 3], c=2)
    assert [(w.name, w.size) for w in weight_differences(left, right)] == [("b", 3), ("c", 1)]
    assert [w.name for w in weight_differences(left, right, most=1)] == ["b"]
    found = weight_differences(holding(w=[[3, 4]]), holding(w=[[3], [5]]))[0]
    assert (found.elements, found.shape, found.distance) == (None, (1, 2), pytest.approx(np.sqrt(0.5 / 12.5)))
