"""Bounds of small helpers of a verification: values just within and just beyond."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import ConvertError, Unsupported
from convert.graph import Graph
from convert.graph.metadata import DIMS_KEY, RANGE_KEY
from convert.outcome.verdict import FAIL, INCONCLUSIVE, Element, OutputVerdict, Verdict
from convert.parity import verify
from convert.parity.inputs import feeds as inputs
from convert.parity.inputs import size_guards
from convert.parity.inputs.feeds import Feed
from convert.parity.pairing import weights
from convert.parity.runs import memory
from convert.processes import machine
from convert.processes.run_here import Limits

F, I = ir.DataType.FLOAT, ir.DataType.INT64  # noqa: E741


def of_weights(count: int, integers: int = 0) -> ir.Model:
    g = Graph()
    x = g.Add(g.input("x", F, ["n"]), np.ones(count, np.float32))
    if integers:
        x = g.Add(x, g.Cast(g.const(np.ones(integers, np.int16)), to=F))
    g.output(x, "y")
    return g.model()


# -- memory -----------------------------------------------------------------------------------------------------------


def test_a_run_takes_the_weights_and_once_more_the_floating_ones_in_float64() -> None:
    assert memory.bytes_of_run(of_weights(100)) == 400 + 800
    model = of_weights(100)
    model.graph.register_initializer(ir.Value(name="i", const_value=ir.tensor(np.ones(7, np.int16), name="i")))
    assert memory.bytes_of_run(model) == 400 + 800 + 14


@pytest.mark.parametrize(("there", "scarce"), [(4800, False), (4799, True)])
def test_memory_is_scarce_below_four_runs(there: int, scarce: bool) -> None:
    assert memory.is_scarce(of_weights(100), Limits(memory=there)) == scarce


def test_what_memory_lacks_is_told_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory", lambda: 1199)
    told = memory.lack_of_memory(of_weights(100), None)
    assert told.startswith("a run of the model in float64 takes some 1.2 ")
    assert told.endswith(" of memory (--verify tries it all the same)")
    assert memory.lack_of_memory(of_weights(100), Limits()) == told
    assert memory.lack_of_memory(of_weights(100), Limits(memory=1200)) == ""
    monkeypatch.setattr(machine, "memory", lambda: 1200)
    assert memory.lack_of_memory(of_weights(100), None) == ""


# -- floors -----------------------------------------------------------------------------------------------------------


# -- ties -------------------------------------------------------------------------------------------------------------


# -- inputs -----------------------------------------------------------------------------------------------------------


def gathered(rows: Any, noted: Any = None) -> ir.Model:
    g = Graph()
    at = g.input("at", I, [400])
    g.output(g.Gather(g.input("table", F, [rows, 2]), at, axis=0), "y")
    model = g.model()
    if noted is not None:
        model.graph.inputs[0].metadata_props[RANGE_KEY] = json.dumps(noted)
    return model


@pytest.mark.parametrize(
    ("rows", "noted", "span", "low", "high"),
    [
        (5, None, None, 0, 4),
        (5, None, (2, 3), 2, 3),
        (5, None, (2, 9), 2, 4),
        (5, None, (9, 12), 4, 4),
        (6, None, (9, 12), 5, 5),
        (5, [3, 8], None, 3, 8),
        (5, [3, 2], None, 3, 3),
        (5, [3, 8, "descending"], (0, 1), 3, 8),
        ("n", [0, "n"], None, 0, 3),
        (1, None, None, 0, 0),
    ],
)
def test_integers_are_of_the_range_that_is_noted_or_implied(
    rows: Any, noted: Any, span: Any, low: int, high: int
) -> None:
    spans = {} if span is None else {"at": span}
    feed = inputs.sized_feed(gathered(rows, noted), 0, {"n": 3}, spans)
    found = feed.arrays["at"]
    assert (found.min(), found.max(), found.dtype) == (low, high, np.int64)
    if noted is not None and "descending" in noted:
        assert (np.diff(found) <= 0).all()


@pytest.mark.parametrize(("low", "high", "sizes"), [
    (None, None, [2, 1, 3]), (2, None, [2, 2, 3]), (0, None, [2, 0, 3]), (None, 2, [2, 1, 2]), (5, 5, [5, 5, 5])
])  # fmt: skip
def test_a_batch_is_of_its_usual_its_least_and_its_largest_size(low: Any, high: Any, sizes: list[int]) -> None:
    g = Graph()
    g.output(g.Neg(g.input("x", F, ["n", 3])), "y")
    model = g.model()
    model.metadata_props[DIMS_KEY] = json.dumps({"n": [low, high]})
    assert [s["n"] for s in inputs.feed_sizes(model, 3)] == sizes


@pytest.mark.parametrize(
    ("shape", "rank", "limit"), [([3, 4], 0, 3), ([3, 4], 1, 4), ([3, 4], -1, 4), (["n", 4], 0, "n")]
)
def test_how_many_rows_a_gather_has(shape: Any, rank: int, limit: Any) -> None:
    g = Graph()
    at = g.input("at", I, [2])
    g.output(g.Gather(g.input("table", F, shape), at, axis=rank), "y")
    assert inputs.implied_limits(g.model().graph.inputs[0]) == [limit]


# -- sizes that guards ask for ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guard", "bounds", "found"),
    [
        ("n > 5", {}, {"n": 6, "m": 4}),
        ("n < 3", {}, {"n": 2, "m": 4}),
        ("n % 4 == 2", {}, {"n": 6, "m": 4}),
        ("n % 4 == 2", {"n": [1, 5]}, {"n": 2, "m": 4}),
        ("n == m + 1", {"m": [5, 9]}, {"n": 6, "m": 5}),
        ("n == 100", {}, {"n": 4, "m": 4}),
        ("n // (m - 4) == 1", {}, {"n": 3, "m": 6}),
    ],
)
def test_sizes_are_changed_as_little_as_guards_ask(guard: str, bounds: Any, found: dict[str, int]) -> None:
    assert size_guards.fit_sizes({"n": 4, "m": 4}, [guard], bounds) == found


# -- weights ----------------------------------------------------------------------------------------------------------


def test_a_square_weight_may_be_the_other_way_round() -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    turned, one_off = np.ravel(a.T), np.array([1.0, 2.0, 3.0, 5.0], np.float32)
    np.testing.assert_array_equal(weights._apart(np.ravel(a), turned, (2, 2), (2, 2)), np.zeros(4))
    np.testing.assert_array_equal(weights._apart(np.ravel(a), turned, (1, 4), (1, 4)), [0, 1, 1, 0])
    np.testing.assert_array_equal(weights._apart(np.ravel(a), turned, (4, 1), (2, 2)), np.zeros(4))
    np.testing.assert_array_equal(weights._apart(np.ravel(a), one_off, (2, 2), (2, 2)), [0, 0, 0, 1])


# -- the verdict's small decisions ------------------------------------------------------------------------------------


def feed(label: str, size: int) -> Feed:
    return Feed(label, {"x": np.zeros(size)})


def test_the_worst_feed_is_that_of_the_worst_element_that_failed() -> None:
    feeds = [feed("large", 9), feed("small", 2), feed("other", 5)]
    rows = [
        OutputVerdict("a", FAIL, elements=[Element((0,), 0, 1, 0.1, "large"), Element((1,), 0, 1, 0.3, "other")]),
        OutputVerdict("b", INCONCLUSIVE, elements=[Element((0,), 0, 1, 9.0, "large")]),
    ]
    assert verify._worst_feed(Verdict(FAIL, outputs=rows), feeds).label == "other"
    assert verify._worst_feed(Verdict(FAIL, outputs=rows[1:]), feeds).label == "small"


def test_runs_that_others_end_earlier_do_not_take_all() -> None:
    source = {"float32": [{}, {}, {}], "float64": [{}]}
    three, two, one = [{}] * 3, [{}] * 2, [{}]
    for others, whole in (
        ([three, {"a": three, "b": one}], True),
        ([three, {"a": three, "b": two}], False),
        ([two, {"a": three}], False),
        ([three, {"a": two, "b": three}], False),
        ([Unsupported("no kernel"), {"a": three}], True),
        ([ConvertError("broken"), {"a": three}], False),
        ([three, ConvertError("broken")], False),
    ):
        assert verify._takes_all(source, others) == whole
    assert verify._takes_all(ConvertError("broken"), [two])


def test_the_graph_stands_in_where_the_source_in_float64_ended() -> None:
    own = [{"y": np.zeros(1)}]
    graph = [{"y": np.full(1, i)} for i in range(3)]
    assert verify._completed(own * 3, graph, 2) == own * 2
    found = verify._completed(own, graph, 3)
    assert not isinstance(found, Unsupported)
    assert [float(o["y"][0]) for o in found] == [0, 1, 2]
    assert found[0] is own[0]
    told = verify._completed(own, Unsupported("no kernel"), 2)
    assert isinstance(told, Unsupported)
    assert told.message == "the source runs in float64 on some of the inputs only"
    assert verify._completed(own, Unsupported("no kernel"), 1) == own


@pytest.mark.parametrize(
    ("error", "dtype", "at_fault", "status", "start"),
    [
        (Unsupported("no"), F, "backend", FAIL, "the target does not run: no"),
        (Unsupported("no"), ir.DataType.FLOAT16, "backend", INCONCLUSIVE,
         "the target's runtime here lacks kernels for a model in float16: no"),
        (ConvertError("no"), ir.DataType.FLOAT16, "backend", FAIL, "the target does not run: no"),
        (Unsupported("no"), I, "backend", FAIL, "the target does not run: no"),
        (ConvertError("no"), F, "frontend", FAIL, "the shared graph does not run: no"),
    ],
)  # fmt: skip
def test_what_does_not_run(error: ConvertError, dtype: Any, at_fault: str, status: str, start: str) -> None:
    g = Graph()
    g.output(g.Neg(g.input("x", dtype, [2])), "y")
    told = verify.failed_run_verdict(error, g.model(), [feed("one", 1)], at_fault)
    assert (told.status, told.reason, told.feeds) == (status, start, ["one"])
    assert told.at_fault == (at_fault if status == FAIL else "")


def test_ends_that_are_no_tensors_are_not_compared() -> None:
    g = Graph()
    g.output(g.Neg(g.input("x", F, [2])), "y")
    model = g.model()
    model.graph.inputs[0].type = ir.SequenceType(ir.TensorType(F))
    told = verify.verify(None, None, model, None)  # type: ignore[arg-type]
    assert told.status == INCONCLUSIVE
    assert told.reason == "sequences and optionals at the ends of a model are not compared: x"


def test_half_precision_is_widened_to_what_the_graph_declares() -> None:
    g = Graph()
    x = g.input("x", F, [2])
    g.output(g.Neg(x), "wide")
    g.output(g.Cast(x, to=ir.DataType.FLOAT16), "half")
    found = {"wide": np.ones(2, np.float16), "half": np.ones(2, np.float16)}
    (got,) = verify._in_dtypes_of(g.model(), [found])
    assert {n: a.dtype.name for n, a in got.items()} == {"wide": "float32", "half": "float16"}
    (kept,) = verify._in_dtypes_of(g.model(), [{"wide": np.ones(2, np.float64)}])
    assert kept["wide"].dtype == np.float64
