"""Checks on all rules of ONNX Runtime's own operators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from convert.frontends.onnx import operators
from convert.frontends.onnx.rules import MICROSOFT, runtime_op
from onnx import helper

import convert
from convert.outcome.report import Report
from convert.request.options import Options
from tests.frontends.onnx.ops.support import model_of, typed
from tests.frontends.onnx.ops.test_experimental import FILLS
from tests.frontends.onnx.ops.test_norm import BY_GROUP
from tests.support.cases import Case, case, f32, rows_of_package
from tests.support.onnx_support import info, model, read


def floats(row: Case) -> onnx.ModelProto:
    """Return a file of one node with floating-point results."""
    proto = model_of(row)
    return typed(proto, [onnx.TensorProto.FLOAT] * len(proto.graph.output))


def test_every_rule_has_a_case() -> None:
    assert {o.name for o in operators()} >= set(runtime_op.entries)
    named = {param.values[0].operator for param in (*rows_of_package(__package__), *BY_GROUP, *FILLS)}
    tested = {name if "::" in name else f"{MICROSOFT}::{name}" for name in named}
    assert set(runtime_op.entries) == tested


def test_what_a_rule_does_not_take_is_refused_with_its_place() -> None:
    proto = floats(case("com.microsoft::Attention", f32(2, 3, 8), f32(8, 24), num_heads=2, do_rotary=1))
    with pytest.raises(convert.Unsupported, match=r"com.microsoft::Attention, node 'the_node'.*do_rotary"):
        read(proto)


def test_an_attribute_that_no_rule_names_is_refused() -> None:
    with pytest.raises(convert.Unsupported, match="qkv_order"):
        read(floats(case("com.microsoft::Gelu", f32(2, 3), qkv_order=1)))


def test_a_note_says_what_was_written_otherwise() -> None:
    report = Report("test")
    read(floats(case("com.microsoft::Gelu", f32(2, 3))), Options(), report)
    assert any(note.code == "runtime-operators" and "Gelu" in note for note in report.notes)


def test_a_layer_norm_of_onnxs_own_stays() -> None:
    nodes = [helper.make_node("LayerNormalization", ["x", "w"], ["y"])]
    weight = onnx.numpy_helper.from_array(np.ones(3, np.float32), "w")
    shared = read(model(nodes, [info("x", ["n", 3])], [info("y", ["n", 3])], [weight], opset=17))
    assert [n.op_type for n in shared.graph] == ["LayerNormalization"]


def test_branches_hold_them_too(tmp_path: Path) -> None:
    def branch(name: str, operator: str) -> onnx.GraphProto:
        node = helper.make_node(operator, ["x"], [f"{name}_y"], domain=MICROSOFT)
        return helper.make_graph([node], name, [], [onnx.ValueInfoProto(name=f"{name}_y")])

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("a", "Gelu"), else_branch=branch("b", "QuickGelu"))
    ends = [info("x", ["n", 3]), info("c", [], onnx.TensorProto.BOOL)], [info("y", ["n", 3])]
    report = convert.convert(model([node], *ends, domains=[MICROSOFT]), "onnx", tmp_path / "y.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


def test_what_was_written_for_one_processor_is_refused_with_the_way_round() -> None:
    domain = f"{MICROSOFT}.nchwc"
    nodes = [helper.make_node("ReorderInput", ["x"], ["h"], domain=domain), helper.make_node("Relu", ["h"], ["y"])]
    with pytest.raises(convert.Unsupported, match="for the processor") as caught:
        read(model(nodes, [info("x", [1, 8, 4, 4])], [info("y", [1, 8, 4, 4])], domains=[domain]))
    assert "ORT_ENABLE_EXTENDED" in caught.value.hint
