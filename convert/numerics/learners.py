"""Feature operators and linear models of ONNX-ML, built of ONNX's own operators.

The specification leaves the scores of two classes open; they follow ONNX Runtime's kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.metadata import WIDER_KEY
from convert.graph.values import known_dims
from convert.numerics.pairwise import coupled_probabilities

FLOAT = ir.DataType.FLOAT


def as_float(g: Graph, x: ir.Value | None) -> ir.Value:
    """Return `x` in float32, the dtype in which these operators compute."""
    assert x is not None
    return x if g.dtype(x) == FLOAT else g.Cast(x, to=FLOAT)


def floats(node: ir.Node, name: str) -> np.ndarray:
    """Return an attribute of floats, empty if it is absent."""
    return np.array(node.attributes.get_floats(name, []), np.float32)


def scaler(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """Scaler: (x - offset) · scale, per column or with one number."""
    return [g.Mul(g.Sub(as_float(g, node.inputs[0]), floats(node, "offset")), floats(node, "scale"))]


def imputer(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """Imputer: `imputed_value` where x equals the value to replace, which may be NaN."""
    x = node.inputs[0]
    assert x is not None
    dtype = g.dtype(x)
    if dtype == ir.DataType.INT64:
        put = np.array(node.attributes.get_ints("imputed_value_int64s", []), np.int64)
        missing = g.Equal(x, np.int64(node.attributes.get_int("replaced_value_int64", 0)))
    else:
        put = floats(node, "imputed_value_floats").astype(dtype.numpy())
        replaced = node.attributes.get_float("replaced_value_float", 0.0)
        missing = g.IsNaN(x) if np.isnan(replaced) else g.Equal(x, g.const(replaced, dtype))
    if not put.size:
        raise Unsupported("Imputer without replacement values")
    return [g.Where(missing, put, x)]


def normalizer(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """Normalizer: each row divided by its maximum, its L1 norm or its L2 norm; rows of zeros stay."""
    x = as_float(g, node.inputs[0])
    last, kind = np.array([-1]), node.attributes.get_string("norm", "MAX")
    if kind == "L2":
        by = g.ReduceL2(x, last, keepdims=1)
    elif kind == "L1":
        by = g.ReduceL1(x, last, keepdims=1)
    else:  # ONNX Runtime's maximum ignores NaN
        lowest = g.const(float(np.finfo(np.float32).min), FLOAT)
        by = g.Max(g.ReduceMax(g.Where(g.IsNaN(x), lowest, x), last, keepdims=1), lowest)
    return [g.Div(x, g.Where(g.Equal(by, 0.0), g.const(1.0, FLOAT), by))]


def feature_vectorizer(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """FeatureVectorizer: the columns of all inputs, each cut or padded with zeros to its requested width."""
    parts = [as_float(g, x) for x in node.inputs]
    if widths := node.attributes.get_ints("inputdimensions", []):
        parts = [_of_width(g, x, w) for x, w in zip(parts, widths, strict=True)]
    return [g.Concat(*parts, axis=-1)]


def _of_width(g: Graph, x: ir.Value, width: int) -> ir.Value:
    dims = known_dims(x)
    given = dims[1] if dims is not None and len(dims) == 2 else None
    if given == width:
        return x
    if not isinstance(given, int):
        raise Unsupported("FeatureVectorizer of an unknown number of columns")
    if given > width:
        return g.Slice(x, np.array([0]), np.array([width]), np.array([1]))
    return g.Pad(x, np.array([0, 0, 0, width - given]))


def one_hot_encoder(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """OneHotEncoder: a column for each category; zeros for unknown ones, where ONNX Runtime fails if `zeros` is 0."""
    x, categories = node.inputs[0], node.attributes.get_ints("cats_int64s", [])
    if not categories or x is None or g.dtype(x) == ir.DataType.STRING:
        raise Unsupported("OneHotEncoder of strings")
    whole = x if g.dtype(x) == ir.DataType.INT64 else g.Cast(x, to=ir.DataType.INT64)
    return [g.Cast(g.Equal(g.Unsqueeze(whole, np.array([-1])), np.array(categories, np.int64)), to=FLOAT)]


def linear_regressor(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """LinearRegressor: x · coefficientsᵀ + intercepts, [rows, targets]."""
    scores = _linear_scores(g, node, node.attributes.get_int("targets", 1))
    return [transformed(g, scores, node.attributes.get_string("post_transform", "NONE"))]


def linear_classifier(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """LinearClassifier: labels [rows] and scores [rows, classes]; a single score belongs to the second of two classes.

    ONNX Runtime turns a single score into probabilities for LOGISTIC only.
    """
    labels = class_labels(node)
    count = max(len(floats(node, "intercepts")), 1)
    scores = _linear_scores(g, node, count)
    how = node.attributes.get_string("post_transform", "NONE")
    if count > 1:
        return [best_label(g, scores, labels), transformed(g, scores, how)]
    if len(labels) != 2:
        raise Unsupported("LinearClassifier of one score and other than two classes")
    second = scores if how in ("SOFTMAX", "SOFTMAX_ZERO") else transformed(g, scores, how)
    return [second_label(g, scores, labels, 0.0), g.Concat(g.Sub(1.0, second), second, axis=1)]


def support_vector_classifier(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """SVMClassifier: labels [rows] with the most votes, and the scores of each pair of classes (of two classes, both).

    With prob_a and prob_b, the scores of pairs become the probabilities of each class.
    """
    labels, sizes = class_labels(node), node.attributes.get_ints("vectors_per_class", [])
    how, count = node.attributes.get_string("post_transform", "NONE"), len(labels)
    if len(sizes) != count:
        raise Unsupported("SVMClassifier without support vectors")
    every, slopes = floats(node, "coefficients").reshape(count - 1, -1), floats(node, "prob_a")
    if count == 2 and not slopes.size and (how != "NONE" or every.min() >= 0):
        raise Unsupported("SVMClassifier of two classes with transformed scores, or with positive weights alone")
    own = [slice(end - size, end) for size, end in zip(sizes, np.cumsum(sizes), strict=True)]
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    weights, votes = np.zeros((every.shape[1], len(pairs)), np.float32), np.zeros((len(pairs), count), np.float32)
    for place, (i, j) in enumerate(pairs):
        weights[own[i], place], weights[own[j], place] = every[j - 1, own[i]], every[i, own[j]]
        votes[place, i], votes[place, j] = 1, -1
    kind, vectors = node.attributes.get_string("kernel_type", "LINEAR"), floats(node, "support_vectors")
    kernel = _kernel(
        g, as_float(g, node.inputs[0]), vectors.reshape(sum(sizes), -1), kind, floats(node, "kernel_params")
    )
    rho = floats(node, "rho")[: len(pairs)].astype(np.float64)
    wide = g.Gemm(g.Cast(kernel, to=ir.DataType.DOUBLE), weights.astype(np.float64), rho)
    wide.producer().metadata_props[WIDER_KEY] = "SVMClassifier"  # float32 in its specification
    scores = g.Cast(wide, to=FLOAT)
    won = g.Cast(g.Greater(scores, 0.0), to=FLOAT)
    best = best_label(g, g.Gemm(won, votes, (votes < 0).sum(0).astype(np.float32)), labels)
    if slopes.size:
        odds = g.Add(g.Mul(scores, slopes), floats(node, "prob_b"))
        first, second = (g.Clip(g.Sigmoid(v), np.float32(1e-7), np.float32(1 - 1e-7)) for v in (g.Neg(odds), odds))
        return [best, transformed(g, coupled_probabilities(g, first, second, count), how)]
    return [best, transformed(g, g.Concat(g.Neg(scores), scores, axis=1) if count == 2 else scores, how)]


def _linear_scores(g: Graph, node: ir.Node, count: int) -> ir.Value:
    x = as_float(g, node.inputs[0])
    weights, bias = floats(node, "coefficients").reshape(count, -1).T, floats(node, "intercepts")
    return g.Gemm(x, np.ascontiguousarray(weights), bias if bias.size else None)


def class_labels(node: ir.Node) -> np.ndarray:
    """Return the integers or strings that label the classes. Raises `Unsupported` if there are none."""
    for name in ("classlabels_ints", "classlabels_int64s"):
        if found := node.attributes.get_ints(name, []):
            return np.array(found, np.int64)
    texts = node.attributes.get_strings("classlabels_strings", [])
    if not texts:
        raise Unsupported(f"{node.op_type} without labels")
    return np.array([text.encode() for text in texts], object)


def best_label(g: Graph, scores: ir.Value, labels: np.ndarray) -> ir.Value:
    """Return the label of the highest score, and of equal scores the first."""
    return g.Gather(labels, g.ArgMax(scores, axis=1, keepdims=0), axis=0)


def second_label(g: Graph, score: ir.Value, labels: np.ndarray, least: float) -> ir.Value:
    """Return the second label if the score [rows, 1] is above `least`, else the first."""
    second = g.Greater(g.Squeeze(score, np.array([1])), least)
    if labels.dtype == object:  # strings, for which no runtime has Where
        return g.Gather(labels, g.Cast(second, to=ir.DataType.INT64), axis=0)
    return g.Where(second, labels[1], labels[0])


def transformed(g: Graph, scores: ir.Value, how: str) -> ir.Value:
    """Return scores [rows, classes] after a `post_transform`."""
    if how == "NONE":
        return scores
    if how == "LOGISTIC":
        return g.Sigmoid(scores)
    if how == "SOFTMAX":
        return g.Softmax(scores, axis=-1)
    if how == "SOFTMAX_ZERO":  # scores of almost 0 stay unchanged, and the softmax leaves them out
        top = g.ReduceMax(scores, np.array([-1]), keepdims=1)
        some = g.Greater(g.Abs(scores), 1e-7)
        shares = g.Where(some, g.Exp(g.Sub(scores, top)), 0.0)
        total = g.ReduceSum(shares, np.array([-1]), keepdims=1)
        kept = g.Where(some, shares, g.Mul(scores, g.Exp(g.Neg(top))))
        return g.Div(kept, g.Where(g.Equal(total, 0.0), g.const(1.0, FLOAT), total))
    raise Unsupported(f"post_transform={how}")


def support_vector_regressor(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """SVMRegressor: the weighted sum of the kernels of x and the support vectors, [rows, 1]."""
    x, weights = as_float(g, node.inputs[0]), floats(node, "coefficients")
    count = node.attributes.get_int("n_supports", 0)
    if count:
        vectors = floats(node, "support_vectors").reshape(count, -1)
        kernel = _kernel(
            g, x, vectors, node.attributes.get_string("kernel_type", "LINEAR"), floats(node, "kernel_params")
        )
    else:
        kernel = x
    y = g.Gemm(kernel, weights.reshape(-1, 1), floats(node, "rho")[:1])
    if node.attributes.get_int("one_class", 0):
        y = g.Where(g.Greater(y, 0.0), g.const(1.0, FLOAT), -1.0)
    return [transformed(g, y, node.attributes.get_string("post_transform", "NONE"))]


def _kernel(g: Graph, x: ir.Value, vectors: np.ndarray, kind: str, numbers: np.ndarray) -> ir.Value:
    """Return the kernels [rows, vectors]; `numbers` are γ, c and the degree."""
    gamma, offset, degree = [*numbers.tolist(), 0.0, 0.0, 0.0][:3]
    if kind == "RBF":
        apart = g.Sub(g.Unsqueeze(x, np.array([1])), vectors[None])
        return g.Exp(g.Mul(g.ReduceSumSquare(apart, np.array([2]), keepdims=0), -gamma))
    products = g.MatMul(x, np.ascontiguousarray(vectors.T))
    if kind == "LINEAR":
        return products
    scaled = g.Add(g.Mul(products, gamma), offset)
    if kind == "POLY":
        return g.Pow(scaled, degree)
    if kind == "SIGMOID":
        return g.Tanh(scaled)
    raise Unsupported(f"kernel_type={kind}")
