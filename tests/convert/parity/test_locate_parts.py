"""Parts of the search for the first differing node: distances, keys of operators, inner values, evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert import plugin
from convert.errors import ConvertError, Location
from convert.graph import Graph
from convert.graph.metadata import MODULE_KEY, OPERATOR_KEY, SOURCE_KEY
from convert.outcome.report import Report
from convert.outcome.verdict import Divergence
from convert.parity.inputs.feeds import Feed
from convert.parity.locate.places import (
    _describe_counterpart,
    _distance,
    _divergence,
    _locate_in_graph,
    _lowered_operators,
    _random_operators,
    _step_key,
    _without_inner_values,
    locate,
)
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.trace import Trace, TraceStep, summarize

F = ir.DataType.FLOAT
NAN, INF = np.nan, np.inf


def place(operator: str, module: str = "", source: str = "", node: str = "") -> Location:
    return Location(node=node, operator=operator, module=module, source=source)


@pytest.mark.parametrize(
    ("ours", "theirs", "distance"),
    [
        ([3.0, 4.0], [3.0, 4.0], 0.0),
        ([3.0, 4.0], [3.0, 4.5], 0.5 / np.sqrt(12.5)),
        ([3.0, -4.0], [2.0, -4.5], 1.0 / np.sqrt(12.5)),
        ([3.0, NAN, 4.0], [3.0, NAN, 4.5], 0.5 / np.sqrt(12.5)),
        ([3.0, INF], [4.0, -INF], 1.0 / 3),
        ([3.0, INF], [3.0, 1.0], INF),
        ([3.0, 1.0], [3.0, NAN], INF),
        ([NAN, INF], [NAN, INF], 0.0),
        ([3.0, 4.0], [3.0, 4.0, 5.0], INF),
        ([3.0, 4.0], None, INF),
        ([3.0, 4.0], np.array([3, 4]), INF),
        (np.array([3, 4]), [5.0, 6.0], 0.0),
        (np.zeros(0), [5.0, 6.0], 0.0),
        (["a"], ["b"], 0.0),
    ],
)
def test_how_far_outputs_are_from_each_other(ours: Any, theirs: Any, distance: float) -> None:
    a, b = ({} if o is None else {"y": np.array(o)} for o in (ours, theirs))
    assert _distance(a, b) == pytest.approx(distance, rel=1e-12)


def test_the_worst_output_counts_whichever_it_is() -> None:
    one, two = np.array([1.0, -1.0]), np.array([2.0, 2.0])
    for a, b, worst in [(0.5, 0.5, 0.5), (0.1, 0.5, 0.25), (0.5, 0.1, 0.5)]:
        found = _distance({"a": one, "b": two}, {"b": two + b, "a": one + a})
        assert found == pytest.approx(worst, rel=1e-12)


@pytest.mark.parametrize(
    ("operator", "key"),
    [("aten::add.Tensor", "add"), ("aten::add", "add"), ("relu", "relu"), ("a::b::mul.out.x", "mul"), ("", "")],
)
def test_the_key_of_an_operator_is_its_name_and_its_module(operator: str, key: str) -> None:
    assert _step_key(TraceStep(place(operator, "block.1"), (), ())) == (key, "block.1")


def made(value: ir.Value, operator: str, module: str = "", source: str = "") -> ir.Value:
    node = value.producer()
    assert node is not None
    node.metadata_props.update({k: v for k, v in ((OPERATOR_KEY, operator), (MODULE_KEY, module), (SOURCE_KEY, source))
                                if v})  # fmt: skip
    return value


def test_what_nodes_say_that_they_came_from() -> None:
    g = Graph()
    x = g.input("x", F, [3])
    a = made(g.Neg(x), "aten::neg.default", "stem")
    b = made(g.RandomNormal(shape=[3]), "aten::randn")
    c = made(g.Add(g.Abs(b), a), "aten::add.Tensor", "stem")
    g.output(made(g.Relu(a), "aten::relu", "head"), "y")
    g.output(c, "z")
    model = g.model()
    assert _lowered_operators(model) == {("neg", "stem"), ("randn", ""), ("add", "stem"), ("relu", "head")}
    assert _random_operators(model) == {("randn", ""), ("add", "stem")}


def test_values_inside_of_one_operator_are_left_out() -> None:
    """Two nodes of one Softplus, a node of another module's operator, and one without an operator."""
    g = Graph()
    x = g.input("x", F, [3])
    inner = made(g.Exp(x), "aten::softplus", "act", "net.py:7")
    outer = made(g.Log(inner), "aten::softplus", "act", "net.py:7")
    other = made(g.Neg(outer), "aten::softplus", "act", "net.py:8")
    third = made(g.Abs(other), "aten::abs", "act", "net.py:8")
    bare = g.Sqrt(third)
    last = g.Ceil(bare)
    given = made(g.Sin(last), "aten::sin", "tail")
    g.output(given, "given")
    g.output(made(g.Cos(given), "aten::sin", "tail"), "y")
    model = g.model()
    every = {str(v.name): summarize(np.ones(3)) for n in model.graph for v in n.outputs}
    kept = _without_inner_values(model, Trace([], every, "float64"))
    assert every.keys() - kept.values.keys() == {inner.name}
    assert kept.precision == "float64"


