"""Errors along a network, and the location of a defect, on small graphs that represent a target read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert import plugin
from convert.errors import ConvertError, Location
from convert.graph import Graph
from convert.graph.metadata import MODULE_KEY, OPERATOR_KEY
from convert.outcome.verdict import Divergence, Place
from convert.parity.inputs.feeds import Feed
from convert.parity.locate import places
from convert.parity.locate.pairing import trace_graph
from convert.parity.locate.places import locate, locate_source
from convert.parity.locate.profile import TargetValues, _relative_error, profile_errors, relevant_places
from convert.processes.run_here import Limits
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.trace import Trace, TraceStep, summarize

F = ir.DataType.FLOAT
X = np.random.default_rng(4).standard_normal((3, 6)).astype(np.float32)
FEED = Feed("one", {"x": X})
TARGET = Source("onnx-object")


def network(*scales: float, names: tuple[str, str] = ("x", "y"), last: str = "Neg") -> ir.Model:
    """Return Tanh(x) · scale · scale … and a last operator; each Mul belongs to a module with its number."""
    g = Graph()
    value = g.Tanh(g.input(names[0], F, [3, 6]))
    for number, scale in enumerate(scales):
        value = g.Mul(value, np.float32(scale))
        value.producer().metadata_props.update({OPERATOR_KEY: "aten::mul", MODULE_KEY: f"layers.{number}"})
    g.output(getattr(g, last)(value), names[1])
    return g.model()


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Set the graph as which the target is read."""

    class Frontend:
        graph: Any = None

        def read(self, source: Source, options: Options, report: Any) -> ir.Model:
            if isinstance(self.graph, Exception):
                raise self.graph
            return self.graph

    made = Frontend()
    monkeypatch.setattr(plugin, "frontend_for", lambda source: made)
    return lambda graph: setattr(made, "graph", graph)


def test_each_node_has_its_floor_and_its_error(target: Callable[[Any], None]) -> None:
    graph = network(1.5, 3.0)
    target(network(1.5, 3.03))
    found = profile_errors(graph, TARGET, FEED, Options(), Names())
    assert [(p.operator, p.module) for p in found[1:3]] == [("Mul", "layers.0"), ("Mul", "layers.1")]
    errors = [p.error for p in found]
    assert errors[:2] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert errors[2:] == pytest.approx([0.01, 0.01], rel=1e-3)
    # At least one rounding of float32, and at most a few.
    assert all(4 * 2.0**-24 <= p.floor < 1e-6 for p in found)


def test_a_value_without_rounding_has_a_floor_of_four_roundings(target: Callable[[Any], None]) -> None:
    g = Graph()
    g.output(g.Mul(g.Neg(g.input("x", F, [3, 6])), np.float32(2)), "y")
    target(g.model().clone())
    found = profile_errors(g.model(), TARGET, FEED, Options(), Names())
    assert [(p.floor, p.error) for p in found] == [(2.0**-22, 0.0)] * 2  # type: ignore[union-attr]


def test_an_output_is_known_by_its_name_whatever_it_holds(target: Callable[[Any], None]) -> None:
    target(network(1.5, last="Exp"))
    last = profile_errors(network(1.5), TARGET, FEED, Options(), Names())[-1]
    exact = np.tanh(X.astype(np.float64)) * 1.5
    off = np.sqrt(np.mean((np.exp(exact) + exact) ** 2) / np.mean(exact**2))
    assert last.error == pytest.approx(off, rel=1e-5)
    assert last.error > 0.5


def test_the_targets_own_names_of_the_ends_are_told_to_it(target: Callable[[Any], None]) -> None:
    target(network(2.0, names=("input_1", "out")))
    names = Names({"x": "input_1"}, {"y": "out"})
    assert profile_errors(network(2.0), TARGET, FEED, Options(), names)[-1].error == pytest.approx(0, abs=1e-6)
    target(network(2.0, names=("input_1", "out")))
    told = profile_errors(network(2.0), TARGET, FEED, Options(), Names())
    assert isinstance(told, str)
    assert told.startswith("the artefact could not be evaluated node by node: ")


