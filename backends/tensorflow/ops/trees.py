"""Arithmetic operators of ai.onnx.ml: label lookup, feature selection, thresholds and tree ensembles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from convert.errors import Unsupported
from convert.semantics.trees import AVERAGE, MEMBER, MIN, SUM, member_sets, next_places, tree_depth

from ..rules import onnx_op


@onnx_op("ai.onnx.ml::Binarizer")
def binarizer(t, x, *, threshold):
    return tf.cast(tf.greater(x, tf.cast(threshold, x.dtype)), x.dtype)


@onnx_op("ai.onnx.ml::ArrayFeatureExtractor")
def array_feature_extractor(t, x, indices):
    y = tf.gather(x, tf.reshape(indices, [-1]), axis=-1)
    return tf.expand_dims(y, 0) if t.rank(x) == 1 else y


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


@onnx_op("ai.onnx.ml::TreeEnsemble")
def tree_ensemble(
    t,
    x,
    *,
    aggregate_function,
    leaf_targetids,
    leaf_weights,
    membership_values,
    n_targets,
    nodes_falseleafs,
    nodes_falsenodeids,
    nodes_featureids,
    nodes_hitrates,
    nodes_missing_value_tracks_true,
    nodes_modes,
    nodes_splits,
    nodes_trueleafs,
    nodes_truenodeids,
    post_transform,
    tree_roots,
):
    if post_transform:
        raise Unsupported(f"TreeEnsemble with post_transform={post_transform}")
    outcomes = decisions(
        x,
        nodes_featureids,
        nodes_modes.numpy(),
        nodes_splits.numpy(),
        nodes_missing_value_tracks_true or [0] * len(nodes_featureids),
        None if membership_values is None else membership_values.numpy(),
    )
    weights = np.append(leaf_weights.numpy(), 0)
    count, leaves = len(nodes_featureids), len(leaf_targetids)
    after = [
        next_places(nodes_truenodeids, nodes_trueleafs, leaves),
        next_places(nodes_falsenodeids, nodes_falseleafs, leaves),
    ]
    leaf_of = list(tree_roots)
    place = tf.tile(tf.constant([leaf_of], tf.int32), [tf.shape(x)[0], 1])
    for _ in range(tree_depth(after, count, tree_roots)):
        goes = tf.gather(outcomes, tf.minimum(place, count - 1), axis=1, batch_dims=1)
        place = tf.where(
            goes, tf.gather(tf.constant(after[0], tf.int32), place), tf.gather(tf.constant(after[1], tf.int32), place)
        )
    leaf = place - count
    values = tf.gather(tf.constant(weights, x.dtype), leaf)
    target = tf.one_hot(tf.gather(tf.constant(leaf_targetids, tf.int32), leaf), n_targets, True, False)
    return aggregate_trees(values[..., None], target, aggregate_function, len(tree_roots))


def decisions(
    x: tf.Tensor,
    features: Sequence[int],
    modes: np.ndarray,
    splits: np.ndarray,
    missing: Sequence[int],
    members: np.ndarray | None,
) -> tf.Tensor:
    """Return whether each node's test holds for each row: [rows, nodes]."""
    sets = member_sets(modes, members)
    columns = []
    for node, (feature, mode) in enumerate(zip(features, modes.tolist(), strict=True)):
        value, split = x[:, feature], tf.constant(splits[node], x.dtype)
        if mode == MEMBER:
            passes = tf.reduce_any(tf.equal(value[:, None], tf.constant([sets.pop(0)], x.dtype)), 1)
        else:
            test = (tf.less_equal, tf.less, tf.greater_equal, tf.greater, tf.equal, tf.not_equal)[mode]
            passes = test(value, split)
        columns.append(passes | tf.math.is_nan(value) if missing[node] else passes)
    return tf.stack(columns, 1)


def aggregate_trees(values: tf.Tensor, target: tf.Tensor, function: int, trees: int) -> tf.Tensor:
    """Return one number per target from the leaves of all trees: values [rows, trees, 1]."""
    if function in (SUM, AVERAGE):
        total = tf.reduce_sum(tf.where(target, values, tf.zeros([], values.dtype)), 1)
        return total / trees if function == AVERAGE else total
    extreme, reduce = (values.dtype.max, tf.reduce_min) if function == MIN else (values.dtype.min, tf.reduce_max)
    return reduce(tf.where(target, values, tf.constant(extreme, values.dtype)), 1)
