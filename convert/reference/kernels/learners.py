"""Reference kernels of ONNX-ML where ONNX's own do something else than ONNX Runtime, the only runtime of most files."""

from __future__ import annotations

from typing import Any

import numpy as np

from convert.errors import Unsupported
from convert.reference.table import kernel

Array = Any


@kernel("ai.onnx.ml::FeatureVectorizer")
def feature_vectorizer(count: int, *inputs: Array, inputdimensions: Any) -> Array:
    """The columns of all inputs side by side: of each as many as are asked for, with zeros where it has fewer.

    ai.onnx.ml FeatureVectorizer-1; what an input of another width becomes is ONNX Runtime's.
    """
    parts = [np.asarray(x, np.result_type(x, np.float32)).reshape(len(x), -1) for x in inputs]
    widths = inputdimensions or [part.shape[1] for part in parts]
    return np.concatenate([_of_width(p, w) for p, w in zip(parts, widths, strict=True)], axis=1)


def _of_width(x: Array, width: int) -> Array:
    return np.pad(x[:, :width], [(0, 0), (0, max(0, width - x.shape[1]))])


@kernel("ai.onnx.ml::Normalizer")
def normalizer(count: int, x: Array, *, norm: str) -> Array:
    """Each row by its largest element, the sum of its sizes, or its length; rows of which that is 0 stay.

    ai.onnx.ml Normalizer-1. The largest is that of the elements themselves, which the specification leaves open, and
    NaN is none, as ONNX Runtime has it.
    """
    x = np.asarray(x, np.result_type(x, np.float32))
    if norm == "MAX":
        by = np.fmax.reduce(x, axis=-1, keepdims=True, initial=np.finfo(np.float32).min)
    elif norm == "L1":
        by = np.abs(x).sum(axis=-1, keepdims=True)
    else:
        by = np.sqrt(np.square(x).sum(axis=-1, keepdims=True))
    return x / np.where(by == 0, 1, by)


@kernel("ai.onnx.ml::LinearRegressor")
def linear_regressor(
    count: int, x: Array, *, coefficients: Any, intercepts: Any, post_transform: str, targets: int
) -> Array:
    """x · coefficientsᵀ + intercepts, [rows, targets] (ai.onnx.ml LinearRegressor-1)."""
    return _transformed(_scores(x, coefficients, intercepts, targets), post_transform)


@kernel("ai.onnx.ml::LinearClassifier")
def linear_classifier(
    count: int,
    x: Array,
    *,
    classlabels_ints: Any,
    classlabels_strings: Any,
    coefficients: Any,
    intercepts: Any,
    multi_class: int,
    post_transform: str,
) -> tuple[Array, Array]:
    """Labels [rows] and scores [rows, classes] (ai.onnx.ml LinearClassifier-1).

    A single score is that of the second of two classes, and has its counterpart beside it, which the specification
    leaves open; of its transformations ONNX Runtime applies LOGISTIC alone. multi_class changes nothing.
    """
    labels = np.array(classlabels_ints, np.int64) if classlabels_ints else _texts(classlabels_strings)
    scores = _scores(x, coefficients, intercepts, max(len(intercepts or ()), 1))
    if scores.shape[1] > 1:
        return labels[_first_largest(scores)], _transformed(scores, post_transform)
    if len(labels) != 2 or post_transform == "PROBIT":
        raise Unsupported("LinearClassifier of one score for other than two classes, or by PROBIT")
    second = _transformed(scores, "LOGISTIC") if post_transform == "LOGISTIC" else scores
    return labels[(scores[:, 0] > 0).astype(np.int64)], np.concatenate([1 - second, second], axis=1)


