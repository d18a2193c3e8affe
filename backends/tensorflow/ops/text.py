"""Strings: joining, splitting, matching, normalizing, counting n-grams; and labels, which may be strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from convert.errors import Unsupported

from ..rules import onnx_op


@onnx_op("StringConcat")
def string_concat(t, a, b):
    return tf.add(a, b)


@onnx_op("RegexFullMatch")
def regex_full_match(t, x, *, pattern):
    # Both use RE2 syntax.
    return tf.strings.regex_full_match(x, pattern)


@onnx_op("StringSplit")
def string_split(t, x, *, delimiter, maxsplit):
    if maxsplit == 0:
        raise Unsupported("StringSplit with maxsplit=0")
    parts = tf.strings.split(tf.reshape(x, [-1]), delimiter or None, -1 if maxsplit is None else maxsplit)
    if not delimiter and maxsplit is not None:
        # When splitting at white space, TensorFlow returns the remainder even if it is empty.
        parts = tf.ragged.boolean_mask(parts, tf.not_equal(parts, ""))
    counts = tf.cast(parts.row_lengths(), tf.int64)
    table = parts.to_tensor("")
    dims = tf.shape(x)
    return tf.reshape(table, tf.concat([dims, tf.shape(table)[1:]], 0)), tf.reshape(counts, dims)


@onnx_op("StringNormalizer")
def string_normalizer(t, x, *, case_change_action, is_case_sensitive, locale, stopwords):
    change = {"NONE": tf.convert_to_tensor, "LOWER": lower, "UPPER": upper}[case_change_action]
    flat = tf.reshape(x, [-1])
    compared, words = flat, list(stopwords or [])
    if not is_case_sensitive:
        compared, words = lower(flat), [w.lower() for w in words]
    if words:
        stopped = tf.reduce_any(tf.equal(compared[:, None], tf.constant(words)[None, :]), 1)
        flat = tf.boolean_mask(flat, ~stopped)
    # An empty result is one empty string.
    flat = tf.cond(tf.equal(tf.size(flat), 0), lambda: tf.constant([""]), lambda: flat)
    flat = change(flat)
    return flat if t.rank(x) == 1 else tf.expand_dims(flat, 0)


def lower(x: tf.Tensor) -> tf.Tensor:
    return tf.strings.lower(x, encoding="utf-8")


def upper(x: tf.Tensor) -> tf.Tensor:
    return tf.strings.upper(x, encoding="utf-8")


@onnx_op("TfIdfVectorizer")
def tf_idf_vectorizer(
    t,
    x,
    *,
    max_gram_length,
    max_skip_count,
    min_gram_length,
    mode,
    ngram_counts,
    ngram_indexes,
    pool_int64s,
    pool_strings,
    weights,
):
    pool = np.array(pool_strings, object) if pool_strings else np.array(pool_int64s, np.int64)
    x = tf.convert_to_tensor(x)
    rows = tf.expand_dims(x, 0) if t.rank(x) == 1 else x
    rows = rows if pool_strings else tf.cast(rows, tf.int64)
    width = max(ngram_indexes) + 1
    counts = tf.zeros([tf.shape(rows)[0], width])
    first = 0
    ends = [*ngram_counts[1:], len(pool)]
    for n, (begin, end) in enumerate(zip(ngram_counts, ends, strict=True), 1):
        grams = pool[begin:end].reshape(-1, n)
        if len(grams) and min_gram_length <= n <= max_gram_length:
            places = np.array(ngram_indexes[first : first + len(grams)])
            target = tf.one_hot(places, width)
            for skip in range(max_skip_count + 1 if n > 1 else 1):
                counts = counts + tf.matmul(count_ngrams(rows, grams, skip + 1), target)
        first += len(grams)
    y = weight_counts(counts, mode, weights)
    return y[0] if t.rank(x) == 1 else y


def count_ngrams(rows: tf.Tensor, grams: np.ndarray, stride: int) -> tf.Tensor:
    """Count each n-gram in each row, with its elements `stride` apart: [rows, n-grams]."""
    n = grams.shape[1]
    count = tf.maximum(tf.shape(rows)[1] - (n - 1) * stride, 0)
    found = None
    for k in range(n):
        part = rows[:, k * stride : k * stride + count]
        same = tf.equal(part[:, :, None], tf.constant(grams[:, k].tolist(), rows.dtype)[None, None, :])
        found = same if found is None else found & same
    return tf.reduce_sum(tf.cast(found, tf.float32), 1)


def weight_counts(counts: tf.Tensor, mode: str, weights: Sequence[float] | None) -> tf.Tensor:
    """Return term frequencies, weights of the terms that occur, or their products."""
    if mode == "TF":
        return counts
    base = counts if mode == "TFIDF" else tf.cast(counts > 0, tf.float32)
    return base if not weights else base * tf.constant(weights, tf.float32)


@onnx_op("ai.onnx.ml::LabelEncoder")
def label_encoder(
    t,
    x,
    *,
    default_float,
    default_int64,
    default_string,
    default_tensor,
    keys_floats,
    keys_int64s,
    keys_strings,
    keys_tensor,
    values_floats,
    values_int64s,
    values_strings,
    values_tensor,
):
    keys = _first_given((keys_floats, np.float32), (keys_int64s, np.int64), (keys_strings, object), tensor=keys_tensor)
    values = _first_given(
        (values_floats, np.float32), (values_int64s, np.int64), (values_strings, object), tensor=values_tensor
    )
    if default_tensor is not None:
        default = _tensor_content(default_tensor)
    else:
        default = {"O": default_string, "f": default_float}.get(values.dtype.kind, default_int64)
    table = np.append(values, np.array([default], values.dtype).reshape(-1)[:1])
    keys = tf.constant(keys.tolist(), x.dtype)
    found = tf.equal(tf.expand_dims(x, -1), keys)
    if x.dtype.is_floating:
        found = found | (tf.math.is_nan(tf.expand_dims(x, -1)) & tf.math.is_nan(keys))
    # The value of the first matching key; the default comes after the last key.
    place = tf.where(tf.reduce_any(found, -1), tf.argmax(tf.cast(found, tf.int8), -1), len(values))
    kind = tf.string if table.dtype == object else tf.as_dtype(table.dtype)
    return tf.gather(tf.constant(table.tolist(), kind), place)


def _first_given(*choices: tuple[Sequence[Any] | None, Any], tensor: ir.TensorProtocol | None) -> np.ndarray:
    for content, dtype in choices:
        if content:
            return np.array(content, dtype)
    if tensor is None:
        raise Unsupported("LabelEncoder without keys or values")
    return _tensor_content(tensor)


def _tensor_content(tensor: ir.TensorProtocol) -> np.ndarray:
    content = np.ravel(tensor.numpy())
    if content.dtype.kind in "OSU":
        return np.array([x.decode() if isinstance(x, bytes) else str(x) for x in content], object)
    return content
