"""Shapes: reshapes, slices, paddings, scatters, blocks, with constant, computed and input arguments."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.suites.frozen_graphs.row import f32, i32, i64, row

X = f32(2, 3, 4)
FED = "static open old"


def grown(x: tf.Tensor) -> tf.Tensor:
    """Return `x` between as many rows of zeros as it has rows."""
    n = tf.shape(x)[0]
    return tf.pad(x, tf.stack([tf.stack([n, 0]), tf.constant([0, 1])]))


ROWS = [
    row("reshape_to_fed", tf.reshape, [X, i32([4, 6])], [X, i32([-1, 8])], forms=FED),
    row("reshape_to_computed", lambda x: tf.reshape(x, [tf.shape(x)[0], -1]), [X], forms="static open old unranked"),
    row("reshape_like", lambda x, y: tf.reshape(x, tf.shape(y)), [X, f32(6, 4)], forms="static open old unranked"),
    row("flattened", lambda x: tf.reshape(x, [-1]), [X], forms="static open old unranked"),
    row("reshape_by_wide", tf.reshape, [X, i64([4, 6])]),
    row("shape_of", lambda x: [tf.shape(x), tf.size(x), tf.rank(x)], [X], forms="static open old unranked"),
    row("shape_wide", lambda x: tf.shape(x, tf.int64), [X]),
    row("dim_of", lambda x: tf.shape(x)[1] * 2, [X]),
    row("zeros_like", lambda x: [tf.zeros_like(x), tf.ones_like(x)], [X], forms="static open old unranked"),
    row("chosen_by_a_constant", lambda x: [x + 1, tf.where(tf.constant(True), 0, tf.constant([1, 2, 3]))], [X]),
    row(
        "chosen_by_a_size",
        lambda x: tf.where(tf.equal(tf.shape(x)[1], 3), 0, tf.range(4)) + tf.cast(x[0, 0] * 0, tf.int32),
        [X],
    ),
    row("between_five_and_five", lambda v: tf.minimum(tf.maximum(v, 5), 5), [i32([1, 7, 9])], forms=FED),
    row("zeros_of_fed", lambda s: tf.zeros(s), [i32([2, 3])], [i32([1, 0])]),
    row("broadcast_to_fed", tf.broadcast_to, [f32(3, 1), i32([2, 3, 4])], forms=FED),
    row("tiled_by_fed", tf.tile, [f32(2, 3), i32([2, 1])], [f32(2, 3), i32([1, 0])], forms=FED),
    row("squeezed", lambda x: tf.squeeze(x, [1]), [f32(2, 1, 3)]),
    row("squeezed_all", tf.squeeze, [f32(2, 1, 3)], forms="static"),
    row("squeezed_unknown", tf.squeeze, [f32(2, 1, 3)], forms="open unranked"),
    row(
        "slice_by_fed", tf.slice, [X, i32([0, 1, 1]), i32([2, 1, 2])], [X, i32([1, 0, 0]), i32([-1, 3, -1])], forms=FED
    ),
    row("slice_from_fed", lambda x, b: x[:, b:], [X, i32(1)], [X, i32(-1)], [X, i32(9)], forms=FED),
    row("slice_to_fed", lambda x, e: x[..., :e], [X, i32(1)], [X, i32(-1)], forms=FED),
    row("slice_by_step", lambda x: x[::-1, 1::2, tf.newaxis, ...], [X]),
    row("slice_by_fed_step", lambda x, s: x[:, ::s], [X, i32(2)], [X, i32(-1)]),
    row("index_fed", lambda x, i: x[i], [X, i32(1)], [X, i32(-1)], forms=FED),
    row("last_row_of_no_rank", lambda x: x[-1], [X], forms="open old unranked"),
    row("slice_of_the_shape", lambda x: tf.slice(x, [0, 0, 0], tf.shape(x) - 1), [X], forms=FED),
    row("padded_by_fed", tf.pad, [f32(2, 3), i32([[1, 0], [2, 1]])], [f32(2, 3), i32([[0, 0], [0, 1]])], forms=FED),
    row(
        "padded_by_fed_value",
        lambda x, p, v: tf.pad(x, p, constant_values=v),
        [f32(2, 3), i32([[1, 0], [2, 1]]), np.float32(7)],
    ),
    row("padded_by_computed", grown, [f32(2, 3)], [f32(4, 1)], forms=FED),
    row("reflected", lambda x: tf.pad(x, [[0, 0], [1, 2]], "REFLECT"), [f32(2, 4)]),
    row("reflected_by_fed", lambda x, p: tf.pad(x, p, "REFLECT"), [f32(3, 4), i32([[1, 0], [2, 1]])]),
    row("mirrored_by_fed", lambda x, p: tf.pad(x, p, "SYMMETRIC"), [f32(3, 4), i32([[1, 0], [2, 1]])]),
    row("gather_nd", tf.gather_nd, [X, i32([[0, 1], [1, 2]])]),
    row("gather_nd_of_batch", lambda x, i: tf.gather_nd(x, i, batch_dims=1), [X, i32([[[1], [2]], [[0], [0]]])]),
    row("scatter_nd", lambda i, u, s: tf.scatter_nd(i, u, s), [i32([[1], [3], [1]]), f32(3, 2), i32([4, 2])]),
    row("scatter_add", tf.tensor_scatter_nd_add, [f32(4, 2), i32([[1], [1]]), f32(2, 2)]),
    row("scatter_update", tf.tensor_scatter_nd_update, [f32(4, 2), i32([[1], [3]]), f32(2, 2)]),
    row("scatter_max", tf.tensor_scatter_nd_max, [f32(4, 2), i32([[1], [1]]), f32(2, 2)]),
    row("stitched", lambda a, b: tf.dynamic_stitch([[0, 2], [1, 3]], [a, b]), [f32(2, 3), f32(2, 3)]),
    row(
        "stitched_by_fed",
        lambda i, j, a, b: tf.dynamic_stitch([i, j], [a, b]),
        [i32([0, 2]), i32([1, 3]), f32(2, 3), f32(2, 3)],
    ),
    row("partitioned", lambda x, p: tf.dynamic_partition(x, p, 3), [f32(4, 2), i32([0, 2, 0, 2])]),
    row("segment_sums", lambda x, i: tf.math.segment_sum(x, i), [f32(4, 2), i32([0, 0, 1, 3])]),
    row("segment_means", lambda x, i: tf.math.segment_mean(x, i), [f32(4, 2), i32([0, 0, 1, 3])]),
    row("segment_maxima", lambda x, i: tf.math.segment_max(x, i), [f32(4, 2), i32([0, 0, 1, 3])]),
    row(
        "segments_of_unknown_rank",
        lambda x, s, i: (tf.math.segment_mean(tf.reshape(x, s), i), tf.math.segment_max(tf.reshape(x, s), i)),
        [f32(4, 6), i32([4, 2, 3]), i32([0, 0, 1, 3])],
        [f32(4, 6), i32([4, 6]), i32([0, 2, 2, 3])],
    ),
    row(
        "sparse_of_unknown_rank",
        lambda i, s, n: tf.raw_ops.SparseReshape(input_indices=i, input_shape=s, new_shape=n),
        [i64([[1, 0, 0], [3, 2, 3]]), i64([5, 3, 4]), i64([2, 10, 1, 3])],
        [i64([[1, 0], [3, 2]]), i64([5, 12]), i64([10, -1])],
    ),
    row(
        "unsorted_segments",
        lambda x, i, n: tf.math.unsorted_segment_sum(x, i, n),
        [f32(4, 2), i32([2, 0, 1, 2]), i32(4)],
    ),
    row("unsorted_maxima", lambda x, i: tf.math.unsorted_segment_max(x, i, 4), [f32(4, 2), i32([2, 0, 1, 2])]),
    row("blocks_to_batch", lambda x: tf.space_to_batch(x, [2, 2], [[0, 0], [2, 0]]), [f32(1, 4, 6, 2)]),
    row(
        "blocks_to_batch_by_fed",
        lambda x, p: tf.space_to_batch(x, [2, 2], p),
        [f32(1, 4, 6, 2), i32([[0, 0], [2, 0]])],
        [f32(1, 4, 6, 2), i32([[1, 1], [0, 2]])],
    ),
    row(
        "blocks_of_fed",
        lambda x, b: tf.space_to_batch(x, b, [[0, 0], [0, 0]]),
        [f32(1, 4, 6, 2), i32([2, 2])],
        [f32(1, 4, 6, 2), i32([4, 3])],
    ),
    row("batch_to_blocks", lambda x: tf.batch_to_space(x, [2, 2], [[0, 1], [1, 0]]), [f32(4, 2, 3, 2)]),
    row(
        "batch_to_blocks_by_fed",
        lambda x, c: tf.batch_to_space(x, [2, 2], c),
        [f32(4, 2, 3, 2), i32([[0, 1], [1, 0]])],
        [f32(4, 2, 3, 2), i32([[0, 0], [2, 0]])],
    ),
    row(
        "batch_to_blocks_of_computed",
        lambda x, y: tf.batch_to_space(x, [2, 2], [[0, tf.shape(y)[0]], [0, 0]]),
        [f32(4, 2, 3, 2), f32(1)],
        [f32(4, 2, 3, 2), f32(2)],
    ),
    row(
        "batch_to_blocks_of_fed",
        lambda x, b: tf.batch_to_space(x, b, [[0, 0], [0, 0]]),
        [f32(4, 2, 3, 2), i32([2, 2])],
        [f32(4, 2, 3, 2), i32([4, 1])],
    ),
    row("depth_to_space", lambda x: tf.nn.depth_to_space(x, 2), [f32(1, 2, 3, 8)]),
    row("space_to_depth", lambda x: tf.nn.space_to_depth(x, 2), [f32(1, 4, 6, 2)]),
    row("tensor_from_mask", lambda n: tf.cast(tf.sequence_mask(n, 4), tf.float32)[:, :, tf.newaxis], [i32([1, 3])]),
    row(
        "strided_update",
        lambda x: tf.tensor_scatter_nd_update(x, tf.where(x > 0), tf.zeros_like(x)[x > 0]),
        [f32(3, 3)],
    ),
    row("identity_of_no_rank", tf.identity, [X], forms="open unranked"),
    row("ensure_shape", lambda x: tf.ensure_shape(x, [None, 3, 4]) + 1, [X], forms="open old unranked"),
    row("broadcast_shapes", lambda x, y: tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(y)), [X, f32(3, 1)]),
    row("diagonal_part", tf.linalg.diag_part, [f32(2, 3, 3)]),
    row("required_space", lambda x: tf.required_space_to_batch_paddings(tf.shape(x), [2, 3, 3]), [X], forms="static"),
    row(
        "sparse_to_dense",
        lambda i, v: tf.sparse.to_dense(tf.SparseTensor(i, v, [3, 4])),
        [i64([[0, 1], [2, 3]]), f32(2)],
    ),
    row(
        "sparse_matmul",
        lambda i, v, x: tf.sparse.sparse_dense_matmul(tf.SparseTensor(i, v, [3, 4]), x),
        [i64([[0, 1], [2, 3]]), f32(2), f32(4, 2)],
    ),
    row(
        "ragged_to_tensor", lambda v, n: tf.RaggedTensor.from_row_lengths(v, n).to_tensor(0.5), [f32(5), i64([2, 0, 3])]
    ),
    row("ragged_sum", lambda v, n: tf.reduce_sum(tf.RaggedTensor.from_row_lengths(v, n), 1), [f32(5), i64([2, 0, 3])]),
]