@kernel("ai.onnx.ml::SVMClassifier")
def support_vector_classifier(
    count: int,
    x: Array,
    *,
    classlabels_ints: Any,
    classlabels_strings: Any,
    coefficients: Any,
    kernel_params: Any,
    kernel_type: str,
    post_transform: str,
    prob_a: Any,
    prob_b: Any,
    rho: Any,
    support_vectors: Any,
    vectors_per_class: Any,
) -> tuple[Array, Array]:
    """As ONNX's own kernel has it, which fails for labels that are text (ai.onnx.ml SVMClassifier-1).

    Probabilities of several classes are not its own, whose matrix is another than that of the method.
    """
    from onnx.reference.ops.aionnxml.op_svm_classifier import SVMClassifier  # imports every kernel that ONNX has

    labels = np.array(classlabels_ints, np.int64) if classlabels_ints else _texts(classlabels_strings)
    if len(labels) < 2:
        raise Unsupported("SVMClassifier of fewer than two classes")
    x = np.asarray(x, np.result_type(x, np.float32))

    def run(post_transform: str, prob_a: Any, prob_b: Any) -> tuple[Array, Array]:
        places = list(range(len(labels)))
        found: tuple[Array, Array] = object.__new__(SVMClassifier)._run(
            x, places, None, coefficients, kernel_params, kernel_type, post_transform, prob_a, prob_b, rho,
            support_vectors, vectors_per_class,
        )  # fmt: skip
        return found

    if not prob_a or len(labels) == 2:
        found, scores = run(post_transform, prob_a, prob_b)
        return labels[found], scores
    found, scores = run("NONE", None, None)
    shares = 1 - _transformed(scores * np.asarray(prob_a, x.dtype) + np.asarray(prob_b, x.dtype), "LOGISTIC")
    return labels[found], _transformed(_coupled(np.clip(shares, 1e-7, 1 - 1e-7), len(labels)), post_transform)


def _coupled(shares: Array, count: int) -> Array:
    """Probabilities [rows, classes] from those of the first of each pair, [rows, pairs].

    Wu, Lin and Weng 2004, "Probability Estimates for Multi-class Classification by Pairwise Coupling", algorithm 2,
    with the tolerance and the number of steps of libsvm's `multiclass_probability`.
    """
    first, second = np.triu_indices(count, 1)
    done = np.full((len(shares), count), 1 / count, shares.dtype)
    for row, share in enumerate(shares):
        of_pair = np.zeros((count, count), shares.dtype)
        of_pair[first, second], of_pair[second, first] = share, 1 - share
        matrix = np.diag((of_pair**2).sum(0)) - of_pair * of_pair.T
        p = done[row]
        for _ in range(max(100, count)):
            toward = matrix @ p
            total = p @ toward
            if not np.abs(toward - total).max() >= 0.005 / count:
                break
            for t in range(count):
                change = (total - toward[t]) / matrix[t, t]
                total = (total + change * (change * matrix[t, t] + 2 * toward[t])) / (1 + change) ** 2
                toward = (toward + change * matrix[t]) / (1 + change)
                p[t] += change
                p /= 1 + change
    return done


def _texts(words: Any) -> Array:
    return np.array([w.decode() if isinstance(w, bytes) else w for w in words or ()], dtype=object)


def _scores(x: Array, coefficients: Any, intercepts: Any, count: int) -> Array:
    x = np.asarray(x, np.result_type(x, np.float32))
    weights = np.asarray(coefficients, np.float32).astype(x.dtype).reshape(count, -1)
    bias = np.asarray(intercepts or [0.0], np.float32).astype(x.dtype)
    return x.reshape(-1, weights.shape[1]) @ weights.T + bias


def _first_largest(scores: Array) -> Array:
    """The place of the largest in each row, of the first of equal ones; nothing is larger than NaN, nor NaN."""
    best = np.zeros(len(scores), np.int64)
    rows = np.arange(len(scores))
    for place in range(1, scores.shape[1]):
        best = np.where(scores[:, place] > scores[rows, best], place, best)
    return best


def _transformed(scores: Array, how: str) -> Array:
    if how == "NONE":
        return scores
    if how == "LOGISTIC":
        return 1 / (1 + np.exp(-scores))
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    if how == "SOFTMAX":
        return shifted / shifted.sum(axis=-1, keepdims=True)
    if how == "SOFTMAX_ZERO":
        some = np.abs(scores) > 1e-7
        total = np.where(some, shifted, 0).sum(axis=-1, keepdims=True)
        rest = scores * np.exp(-scores.max(axis=-1, keepdims=True))
        return np.where(some, shifted, rest) / np.where(total == 0, 1, total)
    raise Unsupported(f"post_transform={how}")