def test_a_target_that_cannot_be_read_has_no_profile(target: Callable[[Any], None]) -> None:
    target(ConvertError("it is locked"))
    told = profile_errors(network(2.0), TARGET, FEED, Options(), Names())
    assert told == "the artefact could not be evaluated node by node: it is locked"


def test_a_value_that_was_fused_away_has_no_error(target: Callable[[Any], None]) -> None:
    target(network(6.0))
    found = profile_errors(network(2.0, 3.0), TARGET, FEED, Options(), Names())
    assert [p.error is None for p in found] == [False, True, False, False]


def test_what_is_off_before_something_right_was_not_there(target: Callable[[Any], None]) -> None:
    graph = network(1.0, 1.0)
    nodes = list(graph.graph)
    at = [Place(str(n.name), n.op_type, "", "", 1e-7, e) for n, e in zip(nodes, (1e-3, 4e-7, 5e-7, 0.1), strict=True)]
    found = relevant_places(dict(zip(nodes, at, strict=True)))
    assert [p.error for p in found] == [None, 4e-7, 5e-7, 0.1]
    assert [p.node for p in found] == [p.node for p in at]
    # If no correct node follows, all nodes stay, whether or not the last is within four noise floors.
    wrong = [Place(str(n.name), n.op_type, "", "", 1e-7, 4.1e-7) for n in nodes]
    assert relevant_places(dict(zip(nodes, wrong, strict=True))) == wrong


def test_the_nearest_value_is_of_one_size_and_not_far() -> None:
    wide = X.astype(np.float64)
    held = TargetValues({"a": X * np.float32(1.01), "b": X.T * np.float32(1.001), "i": np.arange(18), "c": X[:2]})
    # A matrix has no other layout than its transpose.
    assert held.nearest(wide) == pytest.approx(0.001, rel=1e-3)
    assert held.nearest(np.zeros((5, 5))) is None
    assert TargetValues({"a": 2 * X}).nearest(wide) is None
    assert TargetValues({"a": X * np.float32(1.49)}).nearest(wide) == pytest.approx(0.49, rel=1e-3)
    assert TargetValues({"a": np.zeros((0,), np.float32), "s": [X]}).arrays == {}
    assert TargetValues({"a": X}).nearest(np.zeros((3, 6))) is None


def test_values_of_other_shapes_have_no_distance() -> None:
    for one, other in (((3, 6), (6, 3)), ((6, 3), (3, 6)), ((3, 6), (18,)), ((3, 6), (3, 6, 1))):
        assert _relative_error(np.ones(one), np.ones(other)) is None
    assert _relative_error(np.full((3, 6), 2.0), np.full((3, 6), 2.5)) == 0.25


def test_four_values_are_tried_at_most() -> None:
    """The values are chosen by their statistics. Values with the same elements in another order come first here."""
    rng = np.random.default_rng(0)
    wide = X.astype(np.float64)
    same = [rng.permutation(X.ravel()).reshape(3, 6) for _ in range(5)]
    right = X * np.float32(1.001)
    others = {f"s{i}": a for i, a in enumerate(same)}
    assert TargetValues({**dict(list(others.items())[:3]), "r": right}).nearest(wide) == pytest.approx(1e-3, rel=1e-2)
    assert TargetValues({**others, "r": right}).nearest(wide) is None


# -- the place of a defect of the backend -----------------------------------------------------------------------------


def test_the_first_node_whose_value_the_target_lacks(target: Callable[[Any], None]) -> None:
    target(network(1.5, 3.1, 2.0))
    found = locate(network(1.5, 3.0, 2.0), TARGET, FEED, Options(), Names())
    assert isinstance(found, Divergence)
    assert (found.operator, found.module) == ("Mul", "layers.1")
    assert found.output.split(": ")[1] == str(summarize(np.tanh(X.astype(np.float64)) * np.float64(4.5)))
    assert len(found.inputs) == 2


def test_the_targets_names_are_those_of_the_graph(target: Callable[[Any], None]) -> None:
    target(network(1.5, 3.1, names=("a", "b")))
    found = locate(network(1.5, 3.0), TARGET, FEED, Options(), Names({"x": "a"}, {"y": "b"}))
    assert isinstance(found, Divergence)
    assert found.module == "layers.1"
    target(network(1.5, names=("a", "b")))
    assert "the target cannot be read back to find the place: " in str(
        locate(network(1.5), TARGET, FEED, Options(), Names())
    )


