"""The layout pass on subgraphs, inputs and outputs, constants, names, and nodes that must stay unchanged."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.passes.layout.assign import CHANNELS_LAST, assign_layout
from tests.support.layout_support import check, conv, image, is_last, nodes, weights

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64


def test_values_captured_by_branches() -> None:
    g = Graph()
    x = conv(g, image(g, 2, 4, 6, 6), 4)
    y = g.Relu(x)
    then, other = g.body("then"), g.body("other")
    then.output(then.Add(conv(then, y, 4), x), "a")
    other.output(other.Mul(other.Reshape(x, [2, 4, 6, 6]), weights(4, 1, 1)), "b")
    z = g.If(g.input("cond", ir.DataType.BOOL, []), then_branch=then, else_branch=other)
    g.facts(z, F, [2, 4, 6, 6])
    g.output(conv(g, z, 4), "y")
    model = check(g, {}, {})
    assert all(is_last(n) for n in nodes(model, "Conv"))
    captured = {v.name for n in model.graph.all_nodes() if n.graph is not model.graph for v in n.inputs if v.shape}
    assert not any(
        v.shape is not None and list(v.shape) == [2, 6, 6, 4] and v.name in captured
        for n in model.graph
        for v in n.outputs
    )


def test_what_a_branch_captures_has_its_price() -> None:
    g = Graph()
    y = g.Neg(image(g, 2, 4, 6, 6))
    then, other = g.body("then"), g.body("other")
    then.output(then.Relu(y), "a")
    other.output(other.Exp(y), "b")
    z = g.If(g.input("cond", ir.DataType.BOOL, []), then_branch=then, else_branch=other)
    g.output(g.facts(z, F, [2, 4, 6, 6]), "z")
    g.output(g.GlobalMaxPool(conv(g, y, 4)), "y")
    model = check(g, {})
    assert [n.inputs[0].name for n in nodes(model, "Transpose")] == [y.name, "y_inner"]


def test_loop_body_is_a_graph_of_its_own() -> None:
    g = Graph()
    x = conv(g, image(g, 1, 3, 4, 4), 3)
    body = g.body()
    body.input("i", I64, [])
    cond, state = body.input("c", ir.DataType.BOOL, []), body.input("s", F, [1, 3, 4, 4])
    body.output(body.Identity(cond), "c_out")
    body.output(body.Relu(conv(body, body.Relu(conv(body, state, 3)), 3)), "s_out")
    y = g.facts(g.Loop(np.array(3), None, x, body=body), F, [1, 3, 4, 4])
    g.output(y, "y")
    model = check(g, {})
    assert sum(n.graph is not model.graph for n in nodes(model, "Transpose")) == 2


def test_boundary_moved() -> None:
    g = Graph()
    x, ids = image(g, "n", 3, 8, 8), g.input("ids", I64, ["n", 2, 2])
    y = g.Relu(conv(g, x, 4))
    g.output(y, "y")
    g.output(g.GlobalAveragePool(y), "pooled")
    g.output(g.ReduceMean(y, [1, 2, 3], keepdims=0), "mean")
    g.output(g.Abs(ids), "same")
    g.output(g.Identity(x), "input")
    model = check(g, {"x": (2, 3, 8, 8), "ids": (2, 2, 2)}, boundary="moved")
    assert nodes(model, "Transpose") == []
    assert list(model.graph.inputs[0].shape) == ["n", 8, 8, 3]
    assert [list(v.shape)[1:] for v in model.graph.outputs] == [[8, 8, 4], [1, 1, 4], [], [2, 2], [8, 8, 3]]
    assert [v.name for v in model.graph.outputs] == ["y", "pooled", "mean", "same", "input"]


def test_boundary_moved_at_one_end_only() -> None:
    g = Graph()
    g.output(g.Cast(g.input("x", I64, [2, 3, 4, 5]), to=F), "y")
    model = g.model()
    assert assign_layout(model, sensitive="channels_last", boundary="moved") is True
    assert [n.op_type for n in model.graph] == ["Cast", "Transpose"]
    assert (model.graph.outputs[0].name, list(model.graph.outputs[0].shape)) == ("y", [2, 4, 5, 3])


def test_constants_cost_nothing() -> None:
    g = Graph()
    x = g.Greater(conv(g, image(g, 2, 3, 6, 6), 4), 0.0)
    g.output(conv(g, g.Where(x, weights(2, 4, 6, 6), weights(2, 4, 6, 6, seed=1)), 4), "y")
    assert len(nodes(check(g, {}), "Transpose")) == 2


def test_shared_constant_is_not_altered() -> None:
    g = Graph()
    x = conv(g, image(g, 2, 3, 5, 5), 4)
    table = g.initializer("table", ir.Tensor(weights(4, 5, 5)))
    only = g.initializer("only", ir.Tensor(weights(4, 1, 1)))
    g.output(conv(g, g.Mul(g.Add(x, table), only), 4), "y")
    g.output(g.MatMul(table, weights(5, 5)), "z")
    model = check(g, {})
    np.testing.assert_array_equal(model.graph.initializers["table"].const_value.numpy(), weights(4, 5, 5))
    assert list(model.graph.initializers["table_moved"].shape) == [5, 5, 4]
    assert list(model.graph.initializers["only"].shape) == [4]


def test_constant_nodes_are_moved_like_initializers() -> None:
    g = Graph()
    x = conv(g, image(g, 2, 3, 5, 5), 4)
    plane = g.node("Constant", [], {"value": ir.Tensor(weights(4, 5, 1))})
    pads = g.node("Constant", [], {"value_ints": [0, 0, 1, 0, 0, 0, 2, 0]})
    y = g.Pad(g.Add(x, plane), pads)
    g.facts(y, shape=[2, 4, 8, 5])
    g.output(conv(g, y, 4), "y")
    model = check(g, {})
    assert len(nodes(model, "Transpose")) == 2
    assert nodes(model, "Constant") == []


def test_metadata_and_names_stay() -> None:
    g = Graph()
    y = g.Relu(conv(g, image(g, 2, 3, 5, 5), 4))
    g.output(y, "y")
    y.producer().metadata_props["convert.module"] = "features.0"
    name = y.producer().name
    model = check(g, {})
    relu = nodes(model, "Relu")[0]
    assert (relu.name, relu.metadata_props) == (name, {"convert.module": "features.0"})
    assert all(n.name for n in model.graph)
    values = [v.name for n in model.graph for v in n.outputs]
    assert len(values) == len(set(values))


def test_max_pool_whose_indices_are_used_stays_as_is() -> None:
    g = Graph()
    y, where = g.MaxPool(conv(g, image(g, 1, 3, 4, 4), 2), kernel_shape=[2, 2], outputs=2)
    g.output(y, "y")
    g.output(where, "where")
    model = check(g, {})
    assert [is_last(n) for n in nodes(model, "MaxPool")] == [False]


def test_resize_of_channels_stays_as_is() -> None:
    g = Graph()
    y = g.Resize(conv(g, image(g, 1, 3, 4, 4), 2), None, [1.0, 2.0, 2.0, 2.0])
    g.output(y, "y")
    assert not is_last(nodes(check(g, {}), "Resize")[0])


def test_what_has_no_known_rank_stays_as_is() -> None:
    g = Graph()
    shape = g.input("shape", I64, [None])
    y = g.Relu(g.Reshape(g.Relu(conv(g, image(g, 1, 3, 4, 4), 4)), shape))
    assert y.shape is None
    g.output(y, "y")
    g.graph.outputs[0].shape = None
    model = g.model()
    assert assign_layout(model, sensitive="channels_last")
    assert [n.op_type for n in model.graph] == ["Transpose", "Conv", "Relu", "Transpose", "Reshape", "Relu"]


def test_network_without_sensitive_operators_is_left_alone() -> None:
    g = Graph()
    x = g.input("x", F, ["batch", 7, 6])
    y = g.Transpose(g.Reshape(g.MatMul(x, weights(6, 6)), [0, 7, 2, 3]), perm=[0, 2, 3, 1])
    y = g.Transpose(g.Softmax(y), perm=[0, 3, 1, 2])
    g.output(g.Reshape(y, [0, 7, 6]), "y")
    model = g.model()
    before = ir.to_proto(model)
    assert assign_layout(model, sensitive="channels_last") is False
    assert ir.to_proto(model) == before


def test_inputs_that_are_outputs() -> None:
    g = Graph()
    x = image(g, 1, 3, 4, 4)
    y = conv(g, x, 3)
    g.output(y, "y")
    model = g.model()
    model.graph.outputs.append(x)
    assert assign_layout(model, sensitive="channels_last")
    assert [v.name for v in model.graph.outputs] == ["y", "x"]
    assert [list(v.shape) for v in model.graph.outputs] == [[1, 3, 4, 4]] * 2


def test_unknown_mode() -> None:
    with pytest.raises(ValueError, match="nhwc"):
        assign_layout(Graph().model(), sensitive="nhwc")  # type: ignore[arg-type]


@pytest.mark.parametrize("end", [4, 3])
def test_a_shape_that_is_an_output_is_in_the_order_of_the_source(end: int) -> None:
    g = Graph()
    y = g.Relu(conv(g, image(g, "n", 3, "h", 6), 4))
    g.output(g.Shape(y, start=1, end=end), "s")
    g.output(g.Shape(y, start=0, end=2), "t")
    inner = g.Shape(y)
    g.output(g.Add(inner, np.array([1, 2, 3, 4])), "u")
    g.output(conv(g, y, 2), "y")
    name = inner.name
    model = check(g, {"x": (2, 3, 5, 6)}, {"x": (1, 3, 7, 6)})
    assert [v.name for v in model.graph.outputs] == ["s", "t", "u", "y"]
    # A value that is not an output keeps its name.
    assert any(v.name == name and n.op_type == "Shape" for n in model.graph for v in n.outputs)


@pytest.mark.parametrize("domain", ["mine", "a"])
def test_domains_of_others_are_not_taken_for_that_of_the_pass(domain: str) -> None:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, (2, 3))
    node = ir.Node(domain, "Thing", [x])
    g.graph.append(node)
    node.outputs[0].name, node.outputs[0].type = "y", ir.TensorType(ir.DataType.FLOAT)
    g.graph.outputs.append(node.outputs[0])
    model = ir.Model(g.graph, ir_version=10)
    assign_layout(model, sensitive="channels_last")
    assert CHANNELS_LAST not in model.opset_imports
