"""Clean-up and batch-norm folding: the same numbers in onnxruntime, fewer nodes, no copies of weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from convert.graph import Graph
from convert.passes.tidy import clean as tidy
from convert.passes.tidy.batchnorm import fold_batch_norms
from convert.passes.tidy.clean import clean

F = ir.DataType.FLOAT
RNG = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def norm(g: Graph, x: ir.Value, channels: int) -> ir.Value:
    stats = [weights(channels), weights(channels), weights(channels), np.abs(weights(channels)) + 0.1]
    return g.BatchNormalization(x, *stats, epsilon=1e-3)


def run(model: ir.Model, *, optimized: bool = True, **feeds: np.ndarray) -> list[np.ndarray]:
    proto = ir.to_proto(model)
    proto.opset_import[0].version = 20
    onnx.checker.check_model(proto, full_check=True)
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def counts(model: ir.Model) -> Counter[str]:
    return Counter(n.op_type for n in model.graph)


def conv(g: Graph, x: ir.Value) -> ir.Value:
    return g.Conv(x, weights(4, 3, 3, 3), weights(4), pads=[1, 1, 1, 1])


def grouped(g: Graph, x: ir.Value) -> ir.Value:
    return g.Conv(x, weights(6, 1, 3, 3), group=3)


def transposed(g: Graph, x: ir.Value) -> ir.Value:
    return g.ConvTranspose(x, weights(3, 4, 2, 2), strides=[2, 2])


@pytest.mark.parametrize(("layer", "channels"), [(conv, 4), (grouped, 6), (transposed, 4)])
def test_batch_norm_folds_into_the_convolution_before_it(layer: object, channels: int) -> None:
    g = Graph()
    x = g.input("x", F, ["n", 3, 8, 8])
    g.output(norm(g, layer(g, x), channels), "y")
    model = g.model()
    feed = weights(2, 3, 8, 8)
    before = run(model.clone(), x=feed)[0]
    assert fold_batch_norms(model)
    assert counts(model)["BatchNormalization"] == 0
    after = run(model, x=feed)[0]
    # Folding moves each output by a few roundings of its largest summand.
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=4 * 2.0**-24 * np.abs(before).max())


DENSE: dict[str, Callable[[Graph, ir.Value], ir.Value]] = {
    "x·Wᵀ + b": lambda g, x: g.Gemm(x, weights(7, 5), weights(7), transB=1),
    "x·W + b": lambda g, x: g.Gemm(x, weights(5, 7), weights(7)),
    "x·W": lambda g, x: g.MatMul(x, weights(5, 7)),
}


@pytest.mark.parametrize("name", DENSE)
def test_batch_norm_folds_into_dense_layers(name: str) -> None:
    g = Graph()
    x = g.input("x", F, ["n", 5])
    g.output(norm(g, DENSE[name](g, x), 7), "y")
    model = g.model()
    before = run(model.clone(), x=(feed := weights(3, 5)))[0]
    assert fold_batch_norms(model)
    assert counts(model) == {"Gemm": 1}
    np.testing.assert_allclose(run(model, x=feed)[0], before, rtol=1e-5, atol=1e-6)


def test_batch_norm_stays_behind_a_gemm_that_adds_a_column() -> None:
    """The column has one number for each row, and the number of rows equals that of columns."""
    g = Graph()
    g.output(norm(g, g.Gemm(g.input("x", F, [4, 3]), weights(3, 4), weights(4, 1)), 4), "y")
    model, feed = g.model(), weights(4, 3)
    before = run(model.clone(), x=feed)[0]
    fold_batch_norms(model)
    np.testing.assert_allclose(run(model, x=feed)[0], before, rtol=1e-5, atol=1e-6)


def shared_conv(g: Graph, x: ir.Value) -> ir.Value:
    y = conv(g, x)
    return g.Add(norm(g, y, 4), y)


def preactivation(g: Graph, x: ir.Value) -> ir.Value:
    return conv(g, norm(g, x, 3))


@pytest.mark.parametrize("layer", [shared_conv, preactivation])
def test_batch_norm_stays_where_folding_would_be_wrong(layer: object) -> None:
    g = Graph()
    g.output(layer(g, g.input("x", F, ["n", 3, 8, 8])), "y")
    model = g.model()
    assert not fold_batch_norms(model)
    assert counts(model)["BatchNormalization"] == 1


def test_clean_folds_shape_arithmetic_and_repeated_work() -> None:
    g = Graph()
    x = g.input("x", F, ["n", 4, 3])
    batch = g.Gather(g.Shape(x), 0)
    size = g.Mul(g.Gather(g.Shape(x), 1), g.Gather(g.Shape(x), 2))
    flat = g.Reshape(g.Identity(x), g.Concat(g.Unsqueeze(batch, [0]), g.Unsqueeze(size, [0]), axis=0))
    g.output(g.Add(g.Dropout(g.Relu(flat)), g.Relu(flat)), "y")
    g.Sigmoid(x)
    model = g.model()
    feed = weights(2, 4, 3)
    before = run(model.clone(), x=feed)[0]
    assert clean(model)
    np.testing.assert_array_equal(run(model, x=feed)[0], before)
    assert counts(model)["Relu"] == 1
    assert not {"Identity", "Dropout", "Sigmoid"} & set(counts(model))


@pytest.mark.parametrize(("most", "kept"), [(3, {"Relu": 2, "Neg": 1, "Identity": 2}), (2, {"Relu": 2, "Neg": 3})])
def test_equal_outputs_are_merged_unless_there_are_many(
    monkeypatch: pytest.MonkeyPatch, most: int, kept: dict[str, int]
) -> None:
    """Each merged output takes a look at all others."""
    monkeypatch.setattr(tidy, "_MANY_OUTPUTS", most)
    g = Graph()
    x = g.input("x", F, ["n", 4])
    for name in ("a", "b", "c"):
        g.output(g.Neg(g.Relu(g.Relu(x))), name)
    model, feed = g.model(), weights(2, 4)
    before = run(model.clone(), x=feed)
    clean(model)
    assert counts(model) == kept
    for a, b in zip(before, run(model, x=feed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_static_shapes_are_constants() -> None:
    g = Graph()
    x = g.input("x", F, [2, 4, 3])
    g.output(g.Reshape(x, g.Concat(g.Shape(x, start=0, end=1), [12], axis=0)), "y")
    model = g.model()
    clean(model)
    assert counts(model) == {"Reshape": 1}


@pytest.mark.parametrize("indices", [1, [1], [[1, 2]], [[1], [-1]]], ids=str)
def test_picked_dims_have_the_shape_of_the_indices(indices: int | list[int]) -> None:
    g = Graph()
    x = g.input("x", F, ["n", 4, 3])
    g.output(g.Add(g.Gather(g.Shape(x), np.array(indices)), np.int64(1)), "y")
    g.output(g.Relu(x), "z")
    model, feed = g.model(), weights(2, 4, 3)
    before = run(model.clone(), x=feed)[0]
    clean(model)
    assert counts(model)["Gather"] == 0
    np.testing.assert_array_equal(run(model, x=feed)[0], before, strict=True)


def test_equal_nodes_that_leave_different_outputs_out_stay_two() -> None:
    """onnxruntime would also merge them when it optimizes, and then not load the model (1.31)."""
    g = Graph()
    x, w, r = g.input("x", F, [4, 2, 3]), weights(1, 5, 3), weights(1, 5, 5)
    rnns = [g.RNN(x, w, r, hidden_size=5, outputs=2) for _ in range(3)]
    for i, left_out in enumerate((1, 0, 0)):
        rnns[i][left_out].name = ""
    g.output(g.Neg(rnns[0][0]), "steps")
    g.output(g.Neg(rnns[1][1]), "last")
    g.output(g.Abs(rnns[2][1]), "size")
    model, feed = g.model(), weights(4, 2, 3)
    before = run(model.clone(), optimized=False, x=feed)
    clean(model)
    assert counts(model)["RNN"] == 2
    for a, b in zip(before, run(model, optimized=False, x=feed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_transposed_weight_is_a_lazy_view() -> None:
    g = Graph()
    weight = weights(300, 200)
    g.output(g.MatMul(g.input("x", F, ["n", 200]), g.Transpose(weight, perm=[1, 0])), "y")
    model = g.model()
    before = run(model.clone(), x=(feed := weights(2, 200)))[0]
    clean(model)
    assert counts(model) == {"MatMul": 1}
    (tensor,) = [v.const_value for v in model.graph.initializers.values()]
    assert isinstance(tensor, ir.LazyTensor)
    assert np.shares_memory(tensor.numpy(), weight)
    np.testing.assert_allclose(run(model, x=feed)[0], before, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("operator", ["RandomNormal", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout"])
def test_random_operators_are_not_folded_or_shared(operator: str) -> None:
    """Two nodes with the same constant inputs give two samples in each run."""
    g = Graph()
    x = g.const(np.full((2, 3), 0.5, np.float32))
    given = {"RandomNormal": [], "Dropout": [x, g.const(np.float32(0.5)), g.const(True)]}.get(operator, [x])
    attributes = {"RandomNormal": {"shape": [2]}}.get(operator, {})
    a, b = (getattr(g, operator)(*given, **attributes) for _ in range(2))
    g.output(g.Sub(*(v if isinstance(v, ir.Value) else v[0] for v in (a, b))), "y")
    model = g.model()
    clean(model)
    assert counts(model)[operator] == 2
    assert not any(node.attributes.get("convert.own") for node in model.graph)


@pytest.mark.parametrize("ends", [(2**31 - 1, 2**63 - 1), (2**31 - 2, 5), (-1, 2**63 - 1)])
def test_a_slice_that_takes_all_there_is_goes(ends: tuple[int, int]) -> None:
    """`x[:, :]` of any size is removed; a slice with an end, a later start or a step stays."""
    g = Graph()
    x = g.input("x", F, ["n", "m"])
    axes, whole = np.array([0, 1]), ends == (2**31 - 1, 2**63 - 1)
    g.output(g.Abs(g.Slice(x, np.array([0, 0]), np.array(ends), axes)), "whole")
    g.output(g.Abs(g.Slice(x, np.array([0, 1]), np.array(ends), axes)), "late")
    g.output(g.Abs(g.Slice(x, np.array([0, 0]), np.array(ends), axes, np.array([1, 2]))), "steps")
    g.output(g.Slice(x, np.array([0, 0]), np.array(ends), axes), "tied")
    model, feed = g.model(), weights(3, 7)
    before = run(model, x=feed)
    clean(model)
    (maker,) = model.graph.outputs[0].producer().inputs
    assert (maker is model.graph.inputs[0]) is whole
    assert counts(model)["Slice"] == 3
    for a, b in zip(before, run(model, x=feed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_pieces_of_a_weight_are_put_together_without_copies() -> None:
    """Gates of an LSTM in another order, as PyTorch's exporter writes them, become one lazy weight."""
    g = Graph()
    x, weight = g.input("x", F, ["n", 128]), weights(513, 128)
    kept, w = g.initializer("kept", ir.tensor(weights(512, 128))), g.initializer("w", ir.tensor(weight))
    cuts = [(0, 128, 1), (385, 2**31 - 1, 1), (-129, 128, -1), (-900, -(2**31), -1)]
    parts = [g.Slice(w, np.array([a]), np.array([b]), np.array([0]), np.array([s])) for a, b, s in cuts]
    g.output(g.MatMul(x, g.Transpose(g.Concat(*parts, axis=0), perm=[1, 0])), "y")
    g.output(g.MatMul(x, g.Transpose(g.Slice(kept, np.array([0]), np.array([500]), np.array([0])), perm=[1, 0])), "z")
    g.output(g.MatMul(x, g.Transpose(kept, perm=[1, 0])), "whole")
    table = g.initializer("table", ir.tensor(weights(512, 128)))
    for i in range(3):
        rows = g.Slice(table, np.array([i]), np.array([500]), np.array([0]))
        g.output(g.MatMul(x, g.Transpose(rows, perm=[1, 0])), f"rows{i}")
    model, feed = g.model(), weights(3, 128)
    before = run(model, x=feed)
    clean(model)
    assert counts(model)["Concat"] == 0
    assert counts(model)["Slice"] == 4, "what something else reads, whole or in rows that overlap, is stored once"
    for a, b in zip(before, run(model, x=feed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