def test_where_float64_is_right_the_runtime_is_at_fault(target: Callable[[Any], None]) -> None:
    target(network(1.5))
    assert "its runtime is at fault" in str(locate(network(1.5), TARGET, FEED, Options(), Names()))
    target(ConvertError("it is locked"))
    told = locate(network(1.5), TARGET, FEED, Options(), Names())
    assert told == "the target cannot be read back to find the place: it is locked"


def test_outputs_in_another_order_have_all_their_values(target: Callable[[Any], None]) -> None:
    def two(order: tuple[int, int]) -> ir.Model:
        g = Graph()
        x = g.input("x", F, [3, 6])
        made = [g.Tanh(x), g.Exp(x)]
        for name, index in zip("yz", order, strict=True):
            g.output(made[index], name)
        return g.model()

    target(two((1, 0)))
    assert "are they in another order?" in str(locate(two((0, 1)), TARGET, FEED, Options(), Names()))


def test_random_numbers_are_no_place(target: Callable[[Any], None]) -> None:
    def noisy(scale: float) -> ir.Model:
        g = Graph()
        x = g.input("x", F, [3, 6])
        g.output(g.Add(x, g.RandomNormal(shape=[3, 6])), "n")
        g.output(g.Mul(g.Tanh(x), np.float32(scale)), "y")
        return g.model()

    target(noisy(2.2))
    found = locate(noisy(2.0), TARGET, FEED, Options(), Names())
    assert isinstance(found, Divergence)
    assert found.operator == "Mul"


# -- the place of a defect of the frontend ----------------------------------------------------------------------------


def traced(*steps: tuple[str, str, str, np.ndarray], precision: str = "float64") -> Trace:
    """Return a trace of steps with operator, module, output name and value, each reading the one before."""
    made = Trace(precision=precision)
    before = "x"
    for operator, module, name, value in steps:
        made.steps.append(TraceStep(Location(operator=operator, module=module), (before,), (name,)))
        made.values[name] = summarize(value)
        before = name
    return made


def source_found(monkeypatch: pytest.MonkeyPatch, graph: ir.Model, theirs: Any, distance: float = 0.1) -> Any:
    def trace(*args: Any) -> Trace:
        if isinstance(theirs, Exception):
            raise theirs
        return theirs

    monkeypatch.setattr(places, "trace", trace)
    return locate_source(graph, TARGET, FEED, distance, Options(), Limits())


WIDE = np.tanh(X.astype(np.float64))


