"""Whole TensorFlow programs without control flow: indexing, segments, images, linear algebra, layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.suites.programs.tensorflow_program import program

N123 = ({"n": 1}, {"n": 2}, {"n": 5})
WITH_NONE = ({"n": 0}, {"n": 1}, {"n": 3})
I32, I64, BOOL = tf.int32, tf.int64, tf.bool
RANDOM = np.random.default_rng(3)


def weight(*shape: int) -> tf.Tensor:
    return tf.constant(RANDOM.normal(size=shape).astype(np.float32))


KERNEL, BIAS, DENSE = weight(3, 3, 3, 4), weight(4), weight(4, 5)
DEPTH, LINE, CUBE, BACK = weight(3, 3, 3, 2), weight(3, 4, 6), weight(2, 2, 2, 3, 4), weight(3, 3, 2, 3)


def network(x: Any) -> Any:
    h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, KERNEL, 2, "SAME"), BIAS))
    h = tf.nn.max_pool2d(h, 2, 2, "SAME")
    return tf.nn.softmax(tf.matmul(tf.reduce_mean(h, [1, 2]), DENSE))


def two_sizes(x: Any) -> Any:
    return {
        "up": tf.image.resize(x, [7, 9]),
        "near": tf.image.resize(x, [3, 4], "nearest"),
        "cubic": tf.image.resize(x, [8, 8], "bicubic"),
    }


def slices(x: Any) -> Any:
    return {"a": x[:, ::-2], "b": x[..., tf.newaxis, 1:-1], "c": x[-1:, :0], "d": x[:, 10:], "e": x[tf.newaxis, :, -2]}


def slices_of_data(x: Any, i: Any) -> Any:
    return {"a": x[i:], "b": x[:, i], "c": x[: i + 1, i:]}


def computed_places(x: Any, i: Any) -> Any:
    return {
        "dim": tf.expand_dims(x, i[0]),
        "last": tf.expand_dims(x, -1 - i[1]),
        "symmetric": tf.pad(x, [[i[0], i[1]], [i[1], 2]], "SYMMETRIC")[:, :3],
        "reflect": tf.pad(x, [[0, 0], [i[0] + 1, i[1]]], "REFLECT"),
    }


def attention(x: Any) -> Any:
    q, k, v = tf.split(tf.einsum("nti,ij->ntj", x, weight_qkv), 3, -1)
    q, k, v = (tf.reshape(part, [tf.shape(x)[0], -1, 2, 4]) for part in (q, k, v))
    score = tf.einsum("nqhd,nkhd->nhqk", q, k) / 2.0
    return tf.reshape(tf.einsum("nhqk,nkhd->nqhd", tf.nn.softmax(score), v), tf.shape(x))


weight_qkv = weight(8, 24)


def gathers(x: Any, i: Any) -> Any:
    return {
        "rows": tf.gather(x, i),
        "columns": tf.gather(x, i, axis=1),
        "pairs": tf.gather_nd(x, tf.stack([i, i], 1)),
        "batch": tf.gather(x, tf.argsort(x, axis=1)[:, :2], batch_dims=1),
    }


def scatters(x: Any, i: Any) -> Any:
    rows = i[:, None]
    return {
        "made": tf.scatter_nd(rows, x, [4, 3]),
        "added": tf.tensor_scatter_nd_add(tf.ones([4, 3]), rows, x),
        "largest": tf.tensor_scatter_nd_max(tf.zeros([4, 3]), rows, x),
    }


def segments(x: Any, i: Any) -> Any:
    return {
        "sum": tf.math.segment_sum(x, i),
        "mean": tf.math.segment_mean(x, i),
        "max": tf.math.segment_max(x, i),
        "unsorted": tf.math.unsorted_segment_sum(x, i, 4),
        "root": tf.math.unsorted_segment_sqrt_n(x, i, 4),
    }


def solvers(x: Any) -> Any:
    square = tf.matmul(x, x, transpose_b=True) + 3 * tf.eye(3)
    return {
        "inverse": tf.linalg.inv(square),
        "root": tf.linalg.cholesky(square),
        "det": tf.linalg.det(square),
        "solved": tf.linalg.solve(square, x),
        "trace": tf.linalg.trace(square),
        "band": tf.linalg.band_part(x, 1, 0),
    }


def diagonals(x: Any) -> Any:
    return {
        "made": tf.linalg.diag(x, k=1),
        "set": tf.linalg.set_diag(tf.ones([tf.shape(x)[0], 3, 3]), x),
        "part": tf.linalg.diag_part(tf.linalg.diag(x)),
        "full": tf.linalg.diag(x, k=-1, padding_value=7.0),
    }


def one_hots(i: Any, k: Any) -> Any:
    return {"known": tf.one_hot(i, 4), "open": tf.one_hot(i, k, 2.0, -1.0), "first": tf.one_hot(i, k, axis=0)}


def dims_of_data(x: Any) -> Any:
    n, m = tf.shape(x)[0], tf.shape(x)[1]
    flat = tf.reshape(x, [n * m])
    return {
        "flat": flat,
        "tiled": tf.tile(x, [1, n]),
        "zeros": tf.zeros([m, n]),
        "range": tf.range(n * m),
        "back": tf.reshape(flat, tf.stack([m, -1])),
    }


def boxes(b: Any, s: Any) -> Any:
    return tf.image.non_max_suppression(b, s, 3, 0.4, 0.2)


def strings(x: Any) -> Any:
    return {"joined": tf.strings.join([x, x], "-"), "equal": tf.equal(x, "a")}


def casts(x: Any) -> Any:
    return {
        "int": tf.cast(x, I32),
        "bool": tf.cast(x, BOOL),
        "half": tf.cast(tf.cast(x, tf.float16), tf.float32),
        "wide": tf.cast(x, tf.float64) / 3,
        "round": tf.round(x * 2.5),
        "floor": tf.math.floordiv(x, 0.3),
    }


def integers(x: Any, z: Any) -> Any:
    return {
        "floor": x // z,
        "mod": x % z,
        "truncated": tf.truncatediv(x, z),
        "shift": tf.bitwise.left_shift(x, 2),
        "power": tf.pow(x, 2),
        "xor": tf.bitwise.bitwise_xor(x, z),
    }


def moments(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [0, 1], keepdims=True)
    return {
        "n": (x - mean) * tf.math.rsqrt(variance + 1e-3),
        "l2": tf.math.l2_normalize(x, -1),
        "log": tf.reduce_logsumexp(x, -1),
        "std": tf.math.reduce_std(x, 0),
    }


def sorted_parts(x: Any) -> Any:
    values, places = tf.math.top_k(x, 2)
    return {
        "values": values,
        "places": places,
        "sorted": tf.sort(x, direction="DESCENDING"),
        "order": tf.argsort(x),
        "median": tf.sort(x)[:, 2],
    }


def masks(x: Any) -> Any:
    return {"kept": tf.boolean_mask(x, x[:, 0] > 0), "where": tf.where(x > 0), "some": tf.where(x > 0, x, 0.0)}


def uniques(x: Any) -> Any:
    y, places = tf.unique(x)
    return {"y": y, "places": places, "counts": tf.math.bincount(x, minlength=3, maxlength=3)}


def layers_1d(x: Any) -> Any:
    h = tf.nn.conv1d(x, LINE, 1, "SAME", dilations=2)
    return tf.nn.leaky_relu(h, 0.1) + tf.nn.pool(h, [2], "MAX", [1], "SAME")


def layers_3d(x: Any) -> Any:
    h = tf.nn.conv3d(x, CUBE, [1, 1, 1, 1, 1], "SAME")
    return {"leaky": tf.nn.leaky_relu(h, 0.2), "pool": tf.nn.avg_pool3d(h, 2, 2, "VALID")}


def depthwise(x: Any) -> Any:
    h = tf.nn.depthwise_conv2d(x, DEPTH, [1, 2, 2, 1], "SAME")
    return tf.nn.relu6(h + 1.0)


def transposed(x: Any) -> Any:
    n, h, w = tf.unstack(tf.shape(x)[:3])
    return tf.nn.conv2d_transpose(x, BACK, [n, h * 2, w * 2, 2], 2, "SAME")


def keras_functional() -> Any:
    layers = tf.keras.layers
    x = tf.keras.Input((8, 8, 3))
    shared = layers.Conv2D(4, 3, padding="same", activation="gelu")
    h = layers.BatchNormalization()(shared(x))
    h = layers.Concatenate()([h, shared(x[:, ::-1])])
    h = layers.Dropout(0.5)(layers.ZeroPadding2D(1)(h))
    model = tf.keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling2D()(h)))
    return lambda x: model(x, training=False)


def keras_recurrent() -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [tf.keras.Input((None, 4)), layers.Bidirectional(layers.LSTM(3, return_sequences=True)), layers.GRU(5)]
    )
    return lambda x: model(x, training=False)


def keras_attention() -> Any:
    attend = tf.keras.layers.MultiHeadAttention(2, 4)
    attend.build((None, None, 8), (None, None, 8))
    return lambda x: attend(x, x)


def keras_subclassed() -> Any:
    class Net(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = tf.keras.layers.Dense(4, "relu"), tf.keras.layers.Dense(4)

        def call(self, x: Any, training: bool = False) -> Any:
            h = self.first(x)
            return self.second(h) * (2.0 if training else 1.0) + h

    net = Net()
    net(tf.zeros([1, 3]))
    return lambda x: net(x)


def keras_volume() -> Any:
    layers = tf.keras.layers
    x = tf.keras.Input((4, 5, 6, 2))
    h = layers.Conv3D(3, 3, use_bias=False)(layers.ZeroPadding3D(1)(x))
    model = tf.keras.Model(x, layers.LeakyReLU(0.3)(h))
    return lambda x: model(x, training=False)


T = ({"n": 1, "t": 1}, {"n": 2, "t": 3}, {"n": 3, "t": 4})
VALUES = [
    program("network", network, {"x": ("n", 9, 8, 3)}, *N123),
    program(
        "network_of_any_size", network, {"x": ("n", "h", "w", 3)}, {"n": 1, "h": 5, "w": 6}, {"n": 2, "h": 8, "w": 7}
    ),
    program("resizes", two_sizes, {"x": ("n", 5, 6, 2)}, *N123),
    program("slices", slices, {"x": ("n", 6)}, *N123),
    program("slices_of_data", slices_of_data, {"x": ("n", 6), "i": (I32,)}, *N123, given={"i": [0, 1, 3]}),
    program("attention", attention, {"x": ("n", "t", 8)}, *T),
    program("gathers", gathers, {"x": (4, 4), "i": ("k", I32)}, {"k": 1}, {"k": 3}, {"k": 0}),
    program("scatters", scatters, {"x": ("k", 3), "i": ("k", I32)}, {"k": 1}, {"k": 4}, {"k": 0}),
    program(
        "segments", segments, {"x": ("k", 3), "i": ("k", I32)}, {"k": 4}, {"k": 2}, given={"i": [[0, 0, 1, 3], [0, 1]]}
    ),
    program("solvers", solvers, {"x": ("n", 3, 3)}, *N123),
    program("diagonals", diagonals, {"x": ("n", 3)}, *N123),
    program("one_hots", one_hots, {"i": ("n", I32), "k": (I32,)}, *N123, given={"k": [3, 5, 1]}),
    program("dims_of_data", dims_of_data, {"x": ("n", "t")}, *T),
    program("non_max_suppression", boxes, {"b": ("k", 4), "s": ("k",)}, {"k": 1}, {"k": 6}),
    program(
        "strings", strings, {"x": ("n", tf.string)}, *N123, given={"x": [["a"], ["a", "b"], ["", "a", "cat", "b", "c"]]}
    ),
    program("casts", casts, {"x": ("n",)}, *N123),
    program(
        "integers", integers, {"x": (4, I32), "z": (4, I32)}, {}, given={"x": [[-7, 7, -7, 7]], "z": [[2, -2, -2, 2]]}
    ),
    program("moments", moments, {"x": ("n", "t", 4)}, {"n": 2, "t": 3}, {"n": 3, "t": 1}),
    program("sorted_parts", sorted_parts, {"x": ("n", 5)}, *WITH_NONE),
    program("masks", masks, {"x": ("n", 3)}, *WITH_NONE),
    program("uniques", uniques, {"x": ("n", I32)}, {"n": 1}, {"n": 7}),
    program("convolution_of_a_line", layers_1d, {"x": ("n", "t", 4)}, {"n": 1, "t": 5}, {"n": 2, "t": 8}),
    program("convolution_of_a_volume", layers_3d, {"x": ("n", 4, 5, 6, 3)}, *N123),
    program("depthwise_convolution", depthwise, {"x": ("n", "h", 7, 3)}, {"n": 1, "h": 5}, {"n": 2, "h": 8}),
    program("transposed_convolution", transposed, {"x": ("n", "h", 3, 3)}, {"n": 1, "h": 2}, {"n": 2, "h": 5}),
    program(
        "einsum_with_dots",
        lambda x, z: tf.einsum("...ij,...jk->...ik", x, z),
        {"x": ("n", 2, 3), "z": ("n", 3, 4)},
        *N123,
    ),
    program("einsum_of_a_diagonal", lambda x: tf.einsum("nii->ni", x), {"x": ("n", 3, 3)}, *N123),
    program("tensordot", lambda x: tf.tensordot(x, weight_qkv, [[2], [0]]), {"x": ("n", "t", 8)}, *T),
    program(
        "batched_products",
        lambda x, z: tf.matmul(x, z, transpose_b=True) + 1.0,
        {"x": ("n", 1, "t", 3), "z": (1, 2, 4, 3)},
        *T,
    ),
    program(
        "cumulative",
        lambda x: {"a": tf.cumsum(x, 1, exclusive=True, reverse=True), "b": tf.math.cumprod(x, 0)},
        {"x": ("n", 4)},
        *N123,
    ),
    program(
        "padded",
        lambda x: {
            "r": tf.pad(x, [[0, 0], [2, 1]], "REFLECT"),
            "s": tf.pad(x, [[0, 0], [2, 1]], "SYMMETRIC"),
            "c": tf.pad(x, [[1, 0], [0, 2]], constant_values=3.0),
        },
        {"x": ("n", 4)},
        *N123,
    ),
    program(
        "space_and_depth",
        lambda x: {"s": tf.nn.space_to_depth(x, 2), "b": tf.space_to_batch(x, [2, 2], [[0, 0], [0, 2]])},
        {"x": ("n", 4, 6, 2)},
        *N123,
    ),
    program(
        "sequence_masks",
        lambda i: {"m": tf.sequence_mask(i, 5), "o": tf.sequence_mask(i, dtype=tf.float32)},
        {"i": ("n", I32)},
        *N123,
        below=6,
    ),
    program(
        "reversed_sequences",
        lambda x, i: tf.reverse_sequence(x, i, seq_axis=1),
        {"x": ("n", 4, 2), "i": ("n", I32)},
        *N123,
        below=4,
    ),
    program(
        "roll_and_stack", lambda x: tf.stack([tf.roll(x, 2, 1), tf.roll(x, [1, -1], [0, 1])], 1), {"x": ("n", 5)}, *N123
    ),
    program(
        "complex_numbers",
        lambda x: {"a": tf.abs(tf.signal.rfft(x)), "b": tf.signal.irfft(tf.signal.rfft(x) * 2.0)},
        {"x": ("n", 8)},
        *N123,
    ),
    program(
        "mean_of_nothing",
        lambda x: {"m": tf.reduce_mean(x, 1), "s": tf.reduce_sum(x, 1), "p": tf.reduce_prod(x, 1)},
        {"x": ("n", "t")},
        {"n": 2, "t": 0},
        {"n": 2, "t": 3},
    ),
    program(
        "integer_pool", lambda x: tf.nn.max_pool2d(tf.cast(x, tf.int32), 2, 2, "VALID"), {"x": ("n", 4, 4, 2)}, *N123
    ),
    program("computed_places", computed_places, {"x": ("n", 4), "i": (2, I32)}, *N123, below=2),
    program("keras_functional", keras_functional, {"x": ("n", 8, 8, 3)}, *N123, build=True),
    program("keras_recurrent", keras_recurrent, {"x": ("n", "t", 4)}, *T, build=True),
    program("keras_attention", keras_attention, {"x": ("n", "t", 8)}, *T, build=True),
    program("keras_subclassed", keras_subclassed, {"x": ("n", 3)}, *WITH_NONE, build=True),
    program("keras_volume", keras_volume, {"x": ("n", 4, 5, 6, 2)}, *N123, build=True, eager=True),
]