def trace_of(model: ir.Model, **sizes: int) -> Trace:
    values = {str(v.name): summarize(np.ones(sizes.get(str(v.name), 3))) for n in model.graph for v in n.outputs}
    return Trace([], values)


def test_the_counterpart_of_an_operator_is_the_last_of_its_place_and_size() -> None:
    g = Graph()
    x = g.input("x", F, [3])
    first = made(g.Mul(x, np.float32(2)), "aten::gelu", "act", "net.py:7")
    second, _ = g.Dropout(first, outputs=2)
    made(second, "aten::gelu", "act", "net.py:7")
    third = made(g.Neg(second), "aten::gelu", "act", "net.py:8")
    g.output(made(g.Abs(third), "aten::abs", "act", "net.py:7"), "y")
    model = g.model()
    names = [str(v.name) for v in (first, second, third)]
    step = TraceStep(place("aten::gelu", "act", "net.py:7"), (), ("theirs", "mask"))
    theirs = Trace([], {"theirs": summarize(np.ones(3)), "mask": summarize(np.ones(7))})

    def told(**sizes: int) -> str:
        return _describe_counterpart(model, step, theirs, trace_of(model, **sizes))

    assert told().startswith(f"Dropout, {names[1]}: ")
    mask = str(second.producer().outputs[1].name)  # type: ignore[union-attr]
    assert told(**{mask: 4}).startswith(f"Dropout, {names[1]}: ")
    assert told(**{names[1]: 4, mask: 4}).startswith(f"Mul, {names[0]}: ")
    assert told(**{names[0]: 4, names[1]: 2, mask: 2}) == ""


def test_a_place_without_a_module_is_that_of_the_first_node_that_departs() -> None:
    steps = [TraceStep(place(f"Op{i}", f"m{i}", f"net.py:{i}", f"node{i}"), (), (f"v{i}",)) for i in range(3)]
    ours = Trace(steps, {f"v{i}": summarize(np.ones(3)) for i in range(3)})

    def located(agreed: set[str], **known: str) -> Divergence:
        return _locate_in_graph(Divergence("kernel", known.get("node", ""), known.get("module", ""),
                                           known.get("source", ""), [], "v"), agreed, ours)  # fmt: skip

    found = located({"v0"})
    assert (found.operator, found.node, found.module, found.source) == ("kernel", "node1", "m1", "net.py:1")
    assert (found.instead or "").startswith("Op1, v1: ")
    assert located({"v0"}, node="own").node == "own"
    assert located({"v0"}, module="m").source == ""
    assert located({"v0"}, source="s").module == ""
    found = located({"v0", "v1", "v2"})
    assert (found.node, found.instead or "") == ("", "")


def test_a_place_is_told_with_its_first_known_output() -> None:
    told = Trace([], {"b": summarize(np.ones(3)), "c": summarize(np.ones(4)), "x": summarize(np.ones(5))})
    found = _divergence(TraceStep(place("Split", "m", "s", "n"), ("x", "w"), ("a", "b", "c")), told)
    assert (found.operator, found.node, found.module, found.source) == ("Split", "n", "m", "s")
    assert found.output == told.describe_value("b")
    assert list(found.inputs) == [told.describe_value("x"), "w: not known"]
    assert _divergence(TraceStep(place("Split"), (), ("a",)), told).output == "a: not known"


def test_the_target_is_read_with_the_options_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Options] = []

    class Reader:
        def read(self, source: Source, options: Options, report: Report) -> ir.Model:
            seen.append(options)
            raise ConvertError("no more than that")

    monkeypatch.setattr(plugin, "frontend_for", lambda source: Reader())
    g = Graph()
    g.output(g.Abs(g.input("x", ir.DataType.FLOAT, (1,))), "y")
    feed, own = Feed("", {"x": np.ones(1, np.float32)}), Options(trust=True)
    told = locate(g.model(), Source("onnx", Path("a")), feed, own, Names())
    assert "no more than that" in str(told)
    assert seen == [own]
