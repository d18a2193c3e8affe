"""Reference kernels of ONNX-ML where ONNX's own kernels differ from ONNX Runtime, the only runtime for most such
files.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convert.errors import Unsupported
from convert.reference.table import kernel

Array = Any


@kernel("ai.onnx.ml::FeatureVectorizer")
def feature_vectorizer(count: int, *inputs: Array, inputdimensions: Any) -> Array:
    """FeatureVectorizer-1 of ai.onnx.ml: the columns of all inputs, each cut or padded to its width.

    The specification leaves inputs of another width open; they are treated as in ONNX Runtime.
    """
    parts = [np.asarray(x, np.result_type(x, np.float32)).reshape(len(x), -1) for x in inputs]
    widths = inputdimensions or [part.shape[1] for part in parts]
    return np.concatenate([_of_width(p, w) for p, w in zip(parts, widths, strict=True)], axis=1)


def _of_width(x: Array, width: int) -> Array:
    return np.pad(x[:, :width], [(0, 0), (0, max(0, width - x.shape[1]))])


@kernel("ai.onnx.ml::Normalizer")
def normalizer(count: int, x: Array, *, norm: str) -> Array:
    """Normalizer-1 of ai.onnx.ml: each row divided by its maximum, L1 norm or L2 norm; rows where that is 0 stay.

    The specification does not say whether the maximum is that of absolute elements. As in ONNX Runtime, it is that of
    the signed elements, and ignores NaN.
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
    """LinearRegressor-1 of ai.onnx.ml: x · coefficientsᵀ + intercepts, [rows, targets]."""
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
    """LinearClassifier-1 of ai.onnx.ml: labels [rows] and scores [rows, classes].

    A single score belongs to the second of two classes; the first gets its complement, which the specification leaves
    open. ONNX Runtime transforms a single score for LOGISTIC only. multi_class has no effect.
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
    """SVMClassifier-1 of ai.onnx.ml, by ONNX's own kernel, which fails for labels that are strings.

    Probabilities of several classes are computed here, because that kernel's matrix differs from the published method.
    """
    # importing this module imports all of ONNX's kernels
    from onnx.reference.ops.aionnxml.op_svm_classifier import SVMClassifier

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
    """Return probabilities [rows, classes], from the probabilities of the first class of each pair, [rows, pairs].

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
    """Return the index of the largest number in each row, and of equal numbers the first; comparisons with NaN are
    false.
    """
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
