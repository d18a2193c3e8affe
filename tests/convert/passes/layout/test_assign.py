"""The layout pass for channels-last kernels: the same numbers in onnxruntime, and transposes at the boundary only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.passes.layout.assign import CHANNELS_LAST
from tests.support.layout_support import batch_norm, check, conv, image, interior, is_last, nodes, weights

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64


def test_residual_network_has_one_transpose_in_and_one_for_each_output() -> None:
    g = Graph()
    a = g.Relu(batch_norm(g, conv(g, image(g, "batch", 3, 8, 8), 8)))
    d = g.Relu(g.Add(a, conv(g, g.Relu(conv(g, a, 8)), 8)))
    pooled = g.Flatten(g.GlobalAveragePool(g.MaxPool(d, kernel_shape=[2, 2], strides=[2, 2])))
    g.output(g.MatMul(pooled, weights(8, 10)), "scores")
    g.output(d, "features")
    model = check(g, {"x": (2, 3, 8, 8)}, {"x": (1, 3, 8, 8)})
    assert [n.inputs[0].name for n in nodes(model, "Transpose")] == ["x", "features_inner"]
    assert all(is_last(n) for op in ("Conv", "BatchNormalization", "MaxPool") for n in nodes(model, op))
    assert [list(n.inputs[1].shape) for n in nodes(model, "Conv")] == [[8, 3, 3, 3], [8, 8, 3, 3], [8, 8, 3, 3]]
    assert model.graph.opset_imports[CHANNELS_LAST] == 1


def squeeze_by_convolution(g: Graph, x: ir.Value) -> ir.Value:
    return g.Sigmoid(conv(g, g.Relu(conv(g, g.GlobalAveragePool(x), 2, 1)), 8, 1))


def squeeze_by_mean_and_convolution(g: Graph, x: ir.Value) -> ir.Value:
    return g.HardSigmoid(conv(g, g.ReduceMean(x, [2, 3], keepdims=1), 8, 1))


def squeeze_by_linear(g: Graph, x: ir.Value) -> ir.Value:
    scale = g.Sigmoid(g.MatMul(g.ReduceMean(x, [-2, -1], keepdims=0), weights(8, 8)))
    return g.Unsqueeze(scale, [2, 3])


def squeeze_by_reshape(g: Graph, x: ir.Value) -> ir.Value:
    flat = g.Reshape(g.GlobalAveragePool(x), [0, -1])
    return g.Reshape(g.MatMul(flat, weights(8, 8)), [-1, 8, 1, 1])


@pytest.mark.parametrize(
    "squeeze", [squeeze_by_convolution, squeeze_by_mean_and_convolution, squeeze_by_linear, squeeze_by_reshape]
)
def test_depthwise_separable_block_with_squeeze_and_excitation(squeeze: Callable) -> None:
    g = Graph()
    x = conv(g, image(g, "batch", 3, 8, 8), 8, stride=2)
    y = g.HardSwish(conv(g, x, 8, group=8))
    y = conv(g, g.Mul(y, squeeze(g, y)), 8, 1)
    g.output(g.Add(x, y), "y")
    model = check(g, {"x": (2, 3, 8, 8)})
    assert len(nodes(model, "Transpose")) == 2
    assert interior(model) == []


def test_dense_block() -> None:
    g = Graph()
    x = conv(g, image(g, 2, 3, 8, 8), 4)
    for _ in range(3):
        new = conv(g, g.Relu(batch_norm(g, x)), 2)
        x = g.Concat(x, new, axis=1)
    g.output(g.AveragePool(conv(g, x, 4, 1), kernel_shape=[2, 2], strides=[2, 2]), "y")
    model = check(g, {})
    assert len(nodes(model, "Transpose")) == 2
    assert {n.attributes.get_int("axis") for n in nodes(model, "Concat")} == {3}


def test_nothing_is_told_from_shapes_when_all_dims_are_equal() -> None:
    g = Graph()
    x = conv(g, image(g, 4, 4, 4, 4), 4)
    y = g.Concat(g.Softmax(x, axis=1), g.Softmax(x, axis=2), g.Softmax(x, axis=3), axis=2)
    z = g.MatMul(y, weights(4, 4))
    g.output(conv(g, g.Transpose(z, perm=[0, 2, 1, 3]), 4), "y")
    model = check(g, {})
    assert len(nodes(model, "Transpose")) == 4  # input, MatMul (the model's own, with the way back), output


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_ranks(spatial: int) -> None:
    g = Graph()
    x = conv(g, image(g, "n", 3, *[6] * spatial), 4)
    y = g.Add(g.Concat(g.Relu(x), g.Mul(x, weights(4, *[1] * spatial)), axis=1), weights(*[6] * spatial))
    y = g.Pad(y, [0, 0, *[1] * spatial, 0, 0, *[2] * spatial])
    g.output(g.Softmax(conv(g, y, 5), axis=1), "y")
    model = check(g, {"x": (2, 3, *[6] * spatial)})
    assert [n.attributes.get_ints("perm") for n in nodes(model, "Transpose")] == [
        (0, *range(2, spatial + 2), 1),
        (0, spatial + 1, *range(1, spatial + 1)),
    ]


def test_convnext_block_needs_no_interior_transpose() -> None:
    g = Graph()
    x = conv(g, image(g, "batch", 3, 8, 8), 8, stride=2)
    for _ in range(2):
        y = g.Transpose(conv(g, x, 8, 7, group=8), perm=[0, 2, 3, 1])
        y = g.LayerNormalization(y, 1 + weights(8), weights(8), axis=-1)
        y = g.Add(g.MatMul(g.Gelu(g.MatMul(y, weights(8, 32))), weights(32, 8)), weights(8))
        y = g.Mul(g.Transpose(y, perm=[0, 3, 1, 2]), weights(8, 1, 1))
        x = g.Add(x, y)
    g.output(g.ReduceMean(x, [2, 3], keepdims=0), "y")
    model = check(g, {"x": (2, 3, 8, 8)})
    assert len(nodes(model, "Transpose")) == 1
    assert interior(model) == []


def test_transformer_after_patches() -> None:
    g = Graph()
    x = g.Conv(image(g, "batch", 3, 8, 8), weights(6, 3, 2, 2), strides=[2, 2])
    tokens = g.Transpose(g.Reshape(x, [0, 6, 16]), perm=[0, 2, 1])
    tokens = g.Add(tokens, weights(1, 16, 6))
    heads = g.Transpose(g.Reshape(tokens, [0, 16, 2, 3]), perm=[0, 2, 1, 3])
    y = g.MatMul(heads, g.Transpose(heads, perm=[0, 1, 3, 2]))
    g.output(y, "y")
    model = check(g, {"x": (3, 3, 8, 8)})
    assert len(nodes(model, "Transpose")) == 3  # one at the input, and the two of attention


def test_back_from_tokens_to_an_image() -> None:
    g = Graph()
    tokens = g.MatMul(g.input("x", F, ["batch", 16, 6]), weights(6, 6))
    x = g.Reshape(g.Transpose(tokens, perm=[0, 2, 1]), [-1, 6, 4, 4])
    g.output(conv(g, x, 4), "y")
    model = check(g, {"x": (2, 16, 6)})
    assert len(nodes(model, "Transpose")) == 1
    assert nodes(model, "Transpose")[0].outputs[0].name == "y"


def test_convolution_over_tokens_of_rank_3() -> None:
    g = Graph()
    tokens = g.MatMul(g.input("x", F, ["batch", 16, 6]), weights(6, 6))
    y = g.Relu(conv(g, g.Transpose(tokens, perm=[0, 2, 1]), 6))
    y = g.Add(tokens, g.Transpose(y, perm=[0, 2, 1]))
    g.output(g.LayerNormalization(y, weights(6), axis=-1), "y")
    model = check(g, {"x": (2, 16, 6)})
    assert nodes(model, "Transpose") == []


def test_segmentation_map() -> None:
    g = Graph()
    y = conv(g, image(g, 1, 3, "h", "w"), 5)
    g.output(g.ArgMax(y, axis=1, keepdims=0), "classes")
    g.output(g.Gather(y, np.array(2), axis=1), "second")
    model = check(g, {"x": (1, 3, 6, 4)}, {"x": (1, 3, 3, 7)})
    assert len(nodes(model, "Transpose")) == 1


def test_unknown_dims() -> None:
    g = Graph()
    y = conv(g, image(g, None, 3, None, None), 4)
    skip = y
    y = g.MaxPool(y, kernel_shape=[2, 2], strides=[2, 2])
    y = g.Resize(conv(g, y, 4), None, [1.0, 1.0, 2.0, 2.0], mode="linear")
    y = g.Concat(skip, g.Add(y, weights(4, 1, 1)), axis=1)
    g.output(g.DepthToSpace(conv(g, y, 8), blocksize=2, mode="CRD"), "y")
    model = check(g, {"x": (2, 3, 6, 4)}, {"x": (1, 3, 2, 8)})
    assert len(nodes(model, "Transpose")) == 2


def test_resize_to_the_size_of_another_value() -> None:
    g = Graph()
    x = g.facts(conv(g, image(g, "n", 3, "h", "w"), 4), shape=["n", 4, "h", "w"])
    low = g.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])
    size = g.Concat(g.Shape(low, start=0, end=2), g.Shape(x, start=2), axis=0)
    high = g.facts(g.Resize(low, None, None, size), shape=["n", 4, "h", "w"])
    low = g.facts(low, shape=["n", 4, None, None])
    g.output(g.Add(x, high), "y")
    model = check(g, {"x": (2, 3, 6, 4)}, {"x": (1, 3, 7, 9)})
    assert len(nodes(model, "Transpose")) == 2
    assert is_last(nodes(model, "Resize")[0])


def test_operand_of_lower_rank_that_is_computed() -> None:
    g = Graph()
    x = conv(g, image(g, 2, 4, 6, 6), 4)
    full, plane, row = g.input("full", F, [4, 6, 6]), g.input("plane", F, [6, 6]), g.input("row", F, [6])
    y = g.Mul(g.Add(g.Add(x, g.Neg(full)), g.Neg(plane)), g.Exp(row))
    y = g.Add(y, g.input("scalar", F, []))
    g.output(conv(g, y, 4), "y")
    model = check(g, {})
    perms = [n.attributes.get_ints("perm") for n in nodes(model, "Transpose")]
    assert sorted(perms) == [(0, 2, 3, 1), (0, 3, 1, 2), (1, 2, 0)]


def test_reshapes_that_mix_channels_take_their_input_as_is() -> None:
    g = Graph()
    x = conv(g, image(g, 2, 3, 8, 5), 6)
    g.output(conv(g, g.Reshape(x, [2, 8, 6, 5]), 4), "y")
    g.output(g.Flatten(g.GlobalMaxPool(x), axis=2), "column")
    model = check(g, {})
    assert {n.outputs[0].uses()[0].node.op_type for n in interior(model)} == {"Reshape", "Conv", "Flatten"}


def test_reshape_that_mixes_batch_and_channels() -> None:
    g = Graph()
    x = g.GlobalMaxPool(conv(g, image(g, "n", 3, 4, 4), 8))
    target = g.Concat(g.Shape(x, start=1, end=2), [-1], axis=0)
    y = g.Reshape(x, target)
    g.output(g.facts(y, shape=[None, None]), "y")
    check(g, {"x": (3, 3, 4, 4)})


def test_chain_of_other_transposes_becomes_one() -> None:
    g = Graph()
    x = conv(g, image(g, 2, 3, 5, 6), 4)
    y = g.Transpose(g.Transpose(x, perm=[0, 2, 1, 3]), perm=[3, 0, 2, 1])
    g.output(g.MatMul(y, weights(5, 3)), "y")
    model = check(g, {})
    assert len(nodes(model, "Transpose")) == 2


def test_value_for_a_convolution_and_a_reshape() -> None:
    g = Graph()
    x = g.Relu(conv(g, image(g, 2, 3, 6, 6), 4))
    g.output(conv(g, x, 4), "y")
    g.output(g.Reshape(x, [2, -1]), "flat")
    g.output(g.Reshape(g.Neg(x), [2, 2, -1]), "again")
    model = check(g, {})
    assert len(interior(model)) == 1  # x as is, for both readers


def test_one_transpose_for_many_consumers() -> None:
    g = Graph()
    x = image(g, 2, 3, 6, 6)
    for i in range(4):
        g.output(g.ReduceMean(conv(g, x, 4 + i), [2, 3], keepdims=0), f"y{i}")
    assert len(nodes(check(g, {}), "Transpose")) == 1