def test_the_sources_operator_is_named_with_what_the_graph_has(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = traced(
        ("aten::tanh", "", "t", WIDE), ("aten::mul.Tensor", "layers.0", "m", 1.5 * WIDE),
        ("aten::mul.Tensor", "layers.1", "k", 1.5 * 3.1 * WIDE), ("aten::neg", "", "n", -1.5 * 3.1 * WIDE),
    )  # fmt: skip
    found = source_found(monkeypatch, network(1.5, 3.0), theirs)
    assert isinstance(found, Divergence)
    assert (found.operator, found.module) == ("aten::mul.Tensor", "layers.1")
    assert found.output == f"k: {summarize(1.5 * 3.1 * WIDE)}"
    assert found.instead.startswith("Mul, ")
    assert found.instead.endswith(str(summarize(4.5 * WIDE)))


def test_an_operator_that_nothing_in_the_graph_came_from_was_fused_away(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = traced(
        ("aten::other", "layers.0", "o", np.exp(WIDE)), ("aten::mul.Tensor", "layers.0", "m", 1.6 * WIDE),
    )  # fmt: skip
    found = source_found(monkeypatch, network(1.5), theirs)
    assert found.operator == "aten::mul.Tensor"
    # If no other step differs, this one is named nevertheless.
    found = source_found(monkeypatch, network(1.5), traced(("aten::other", "layers.0", "o", np.exp(WIDE))))
    assert found.operator == "aten::other"


def test_a_source_that_knows_no_modules_has_its_place_in_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = traced(("Tanh", "", "t", WIDE), ("Mul", "", "m", 1.6 * WIDE), ("Neg", "", "n", -1.6 * WIDE))
    found = source_found(monkeypatch, network(1.5), theirs)
    assert (found.operator, found.module) == ("Mul", "layers.0")
    assert found.instead.startswith("Mul, ")
    assert found.instead.endswith(str(summarize(1.5 * WIDE)))


def test_elements_have_to_be_in_the_sources_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value with the same elements in another order counts as different, in both searches."""
    g = Graph()
    t = g.Tanh(g.input("x", F, [3, 6]))
    turned = g.Gather(t, np.array([2, 1, 0]), axis=0)
    turned.producer().metadata_props[MODULE_KEY] = "turn"
    g.output(g.Mul(turned, np.float32(3)), "y")
    theirs = traced(("Tanh", "", "t", WIDE), ("Roll", "", "r", np.roll(WIDE, 1, axis=0)))
    found = source_found(monkeypatch, g.model(), theirs)
    assert (found.operator, found.module) == ("Roll", "turn")
    assert found.instead.startswith("Gather, ")


@pytest.mark.parametrize(
    ("precision", "distance", "off", "found"),
    [
        # A thousandth of the distance of the outputs, between 3e-9 and 1e-6 in float64, and between 2e-6 and 1e-3 in
        # float32.
        ("float64", 1e-12, 1e-8, True),
        ("float64", 1e-12, 1e-9, False),
        ("float64", 1e-4, 2e-7, True),
        ("float64", 1e-4, 2e-8, False),
        ("float64", 1.0, 2e-6, True),
        ("float64", 1.0, 2e-7, False),
        ("float32", 1e-12, 1e-5, True),
        ("float32", 1e-12, 1e-6, False),
        ("float32", 1e-2, 2e-5, True),
        ("float32", 1e-2, 2e-6, False),
        ("float32", 10.0, 2e-3, True),
        ("float32", 10.0, 2e-4, False),
    ],
)
def test_how_near_is_the_same(
    precision: str, distance: float, off: float, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = traced(("Tanh", "", "t", WIDE * (1 + off)), precision=precision)
    told = source_found(monkeypatch, network(), theirs, distance)
    assert isinstance(told, Divergence) == found
    if not found:
        assert told.startswith("every value of the source is found in the graph")


def test_a_source_that_cannot_be_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    told = source_found(monkeypatch, network(), ConvertError("no trace"))
    assert told == "the source cannot be run operator by operator to find the place: no trace"


def test_a_trace_holds_the_weights_too() -> None:
    g = Graph()
    w = g.initializer("w", ir.Tensor(np.full((1, 6), 2.0, np.float32)))
    words = g.initializer("words", ir.Tensor(np.array([b"a"], object), dtype=ir.DataType.STRING))
    g.output(g.Mul(g.input("x", F, [3, 6]), w), "y")
    trace, outputs = trace_graph(g.model(), FEED.arrays)
    assert (trace.values["w"].rms, trace.values["w"].shape) == (2.0, (1, 6))
    assert words.name not in trace.values
    np.testing.assert_allclose(outputs["y"], 2 * X.astype(np.float64))


def test_values_inside_of_one_operator_do_not_count() -> None:
    """Only nodes of the same operator and module read them, and none is an output."""
    g = Graph()
    x = g.input("x", F, [3, 6])
    inner, shared, own, end = g.Tanh(x), g.Exp(x), g.Abs(x), g.Neg(x)
    users = [g.Relu(inner), g.Relu(shared), g.Sqrt(shared), g.Relu(own), g.Relu(end)]
    for value in (inner, shared, own, end, *users):
        value.producer().metadata_props.update({OPERATOR_KEY: "aten::gelu", MODULE_KEY: "m"})
    users[2].producer().metadata_props[OPERATOR_KEY] = "aten::sqrt"
    users[3].producer().metadata_props[MODULE_KEY] = "other"
    for number, value in enumerate((*users, end)):
        g.output(value, f"y{number}")
    plain = g.Sin(x)
    g.output(g.Cos(plain), "z")  # for nodes without an operator, nothing is left out
    model = g.model()
    names = [str(v.name) for v in (inner, shared, own, end, plain)]
    trace = Trace(values={n: summarize(X) for n in names}, precision="float32")
    left = places._without_inner_values(model, trace)
    assert sorted(left.values) == sorted(names[1:])
    assert left.precision == "float32"
