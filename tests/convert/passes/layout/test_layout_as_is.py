"""The layout pass for graphs from TensorFlow: N spatial… C, with transposes around sensitive operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.passes.layout.assign import assign_layout
from tests.support.layout_support import batch_norm, check, conv, interior, nodes, weights

F = ir.DataType.FLOAT


def first(g: Graph, x: ir.Value) -> ir.Value:
    """Transpose N spatial… C to N C spatial…, as the TensorFlow frontend does before a sensitive operator."""
    return g.Transpose(x, perm=[0, g.rank(x) - 1, *range(1, g.rank(x) - 1)])


def last(g: Graph, x: ir.Value) -> ir.Value:
    """Transpose channels back to the last dim."""
    return g.Transpose(x, perm=[0, *range(2, g.rank(x)), 1])


def tf_conv(g: Graph, x: ir.Value, out: int, kernel: int = 3, *, group: int = 1, stride: int = 1) -> ir.Value:
    return last(g, conv(g, first(g, x), out, kernel, group=group, stride=stride))


def laid_out(g: Graph, *shapes: dict[str, tuple[int, ...]], boundary: str = "as is") -> ir.Model:
    model = check(g, *shapes, sensitive="as is", boundary=boundary)
    assert all(node.domain == "" for node in model.graph.all_nodes())
    return model


def test_residual_network() -> None:
    g = Graph()
    x = g.Sub(g.input("x", F, ["batch", 8, 8, 3]), weights(3))
    a = g.Relu(last(g, batch_norm(g, first(g, g.Add(tf_conv(g, x, 8), weights(8))))))
    b = g.Clip(g.Add(tf_conv(g, a, 8), weights(8)), 0.0, 6.0)
    y = g.Relu(g.Add(a, b))
    g.output(g.MatMul(g.ReduceMean(y, [1, 2], keepdims=0), weights(8, 10)), "scores")
    g.output(y, "features")
    model = laid_out(g, {"x": (2, 8, 8, 3)}, {"x": (1, 8, 8, 3)})
    assert len(nodes(model, "Transpose")) == 2
    assert nodes(model, "Relu")[-1].outputs[0].name == "features_inner"


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_ranks(spatial: int) -> None:
    g = Graph()
    x = tf_conv(g, g.input("x", F, ["n", *[6] * spatial, 3]), 4)
    y = g.Concat(g.Relu(x), g.Mul(x, weights(4)), axis=-1)
    y = g.Pad(y, [0, *[1] * spatial, 0, 0, *[2] * spatial, 0])
    g.output(g.Softmax(tf_conv(g, y, 5), axis=-1), "y")
    model = laid_out(g, {"x": (2, *[6] * spatial, 3)})
    assert [n.attributes.get_ints("perm") for n in nodes(model, "Transpose")] == [
        (0, spatial + 1, *range(1, spatial + 1)),
        (0, *range(2, spatial + 2), 1),
    ]
    assert nodes(model, "Softmax")[0].attributes.get_int("axis") == 1


def test_mobile_block_with_squeeze_and_excitation() -> None:
    g = Graph()
    x = tf_conv(g, g.input("x", F, ["batch", 8, 8, 3]), 8, stride=2)
    y = g.HardSwish(tf_conv(g, x, 8, group=8))
    pooled = g.Reshape(g.ReduceMean(y, [1, 2], keepdims=0), [-1, 1, 1, 8])
    scale = g.Sigmoid(tf_conv(g, g.Relu(tf_conv(g, pooled, 2, 1)), 8, 1))
    y = g.Add(x, tf_conv(g, g.Mul(y, scale), 8, 1))
    g.output(y, "y")
    model = laid_out(g, {"x": (2, 8, 8, 3)})
    assert len(nodes(model, "Transpose")) == 2
    assert interior(model) == []


@pytest.mark.parametrize(("spatial", "biased"), [(1, True), (2, True), (2, False)])
def test_convnext_blocks_are_convolutions(spatial: int, biased: bool) -> None:
    g = Graph()
    x = tf_conv(g, g.input("x", F, ["batch", *[8] * spatial, 3]), 8)
    for _ in range(2):
        given = [1 + weights(8), weights(8)][: 1 + biased]
        y = g.LayerNormalization(tf_conv(g, x, 8, 7, group=8), *given, axis=-1, epsilon=1e-3)
        y = g.Add(g.MatMul(g.Gelu(g.Add(weights(32), g.MatMul(y, weights(8, 32)))), weights(32, 8)), weights(8))
        x = g.Add(x, g.Mul(y, weights(8)))
    g.output(g.ReduceMean(x, list(range(1, spatial + 1)), keepdims=0), "y")
    model = laid_out(g, {"x": (2, *[8] * spatial, 3)}, {"x": (1, *[8] * spatial, 3)})
    assert len(nodes(model, "Transpose")) == 1, "the input"
    assert not nodes(model, "MatMul")
    assert not nodes(model, "LayerNormalization")
    assert len(nodes(model, "Conv")) == 7
    assert all(len(n.inputs) == 3 for n in nodes(model, "Conv")), "biases are the convolutions'"


def test_dense_layers_and_norms_stay_where_that_saves_no_transpose() -> None:
    g = Graph()
    x = tf_conv(g, g.input("x", F, ["batch", 8, 8, 3]), 8)
    x = g.LayerNormalization(x, 1 + weights(8), weights(8), axis=-1)
    x = g.Add(g.MatMul(x, weights(8, 8)), weights(8))
    x = g.LayerNormalization(x, 1 + weights(8, seed=1), axis=-1)
    g.output(tf_conv(g, g.Reshape(x, [-1, 4, 16, 8]), 4), "y")
    model = laid_out(g, {"x": (2, 8, 8, 3)})
    assert len(nodes(model, "Transpose")) == 4
    assert len(nodes(model, "LayerNormalization")) == 2
    assert len(nodes(model, "MatMul")) == 1


@pytest.mark.parametrize("bias", [(1, 6), (6, 6), (1,), (8, 8, 1)])
def test_what_is_added_to_a_product_may_be_no_bias(bias: tuple[int, ...]) -> None:
    g = Graph()
    x = tf_conv(g, g.input("x", F, ["batch", 8, 8, 3]), 8)
    width = 8 if bias[0] == 8 else 6
    y = g.Add(g.MatMul(g.Relu(x), weights(8, 6)), weights(*((8, 6) if bias == (6, 6) else bias)))
    g.output(g.Add(tf_conv(g, y, width), g.Exp(g.MatMul(x, weights(8, width)))), "y")
    model = laid_out(g, {"x": (2, 8, 8, 3)})
    assert len(nodes(model, "Transpose")) == 2
    assert len(nodes(model, "Conv")) == 4
    assert len(nodes(model, "Add")) == 1 + (bias != (1, 6))


def test_dense_network_after_flatten() -> None:
    g = Graph()
    x = g.Relu(tf_conv(g, g.input("x", F, ["batch", 8, 8, 1]), 4))
    x = last(g, g.MaxPool(first(g, x), kernel_shape=[2, 2], strides=[2, 2]))
    x = g.Relu(tf_conv(g, x, 4))
    g.output(g.MatMul(g.Reshape(x, [-1, 64]), weights(64, 10)), "y")
    model = laid_out(g, {"x": (2, 8, 8, 1)})
    assert [n.inputs[0].name == "x" for n in nodes(model, "Transpose")] == [True, False]


def test_network_with_one_channel_and_equal_dims() -> None:
    g = Graph()
    x = tf_conv(g, g.input("x", F, [3, 3, 3, 3]), 3)
    y = g.Add(g.Mul(x, weights(3)), g.Mul(weights(3, 1), x))
    g.output(tf_conv(g, g.Concat(y, g.Neg(y), axis=1), 3), "y")
    model = laid_out(g, {})
    assert len(nodes(model, "Transpose")) == 2
    assert nodes(model, "Concat")[0].attributes.get_int("axis") == 2


def test_boundary_moved() -> None:
    g = Graph()
    x = g.input("x", F, ["n", 8, 8, 3])
    y = g.Relu(tf_conv(g, x, 4))
    g.output(y, "y")
    g.output(g.ReduceMax(y, [1, 2], keepdims=0), "pooled")
    model = laid_out(g, {"x": (2, 8, 8, 3)}, boundary="moved")
    assert nodes(model, "Transpose") == []
    assert [list(v.shape) for v in (*model.graph.inputs, *model.graph.outputs)] == [
        ["n", 3, 8, 8],
        ["n", 4, 8, 8],
        ["n", 4],
    ]


def test_unknown_dims_and_resize() -> None:
    g = Graph()
    x = tf_conv(g, g.input("x", F, [None, None, None, 3]), 4)
    low = g.Relu(last(g, g.AveragePool(first(g, x), kernel_shape=[2, 2], strides=[2, 2])))
    size = g.Gather(g.Shape(x), [0, 3, 1, 2], axis=0)
    high = last(g, g.Resize(first(g, low), None, None, size, mode="nearest"))
    g.output(g.Concat(x, high, axis=3), "y")
    model = laid_out(g, {"x": (2, 6, 4, 3)}, {"x": (1, 3, 5, 3)})
    assert len(nodes(model, "Transpose")) == 2


OPERATORS: dict[str, Callable[[Graph, ir.Value], ir.Value]] = {
    "bias and relu": lambda g, x: g.Relu(g.Add(x, weights(6))),
    "plane": lambda g, x: g.Add(x, weights(5, 6)),
    "computed vector": lambda g, x: g.Mul(x, g.Exp(g.ReduceMax(x, [0, 1, 2], keepdims=0))),
    "split": lambda g, x: g.Mul(*g.Split(x, axis=3, outputs=2, num_outputs=2)),
    "slice": lambda g, x: g.Slice(x, [1, 1], [4, 7], [-1, 1]),
    "softmax": lambda g, x: g.Softmax(x, axis=-1),
    "regroup spatial dims": lambda g, x: g.Reshape(x, [2, 4, -1, 6]),
    "drop and restore a dim": lambda g, x: g.Unsqueeze(g.ReduceSum(x, [1], keepdims=0), [1]),
    "squeeze": lambda g, x: g.Unsqueeze(g.Squeeze(g.ReduceMean(x, [1, 2], keepdims=1), [1, 2]), [1, 2]),
    "layer norm over all": lambda g, x: g.LayerNormalization(x, weights(8, 5, 6), None, axis=1),
    "tile": lambda g, x: g.Tile(x, [1, 2, 1, 1]),
    "cumulative sum": lambda g, x: g.CumSum(x, np.array(3)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_between_convolutions(name: str) -> None:
    g = Graph()
    g.output(tf_conv(g, OPERATORS[name](g, tf_conv(g, g.input("x", F, [2, 8, 5, 3]), 6)), 4), "y")
    model = laid_out(g, {})
    assert [n.attributes.get_ints("perm") for n in nodes(model, "Transpose")] == [(0, 3, 1, 2), (0, 2, 3, 1)]


def test_transposes_of_attention_are_left_alone() -> None:
    g = Graph()
    x = g.input("x", F, ["batch", 7, 6])
    heads = g.Transpose(g.Reshape(x, [0, 7, 2, 3]), perm=[0, 2, 1, 3])
    y = g.Transpose(g.MatMul(heads, g.Transpose(heads, perm=[0, 1, 3, 2])), perm=[0, 3, 1, 2])
    g.output(g.Transpose(g.Relu(g.Reshape(y, [0, 7, 14])), perm=[0, 2, 1]), "y")
    model = g.model()
    before = ir.to_proto(model)
    assert assign_layout(model, sensitive="as is") is False
    assert ir.to_proto(model) == before


@pytest.mark.parametrize("added", [False, True])
def test_a_dense_layer_at_the_end_is_the_output(added: bool) -> None:
    g = Graph()
    y = g.MatMul(tf_conv(g, g.input("x", F, ["batch", 8, 8, 3]), 8), weights(8, 6))
    g.output(g.Add(y, weights(6)) if added else y, "y")
    model = check(g, {"x": (2, 8, 8, 3)}, sensitive="as is", boundary="moved")
    assert [v.name for v in model.graph.outputs] == ["y"]
    assert [n.op_type for n in model.graph][-1] == "Conv"
    assert model.graph.outputs[0].producer() is list(model.graph)[-1]
