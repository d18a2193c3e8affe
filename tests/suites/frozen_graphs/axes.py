"""Axis, size and number arguments, as constants, as computed tensors and as inputs."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.suites.frozen_graphs.row import boolean, f32, i32, i64, row

X = f32(2, 3, 4)
NONE = np.zeros(0, np.int32)
FED = "static open old"

ROWS = [
    row("sum_along_fed", tf.reduce_sum, [X, i32([0, 2])], [X, i32([1])], [X, NONE], forms=FED),
    row(
        "sum_along_fed_kept",
        lambda x, a: tf.reduce_sum(x, a, keepdims=True),
        [X, i32([0, 2])],
        [X, i32([-1])],
        [X, NONE],
        forms=FED,
    ),
    row("sum_along_a_fed_scalar", tf.reduce_sum, [X, i32(1)], [X, i32(-1)], forms=FED),
    row("mean_along_fed", tf.reduce_mean, [X, i32([0, 2])], [X, i32([1, -3])], forms=FED),
    row("mean_along_fed_kept", lambda x, a: tf.reduce_mean(x, a, True), [X, i32([0, 2])], [X, NONE], forms=FED),
    row("mean_of_integers_along_fed", tf.reduce_mean, [i32([[1, 2], [4, 9]]), i32([0])], [i32([[7, 2]]), i32([1])]),
    row("max_along_fed", tf.reduce_max, [X, i32([1, 2])], [X, i32([0, 1])], forms=FED),
    row("min_along_none_fed", tf.reduce_min, [X, NONE], forms="static"),
    row("prod_along_fed_kept", lambda x, a: tf.reduce_prod(x, a, keepdims=True), [X, i32([0])], [X, NONE]),
    row("all_along_fed_kept", lambda x, a: tf.reduce_all(x > 0, a, keepdims=True), [X, i32([0])], [X, NONE]),
    row("any_along_fed", lambda x, a: tf.reduce_any(x > 1, a), [X, i32([0])], [X, i32([-1])]),
    row("norm_along_fed_kept", lambda x, a: tf.math.reduce_euclidean_norm(x, a, True), [X, i32([0])], [X, NONE]),
    row(
        "narrow_sum_along_fed",
        lambda x, a: tf.reduce_sum(x, a, True),
        [np.int8([[100, 100], [1, 2]]), i32([1])],
        [np.int8([[100, 100]]), NONE],
    ),
    row("sum_along_computed", lambda x: tf.reduce_sum(x, tf.range(1, tf.rank(x))), [X], forms="static open old"),
    row("sum_of_no_rank", tf.reduce_sum, [X], forms="static open old unranked"),
    row("mean_of_no_rank", lambda x: tf.reduce_mean(x, -1), [X], forms="open old unranked"),
    row("logsumexp_of_no_rank", tf.reduce_logsumexp, [X], forms="open old"),
    row("deviation", lambda x: [tf.math.reduce_std(x, 1), tf.math.reduce_variance(x)], [X]),
    row(
        "sum_of_no_elements",
        lambda x: [tf.reduce_sum(x, 0), tf.reduce_max(x, 0), tf.reduce_mean(x, 0)],
        [np.zeros((0, 3), np.float32)],
        forms="open old",
    ),
    row("argmax_along_fed", tf.argmax, [X, i32(1)], [X, i32(-1)], [X, i32(0)]),
    row(
        "argmin_along_computed",
        lambda x: tf.argmin(x, tf.rank(x) - 1),
        [X],
        forms="static open old unranked",
        gap="unranked: how many dims",
    ),
    row("cumsum_along_fed", lambda x, a: tf.cumsum(x, a, exclusive=True), [X, i32(1)], [X, i32(-1)]),
    row("cumprod_along_fed", lambda x, a: tf.math.cumprod(x, a), [X, i32(1)], [X, i32(-1)]),
    row("cumulative_logsumexp", lambda x: tf.math.cumulative_logsumexp(x, 1), [X]),
    row(
        "concat_along_fed",
        lambda a, b, n: tf.concat([a, b], n),
        [f32(2, 2), f32(2, 2), i32(1)],
        [f32(2, 2), f32(2, 2), i32(0)],
    ),
    row(
        "split_along_fed",
        lambda x, n: tf.split(x, 2, n),
        [f32(4, 6), i32(1)],
        [f32(4, 6), i32(0)],
        [f32(4, 6), i32(-1)],
    ),
    row(
        "split_by_fed", lambda x, s: tf.split(x, s, 1, num=3), [f32(4, 6), i32([1, 2, 3])], [f32(4, 6), i32([4, 0, 2])]
    ),
    row(
        "split_by_fed_rest", lambda x, s: tf.split(x, s, 1, num=2), [f32(4, 6), i32([2, -1])], [f32(4, 6), i32([-1, 5])]
    ),
    row(
        "split_by_fed_along_fed",
        lambda x, s, a: tf.split(x, s, a, num=2),
        [f32(4, 4), i32([1, 3]), i32(0)],
        [f32(4, 4), i32([2, 2]), i32(1)],
    ),
    row("split_in_halves", lambda x: tf.split(x, [tf.shape(x)[1] // 2, -1], 1), [f32(2, 6)], [f32(2, 7)]),
    row("unstacked", lambda x: tf.unstack(x, 3, axis=1), [X]),
    row(
        "gather_along_fed",
        lambda x, i, a: tf.gather(x, i, axis=a),
        [f32(3, 3), i32([2, 0]), i32(1)],
        [f32(3, 3), i32([1, 1]), i32(0)],
    ),
    row("gather_by_batch", lambda x, i: tf.gather(x, i, batch_dims=1, axis=1), [X, i32([[0, 2], [1, 1]])]),
    row("reversed_along_fed", tf.reverse, [X, i32([0, 2])], [X, i32([1])], [X, NONE]),
    row("rolled", lambda x: tf.roll(x, [1, -2], [0, 2]), [X]),
    row("rolled_by_fed", lambda x, s: tf.roll(x, s, 1), [X, i32(1)], [X, i32(-2)], [X, i32(7)]),
    row("rolled_by_fed_along_fed", tf.roll, [X, i32(1), i32(0)], [X, i32(-2), i32(2)]),
    row("rolled_by_many_fed", lambda x, s: tf.roll(x, s, [0, 2]), [X, i32([1, -1])], [X, i32([0, 9])]),
    row("transposed_by_fed", tf.transpose, [X, i32([2, 0, 1])], [X, i32([0, 2, 1])]),
    row(
        "transposed_by_computed",
        lambda x: tf.transpose(x, tf.concat([tf.range(1, tf.rank(x)), [0]], 0)),
        [X],
        forms="static open old",
    ),
    row(
        "transposed_of_no_rank",
        tf.transpose,
        [X],
        forms="open old unranked",
        gap="unranked: how many dims",
    ),
    row("expanded_at_fed", tf.expand_dims, [X, i32(1)], [X, i32(-1)]),
    row("top_of_fed", lambda x, k: tf.math.top_k(x, k), [f32(2, 6), i32(3)], [f32(2, 6), i32(1)]),
    row("top_of_no_rank", lambda x: tf.math.top_k(x, 2).values, [f32(2, 6)], forms="open old unranked"),
    row("sorted", lambda x: [tf.sort(x, 0), tf.argsort(x, 1, "DESCENDING")], [f32(3, 4)]),
    row("sorted_along_open", lambda x: tf.sort(x, 0, direction="DESCENDING"), [f32(3, 4)], forms="open old"),
    row("in_top", lambda x, t: tf.math.in_top_k(t, x, 2), [f32(3, 5), i32([0, 2, 4])]),
    row("softmax_along", lambda x: [tf.nn.softmax(x, 1), tf.nn.log_softmax(x, 0)], [X]),
    row("softmax_of_no_rank", tf.nn.softmax, [X], forms="open old unranked"),
    row("repeated_by_fed", lambda x, n: tf.repeat(x, n, axis=0), [X, i32(2)], [X, i32(3)]),
    row("repeated_each_by_fed", lambda x, n: tf.repeat(x, n, axis=0), [f32(3, 2), i32([1, 0, 2])]),
    row("one_hot_along", lambda i: tf.one_hot(i, 3, axis=0), [i32([[0, 2]])]),
    row("sequence_mask_of_fed", lambda n, m: tf.sequence_mask(n, m), [i32([1, 3]), i32(4)], [i32([0, 2]), i32(2)]),
    row("sequence_mask", tf.sequence_mask, [i32([1, 3])], [i32([0, 2])]),
    row("meshgrid_of_fed", lambda a, b: tf.meshgrid(a, b), [f32(3), f32(2)]),
    row("boolean_mask", tf.boolean_mask, [X[:, 0], boolean([[True, False, True, True], [False, False, True, False]])]),
    row("boolean_mask_of_rows", tf.boolean_mask, [X, boolean([False, True])], [X, boolean([False, False])]),
    row("where", tf.where, [boolean([[True, False], [True, True]])]),
    row("unique", lambda x: tf.unique(x), [i32([4, 2, 4, 7, 2])]),
    row("unique_counts", lambda x: tf.unique_with_counts(x), [i64([4, 2, 4, 7, 2])]),
    row("bincount", lambda x: tf.math.bincount(x, minlength=6, maxlength=6), [i32([1, 1, 4])]),
    row("histogram", lambda x: tf.histogram_fixed_width(x, [-1.0, 1.0], 4), [f32(20)]),
    row(
        "histogram_of_fed",
        lambda x, n: tf.histogram_fixed_width(x, [-1.0, 1.0], n),
        [f32(20), i32(4)],
        [f32(20), i32(7)],
        gap="nbins depends on data",
    ),
    row("searchsorted", lambda x, v: tf.searchsorted(x, v), [np.float32([[1, 2, 2, 5]]), np.float32([[2, 6, 0]])]),
    row("bucketized", lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 1.0]), [f32(5)]),
    row("invert_permutation", tf.math.invert_permutation, [i32([2, 0, 1])]),
    row("tensordot", lambda a, b: tf.tensordot(a, b, 1), [X, f32(4, 5)]),
    row("tensordot_of_axes", lambda a, b: tf.tensordot(a, b, [[0, 2], [1, 0]]), [X, f32(4, 2)]),
    row("moments", lambda x: tf.nn.moments(x, [0, 1]), [X]),
    row("moments_along_fed", lambda x, a: tf.nn.moments(x, a, keepdims=True), [X, i32([0, 1])], [X, i32([2])]),
    row("normalized_along_fed", lambda x, a: tf.math.l2_normalize(x, a), [X, i32([1])], [X, i32([0, 2])]),
]
