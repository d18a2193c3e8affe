"""Names that a target accepts: legal, distinct, the model's own if possible, and the same each time."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.names import names_in_target, rename_io, restore_io_names
from convert.outcome.report import Report
from convert.reference.executor import run
from convert.request.naming import ANY, IDENTIFIER, Naming, TargetNames


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["x", "y"], ["x", "y"]),
        (["x.1", "x_1"], ["x_1_1", "x_1"]),  # legal names stay, in any order
        (["a b", "a-b", "a.b"], ["a_b", "a_b_1", "a_b_2"]),
        (["9x", "n9x"], ["n9x_1", "n9x"]),
        (["class", "self", "None", "match"], ["class_", "self_", "None_", "match"]),
        (["", "é", "名前"], ["n", "n_", "n__"]),
        (["/a/b", "a/b"], ["a_b", "a_b_1"]),
        (["a_1", "a b", "a_b", "a_b_1"], ["a_1", "a_b_2", "a_b", "a_b_1"]),
    ],
)
def test_identifiers(names: list[str], wanted: list[str]) -> None:
    assert list(IDENTIFIER.distinct(names).values()) == wanted


def test_case_may_not_count() -> None:
    folding = Naming(fold=True)
    assert folding.distinct(["X", "x", "x_1"]) == {"X": "X", "x": "x_2", "x_1": "x_1"}


def test_an_output_does_not_take_the_name_of_an_input() -> None:
    rule = TargetNames(IDENTIFIER, IDENTIFIER)
    names = rule.of(["x.1", "y"], ["x_1", "y", "y_1"])
    assert dict(names.inputs) == {"x.1": "x_1_1", "y": "y"}
    assert dict(names.outputs) == {"x_1": "x_1", "y": "y_2", "y_1": "y_1"}
    assert names.changed() == {"inputs": {"x.1": "x_1_1"}, "outputs": {"y": "y_2"}}


def graph_of_difference() -> ir.Model:
    """Return y:0 = x.1 - 2 x_1, where an inner value and a weight have the names that the inputs should get."""
    g = Graph()
    a, b = (g.input(name, ir.DataType.FLOAT, ["n"]) for name in ("x.1", "x 1"))
    g.output(g.Sub(a, g.Mul(b, np.float32(2))), "y:0")
    g.output(a, "same")
    model = g.model()
    inner = next(n for n in model.graph if n.op_type == "Mul").outputs[0]
    inner.name = "x_1"
    return model


def test_the_ends_of_a_graph_are_renamed_and_back() -> None:
    model, report = graph_of_difference(), Report("test")
    rule = TargetNames(IDENTIFIER, IDENTIFIER)
    names = names_in_target(model, rule)
    rename_io(model, rule, report)
    assert [v.name for v in model.graph.inputs] == ["x_1", "x_1_1"]
    assert [v.name for v in model.graph.outputs] == ["y_0", "same"]
    assert report.renamed == {"inputs": {"x.1": "x_1", "x 1": "x_1_1"}, "outputs": {"y:0": "y_0"}}
    assert len(report.notes) == 3
    a, b = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    found = run(model, names.feed({"x.1": a, "x 1": b}))
    np.testing.assert_array_equal(found["y_0"], a - 2 * b)
    assert list(names.name_outputs(found)) == ["y:0", "same"]
    restore_io_names(model, names.inputs, names.outputs)
    found = run(model, {"x.1": a, "x 1": b})
    np.testing.assert_array_equal(found["y:0"], a - 2 * b)


def test_a_dtype_that_a_target_lacks_is_held_in_another() -> None:
    g, report = Graph(), Report("test")
    g.output(g.input("a b", ir.DataType.INT4, ["n"]), "y z")
    model, rule = g.model(), TargetNames(IDENTIFIER, IDENTIFIER, containers={"int4": "int8"})
    names = names_in_target(model, rule)
    rename_io(model, rule, report)
    assert report.notes[-1] == "the output 'y z' of int4 is int8 in the artefact, each number in one of its own"
    (fed,) = names.feed({"a b": np.arange(-8, 8).astype("int4")}).values()
    np.testing.assert_array_equal(fed, np.arange(-8, 8, dtype=np.int8), strict=True)
    assert names.name_outputs({"y_z": fed})["y z"].dtype.name == "int4"
    beyond = names.name_outputs({"y_z": np.array([8, 1], np.int8)})["y z"]
    np.testing.assert_array_equal(beyond, np.array([8, 1], np.int8), strict=True)
    assert names_in_target(model, ANY).input_containers == {}


def test_names_that_any_format_takes_stay() -> None:
    model, report = graph_of_difference(), Report("test")
    rename_io(model, ANY, report)
    assert [v.name for v in model.graph.inputs] == ["x.1", "x 1"]
    assert not report.notes
    assert not any(report.renamed.values())


def test_two_may_change_places() -> None:
    model = graph_of_difference()
    restore_io_names(model, {"x.1": "x 1", "x 1": "x.1"}, {})
    assert [v.name for v in model.graph.inputs] == ["x 1", "x.1"]


def test_a_legal_input_comes_before_a_legal_output() -> None:
    rule = TargetNames(Naming(fold=True), Naming(fold=True))
    names = rule.of(["a", "b"], ["A", "a_1"])
    assert dict(names.inputs) == {"a": "a", "b": "b"}
    assert dict(names.outputs) == {"A": "A_2", "a_1": "a_1"}


def test_a_gradient_names_its_ends_anew() -> None:
    model = graph_of_difference()
    node = ir.node("Gradient", [model.graph.inputs[0]], {"xs": ["x.1", "other"], "y": "y:0"}, num_outputs=1)
    node.outputs[0].name = "slope"
    model.graph.append(node)
    rename_io(model, TargetNames(IDENTIFIER, IDENTIFIER), Report("test"))
    assert list(node.attributes["xs"].as_strings()) == ["x_1", "other"]
    assert node.attributes["y"].as_string() == "y_0"
