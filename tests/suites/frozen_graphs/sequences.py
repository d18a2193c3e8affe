"""Recurrent layers and attention, as TensorFlow 1 and 2 write them into graphs."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.suites.frozen_graphs.row import f32, i32, row

X = f32(2, 5, 3)
K, R, B = f32(3, 16), f32(4, 16, seed=1), f32(16)


def lstm(x: tf.Tensor) -> tf.Tensor:
    """An LSTM written as a loop over time."""

    def step(states: tuple[tf.Tensor, tf.Tensor], now: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        h, c = states
        i, f, g, o = tf.split(now @ K + h @ R + B, 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        return tf.sigmoid(o) * tf.tanh(c), c

    start = tf.zeros([tf.shape(x)[0], 4])
    return tf.transpose(tf.scan(step, tf.transpose(x, [1, 0, 2]), (start, start))[0], [1, 0, 2])


def attention(q: tf.Tensor, k: tf.Tensor, m: tf.Tensor) -> tf.Tensor:
    scores = tf.matmul(q, k, transpose_b=True) / tf.sqrt(3.0)
    mask = tf.sequence_mask(m, tf.shape(k)[1])[:, tf.newaxis]
    return tf.matmul(tf.nn.softmax(tf.where(mask, scores, -1e9)), k)


def embedding(i: tf.Tensor) -> tf.Tensor:
    return tf.nn.embedding_lookup(f32(7, 3), i)


def positions(x: tf.Tensor) -> tf.Tensor:
    places = tf.cast(tf.range(tf.shape(x)[1]), tf.float32)[:, tf.newaxis]
    return x + tf.sin(places / tf.pow(100.0, tf.range(3.0) / 3.0))


def norm(x: tf.Tensor) -> tf.Tensor:
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5) * f32(3) + f32(3)


ROWS = [
    row("lstm", lstm, [X], [f32(3, 2, 3)], forms="open old"),
    row("attention", attention, [X, X, i32([2, 5])], [X[:, :1], X, i32([1, 3])], forms="static open old"),
    row("embedding", embedding, [i32([[0, 6], [2, 2]])], forms="static open old unranked"),
    row("positions", positions, [X], [f32(1, 9, 3)], forms="static open old"),
    row("layer_norm", norm, [X], forms="static open old"),
    row("reversed_sequences", lambda x, n: tf.reverse_sequence(x, n, 1, 0), [X, i32([2, 5])]),
    row("ctc", lambda x, n: tf.nn.ctc_greedy_decoder(x, n)[0][0].values, [f32(5, 2, 3), i32([5, 3])]),
    row("sampled", lambda x: tf.shape(tf.random.categorical(x, 3)), [f32(2, 4)]),
    row("random_shape", lambda n: tf.shape(tf.random.normal([n, 3])), [i32(4)], forms="static old"),
    row("dropout_off", lambda x: tf.nn.dropout(x, 0.0), [X]),
    row(
        "causal_mask", lambda x: tf.where(tf.linalg.band_part(tf.ones([tf.shape(x)[1]] * 2), -1, 0) > 0, 0.0, -1e9), [X]
    ),
    row("relative_shift", lambda x: tf.reshape(tf.pad(x, [[0, 0], [0, 0], [1, 0]]), [tf.shape(x)[0], -1]), [X]),
    row("last_step", lambda x, n: tf.gather_nd(x, tf.stack([tf.range(tf.shape(x)[0]), n - 1], 1)), [X, i32([2, 5])]),
    row("cosines", lambda a, b: tf.reduce_sum(tf.nn.l2_normalize(a, -1) * tf.nn.l2_normalize(b, -1), -1), [X, X + 1]),
    row(
        "cross_entropy",
        lambda x, t: tf.nn.sparse_softmax_cross_entropy_with_logits(t, x),
        [f32(4, 3), i32([0, 2, 1, 1])],
    ),
    row("binned", lambda x: tf.one_hot(tf.cast(tf.floor(x * 4) + 8, tf.int32), 16), [np.clip(X, -1, 1)]),
]
