"""Lookups of operators, dtypes and words by name, next to names that sort before and after them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import UsageError
from convert.graph import Graph
from convert.outcome.verdict import FAIL, INCONCLUSIVE
from convert.parity.compare.outputs import distance
from convert.parity.compare.randomness import judge_random, random_outputs
from convert.parity.compare.special_verdict import operators_behind
from convert.parity.generation.decoders import _prompt, generation_of
from convert.parity.inputs.boundary_values import boundary_values, mix_boundary_values, uses_of_content
from convert.parity.inputs.feeds import implied_limits, sized_feed
from convert.parity.inputs.special import special_array
from convert.request.image_inputs import ImagePreparation, parse_preparation
from convert.runtimes.differences import Difference
from tests.convert.parity.input_models import plain

T = ir.DataType
NODES = [("Abs", 1), ("Add", 2), ("Compress", 2), ("Conv", 2), ("Div", 2), ("Mul", 2), ("Neg", 1), ("OneHot", 3),
         ("Pow", 2), ("Relu", 1), ("Sub", 2), ("Trilu", 2), ("Upsample", 2), ("Xor", 2)]  # fmt: skip


def value_of(dtype: ir.DataType = T.INT64, shape: Any = (4, 3)) -> ir.Value:
    return ir.Value(name="x", type=ir.TensorType(dtype), shape=ir.Shape(shape))


def const(number: Any, dtype: Any = np.int64) -> ir.Value:
    return ir.Value(name="c", const_value=ir.Tensor(np.array(number, dtype)))


@pytest.mark.parametrize(("operator", "count"), NODES)
def test_what_is_computed_with_is_content_no_more(operator: str, count: int) -> None:
    for place in range(count):
        value = value_of()
        inputs = [value if n == place else const(3) for n in range(count)]
        node = ir.Node("", operator, inputs)
        ir.Node("", "Equal", [node.outputs[0], const(77)])
        assert [(n.op_type, at) for n, at in uses_of_content(value)] == [(operator, place)]
        assert boundary_values(value) == []


@pytest.mark.parametrize(("dtype", "found"), [(T.BOOL, [-0.5, 0.0, 0.5]), (T.FLOAT, []), (T.INT64, []), (T.DOUBLE, []),
                                              (T.STRING, []), (T.FLOAT16, [])])  # fmt: skip
def test_only_casts_to_booleans_compare(dtype: ir.DataType, found: list[float]) -> None:
    value = value_of(T.FLOAT)
    ir.Node("", "Cast", [value]).outputs[0].dtype = dtype
    assert boundary_values(value) == found


@pytest.mark.parametrize("operator", ["Neg", "Transpose", "Unsqueeze", "Upsample", "Where", "Xor"])
def test_only_what_is_made_unique_is_drawn_twice(operator: str) -> None:
    value, array = value_of(T.FLOAT, [200]), np.arange(200, dtype=np.float32)
    ir.Node("", operator, [value, const(0)])
    np.testing.assert_array_equal(mix_boundary_values(value, array, 1), array)


@pytest.mark.parametrize("domain", ["", "a", "ai.onnx", "ai.onnx.ml.mine", "com.example"])
def test_trees_of_other_domains_have_other_attributes(domain: str) -> None:
    value, array = value_of(T.FLOAT, [200, 2]), np.full((200, 2), 2.0, np.float32)
    numbers = {"nodes_featureids": [0], "nodes_values": [900.0]}
    attributes = [ir.AttrInt64s("nodes_featureids", numbers["nodes_featureids"]),
                  ir.AttrFloat32s("nodes_values", numbers["nodes_values"]),
                  ir.AttrStrings("nodes_modes", ["BRANCH_LEQ"])]  # fmt: skip
    ir.Node(domain, "TreeEnsembleRegressor", [value], attributes)
    assert (mix_boundary_values(value, array, 1) == 2).all()


@pytest.mark.parametrize(("operator", "count"), [*NODES, ("Where", 3), ("Sum", 2), ("Tile", 2), ("ScatterND", 3)])
def test_other_operators_imply_no_limits(operator: str, count: int) -> None:
    """This is next to an array of four rows, and a constant of one."""
    for place in range(count):
        if (operator, place) in (("OneHot", 0), ("Sub", 1), ("ScatterND", 1)):
            continue
        value = value_of()
        rows = ir.Value(name="r", type=ir.TensorType(T.INT64), shape=ir.Shape([4, 3]))
        for other in (const(1), rows):
            ir.Node("", operator, [value if n == place else other for n in range(count)])
        assert implied_limits(value) == []


def test_floats_that_become_places_are_limited_by_what_they_are_places_of() -> None:
    """A write to a cache limits them too; a mask does not, because a float subtracted from one may be anything."""
    value = value_of(T.FLOAT, [1])
    places = ir.Node("", "Cast", [value]).outputs[0]
    cache = ir.Value(name="cache", type=ir.TensorType(T.FLOAT), shape=ir.Shape([1, 6, 4]))
    ir.Node("", "TensorScatter", [cache, const(0.0, np.float32), places])
    assert implied_limits(value) == [6]
    g = Graph()
    x = g.input("x", T.FLOAT, [3])
    g.output(g.Sub(np.float32(1), x), "y")
    assert implied_limits(g.model().graph.inputs[0]) == []


KINDS = {"bool": np.zeros(3, bool), "complex": np.zeros(3, complex), "int": np.zeros(3, int),
         "uint": np.zeros(3, np.uint8), "text": np.array(["a", "b", "c"], object)}  # fmt: skip


def test_distances_of_complex_numbers_are_those_of_both_parts() -> None:
    assert distance(np.full(3, 1j), np.full(3, -1j)) == 2.0
    assert distance(np.array([True, False]), np.array([False, False])) == pytest.approx(np.sqrt(0.5))


@pytest.mark.parametrize("dtype", [T.FLOAT, T.DOUBLE, T.FLOAT16, T.STRING, T.INT32, T.COMPLEX64])
def test_a_single_value_is_of_its_dtype(dtype: ir.DataType) -> None:
    arrays = [sized_feed(plain(dtype, ()), seed, {}).arrays["x"] for seed in range(4)]
    assert {a.dtype for a in arrays} == {np.dtype(dtype.numpy()) if dtype != T.STRING else np.dtype(object)}
    assert all(isinstance(a.item(), str) == (dtype == T.STRING) for a in arrays)
    assert any(a.item() not in (0, 1) for a in arrays)


def test_bfloat16_has_no_special_rows() -> None:
    array = np.ones((4, 3), T.BFLOAT16.numpy())
    np.testing.assert_array_equal(special_array(value_of(T.BFLOAT16), array, False), array)


@pytest.mark.parametrize("text", ["foo=x", "aaa=1", "zoom=2", "size=abc", "inputs=x", "scales=2", "meanx=1", "=x"])
def test_words_that_a_preparation_does_not_know(text: str) -> None:
    with pytest.raises(UsageError, match="does not know"):
        parse_preparation(text)


@pytest.mark.parametrize("channels", ["bgr", "rgb"])
def test_colors_have_a_number_for_each_channel(channels: str) -> None:
    found = parse_preparation(f"channels={channels},mean=1:2:3,std=4:5:6")
    assert found == ImagePreparation(channels=channels, mean=(1.0, 2.0, 3.0), std=(4.0, 5.0, 6.0))


def outputs_of(*nodes: ir.Node) -> set[str]:
    graph = ir.Graph([], [n.outputs[0] for n in nodes], nodes=list(nodes), opset_imports={"": 23})
    for number, value in enumerate(graph.outputs):
        value.name = f"o{number}"
    return set(random_outputs(ir.Model(graph, ir_version=10)))


@pytest.mark.parametrize("operator", ["Shape", "If", "Loop", "Scan", "Size"])
def test_operators_of_other_domains_are_not_those_of_onnx(operator: str) -> None:
    """An unknown operator may do anything with noise."""
    noise = ir.Node("", "RandomNormalLike", [value_of(T.FLOAT)])
    assert outputs_of(noise, ir.Node("mine", operator, noise.outputs)) == {"o0", "o1"}


@pytest.mark.parametrize("name", ["Apart", "If", "Zoom"])
def test_what_functions_and_bodies_give_is_behind_an_output(name: str) -> None:
    declared = [Difference(("Exp",), "it differs", integers=False)]
    inner = ir.Value(name="i")
    exp = ir.Node("", "Exp", [inner])
    function = ir.Function("mine", name, graph=ir.Graph([inner], exp.outputs, nodes=[exp]), attributes=[])
    call = ir.Node("mine", name, [value_of(T.FLOAT)])
    graph = ir.Graph([], call.outputs, nodes=[call], opset_imports={"": 23})
    model = ir.Model(graph, ir_version=10, functions=[function])
    if name != "If":
        assert operators_behind(model, call.outputs[0], declared) == ["Exp"]
    body_exp = ir.Node("", "Exp", [ir.Value(name="b")])
    other = ir.Node("", "Neg", [ir.Value(name="b")])
    for operator, found in (("Loop", ["Exp"]), ("Scan", ["Exp"]), ("Apply", ["Exp"]), ("If", [])):
        body = ir.Graph([], [other.outputs[0], body_exp.outputs[0]], nodes=[])
        node = ir.Node("", operator, [], [ir.AttrGraph("body", body)], num_outputs=2)
        made = ir.Model(ir.Graph([], node.outputs, nodes=[node], opset_imports={"": 23}), ir_version=10)
        assert operators_behind(made, node.outputs[0], declared) == found, operator
        other, body_exp = (ir.Node("", n, [ir.Value(name="b")]) for n in ("Neg", "Exp"))


def test_of_several_random_outputs_each_has_its_own_sizes() -> None:
    g = Graph()
    x = g.input("x", T.FLOAT, [3])
    for name, rows in (("z", 1), ("a", 2), ("y", 3)):
        g.output(g.RandomNormal(shape=[rows]), name)
    g.output(g.Neg(x), "b")
    made = g.model()
    for name, dims in (("z", []), ("a", [None]), ("y", [3])):
        next(v for v in made.graph.outputs if v.name == name).shape = ir.Shape(dims)
    one, other = [np.ones(3)], [np.ones(4)]
    assert judge_random(made, "y", "RandomNormal", one, other).status == FAIL
    assert judge_random(made, "a", "RandomNormal", one, other).status == INCONCLUSIVE


def test_words_are_those_of_the_scores_that_are_called_so() -> None:
    g = Graph()
    ids = g.input("input_ids", T.INT64, ["rows", "steps"])
    for name, words in (("zeta", 700), ("attention", 800), ("logits", 3)):
        g.output(g.facts(g.Cast(ids, to=T.FLOAT), shape=["rows", "steps", words]), name)
    g.output(g.Neg(g.input("past_key_values.0.key", T.FLOAT, ["rows", 3, "past", 4])), "present.0.key")
    made = g.model()
    how = generation_of(made)
    assert how is not None
    assert set(_prompt(made, how)[0].ravel()) == {1, 2}
